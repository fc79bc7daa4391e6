/* survey.h - examines an unfinished job: the shards that have begun it, and its parts. Locks and changes nothing. */
#ifndef RUNNER_STORE_SURVEY_H
#define RUNNER_STORE_SURVEY_H

#include "../divide/units.h"
#include "../record/row.h"
#include "folder.h"

/* The job that shards have begun beside OUTPUT, as they run it, and the devices that they may use. */
struct shard_job {
    char *path, *text, *resolved; /* the job file's path and text; the text after parameters and the command line */
    bool partial;
    int shards;       /* number of shards that the units are dealt out to */
    int divided;      /* number of shards that the units were made for */
    enum shard_by by; /* what is dealt out */
    bool present[2];  /* indexed by enum kernel_device, like `facts` */
    struct device_facts facts[2];
    char *later;                /* the folder of a shard of another, later job; NULL: none */
    struct shard_state *states; /* one for each shard */
};
/* The state of a shard, from its manifest. */
struct shard_state {
    bool begun, done; /* `done`: all its units are done */
    char *host, *log; /* where it ran, and the file that its stderr went to; NULL: not known */
    char *stopped;    /* why it ended before its last run; NULL: it did not, or a signal or a crash ended it */
    int32_t *units;   /* the numbers of its runs of units */
    int unit_count;   /* 0: not known */
    bool at_work;     /* only in a survey: is its lock held? */
    int lacks;        /* only in a survey: number of its units that have no part */
};
/* Finds the job of the shards whose manifests are in OUTPUT.parts. Among jobs all of whose shards have begun,
 * chooses the one that a shard began last; if there is none, the one of which most shards have begun. false: there are
 * no manifests, or the chosen one is incomplete. Free with shard_job_free, whatever it returns. */
bool shards_find_job(const char *output, struct shard_job *job);
void shard_job_free(struct shard_job *job);
/* Finds how earlier shards, more or fewer than `shards` (0: any number), divided this job: units_make(plan, *divided,
 * *by) makes the units that they finished. *by: what must have been dealt out, SHARD_AUTO: anything; becomes what was.
 * false: there are no such shards, or they dealt out something else. */
bool shards_find_division(const char *output, const struct job *job, int shards, int *divided, enum shard_by *by);

/* A part, as `show` sees it. */
struct survey_part {
    char *path;
    struct timespec written;
    struct result_row row;
    int runs, skipped; /* the job's runs of units, and those that cannot run; -1: a part of an earlier version */
};
/* The state of the job that was begun last in OUTPUT.parts. */
struct survey {
    int count, results;        /* number of undamaged parts, and of parts whose run made a result */
    struct survey_part *parts; /* sorted by number of run: only the newest part of a run */
    int runs, skipped;         /* the job's; -1: not known */
    bool at_work;              /* a process holds the lock of OUTPUT.parts */
    int shard_count;           /* 0: there are no shards */
    struct shard_job job;
    bool complete; /* all shards have finished and all parts are there: `merge` can join them */
};
/* Surveys the job. false: there is no OUTPUT.parts of tilerun's. Free with survey_free, whatever it returns. */
bool store_survey(const char *output, struct survey *survey);
void survey_free(struct survey *survey);
/* "tilerun run /data/job.yaml -o out.h5 --resume". JOB stands for a job path that is NULL or where there is no file.
 * The caller frees. */
char *job_resume_command(const char *job_path, const char *output);

#endif
