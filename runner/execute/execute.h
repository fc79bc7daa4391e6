/* execute.h - carries out a plan: finds the part of each unit, or streams, verifies, measures and keeps it; then
 * publishes the results file. Shards keep parts only, and `merge` publishes what they have kept. */
#ifndef RUNNER_EXECUTE_H
#define RUNNER_EXECUTE_H

#include "../base/progress.h"
#include "../store/store.h"

struct execute_options {
    bool overwrite, resume;
    const struct shard *shard; /* compute only its units and publish nothing; NULL: the whole job */
    double wait_s;             /* how long a shard waits for a result of another */
    bool merge;                /* run nothing; publish the parts that exist; needs `resume` */
    bool link;                 /* for `merge`: outputs stay in the parts, and virtual data sets show them */
    bool partial;              /* for `merge`: publish even if units are missing; the status is then "partial" */
    const char *later;         /* for `merge`: the folder of a shard that has since begun another job; NULL: none */
    bool single;               /* no later call can continue this job, so a signal's message does not advise --resume */
    bool restricted;           /* `--only` left something out: the results are "partial" */
    const char *unreadable;    /* why operations with unreadable inputs were left out; NULL: none were */
    int retry;                 /* how often a run may be timed again; its last timing counts */
    /* With `retry`: must the run be timed again, judged by its row and samples? NULL: only its flags decide. */
    bool (*undecided)(void *context, const struct result_row *row, const struct samples *samples);
    void *context;       /* of `undecided` */
    const char *profile; /* the operation whose first launch a profiler records; NULL: none */
    enum progress_mode progress;
    const char *trace; /* path of the timeline's file; NULL: none */
    const char *command_line;
    /* Prints rows: a shard's own, or those of the whole job. Called after a signal and, with `shows`, at the end. */
    bool shows;
    void (*print)(const struct result_row *rows, int count, FILE *to);
};

/* Executes a plan. *wrote (may be NULL): a results file was written, or a shard's runs; false: the existing results
 * file was complete.
 * STATUS_RUN: a run failed or was wrong. STATUS_INTERRUPTED: a signal came or a shard has waited too long; the message
 * is printed, and `resume` continues with the remaining runs. STATUS_IO, for `merge`: parts are missing. If a launch
 * does not stop after a signal, the process ends (interrupt.h). */
enum status execute_plan(const struct units *units, const struct execute_options *options, bool *wrote,
                         struct error *error);

#endif
