/* results.h - struct results, and what the files of store/ do with it. From the bottom up: key.c (keys), inputs.c
 * (hashes that parts keep), seal.c (makes files durable and checks them), folder.c (the contents of OUTPUT.parts),
 * manifest.c (a shard's job and machine), lock.c, part.c (one unit's file), units.c (finds units, combines those of a
 * run, and notes those that took too long), previous_output.c (an existing OUTPUT), await.c (units that other shards
 * make), survey.c (missing units), scales.c, output.c (publishes a file and copies parts' data to it), to.c (files of
 * the key `to`), publish.c (OUTPUT), store.c (opens and closes a job's results). */
#ifndef RUNNER_RESULTS_H
#define RUNNER_RESULTS_H

#include "../base/destination.h"
#include "../base/texts.h"
#include "../record/provenance.h"
#include "../storage/h5/h5attribute.h"
#include "../storage/h5/h5file.h"
#include "folder.h"
#include "key.h"
#include "seal.h"
#include "store.h"
#include "survey.h"

/* An existing OUTPUT of this job. */
struct previous {
    hid_t file;
    bool complete; /* by its status */
    struct result_row *rows;
    int count;
};

/* A part in OUTPUT.parts. */
struct found_part {
    char key[33];
    char *path;
    struct timespec written;
    bool checked; /* its hash was found to be right */
};

/* OUTPUT.parts, and this process's folder and locks in it. */
struct parts_folder {
    char *root;      /* its path, beside the target if OUTPUT is a link */
    char *parts;     /* the folder that this process writes parts to: `root`, or its shard's folder in it */
    int lock;        /* descriptor of `parts`/lock; -1: not taken */
    int shared_lock; /* a shard's descriptor of `root`/lock; -1: not taken */
    bool cleared;    /* all parts were removed */
};
/* With --resume: the parts that were in OUTPUT.parts at the start, also those of shards, sorted by key. */
struct found_parts {
    int count;
    struct found_part *items;
};
/* Facts about units that this process has found or made. */
struct known_units {
    bool *kept;   /* kept[task]: a part holds the result of the units' task */
    bool *seen;   /* seen[run of a unit]: it was finished before */
    bool *in_one; /* in_one[run of the whole]: one part has all of it, although it has several units */
    bool reused;  /* a finished unit was found */
    bool stopped; /* the shard's manifest gets the reason why it ends */
};

struct results {
    struct destination output; /* OUTPUT */
    struct parts_folder folder;
    struct store_policy policy;
    bool linked; /* the OUTPUT that is there shows the parts, which must stay */
    char job_sha256[65];
    const struct units *units;
    const struct plan *plan;   /* the whole plan, whose runs OUTPUT records */
    const struct shard *shard; /* NULL: the whole job */
    struct readers *readers;
    struct keys *keys;
    struct found_parts found;
    struct known_units known;
    struct previous *previous; /* NULL: none */
    struct to_files *to;       /* files that results go to; NULL: none */
    const struct run *adopted; /* whose part becomes one of the published files; NULL: none */
};

/* Creates the folders and takes the locks. STATUS_USAGE: another process has a lock, or a folder is unusable. */
enum status results_acquire_lock(struct results *results, struct error *error);

/* Counts the parts and the foreign files in results->folder.parts, with the folders of shards in it. STATUS_USAGE:
 * something has one of tilerun's names but is not a regular file. */
enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error);
/* Removes tilerun's own files from results->folder.parts: temporary files that killed writers left; with `finished`
 * also the parts, and the folders of shards with their manifests. */
void results_clear(struct results *results, bool finished);

/* Does what shards_find_job does, in the folder OUTPUT.parts. */
bool manifests_find_job(const char *root, struct shard_job *job);
/* A text attribute of the manifest in a shard's folder; NULL: the shard has not begun, or there is no such attribute.
 * The caller frees. */
char *manifest_text(const char *folder, const char *attribute);
/* The resolved text of its job, if that has this hash (NULL: any); else NULL. The caller frees. */
char *manifest_resolved(const char *folder, const char *sha256);
/* Copies the attributes of the shards' manifests to /shards, with the numbers of the runs that came from each. */
enum status shards_write_origins(hid_t file, const struct results *results, struct error *error);
/* Fills results->found, and frees it. */
void found_parts_fill(struct results *results);
void found_parts_free(struct results *results);
/* Has a shard made one of the job's results since that time? */
bool shards_made_since(const struct results *results, const struct timespec *time);

/* Return the path where the part of a unit, or of a whole run, is or will be. The caller frees. */
char *results_unit_path(const struct results *results, const struct run *unit);
char *results_run_path(const struct results *results, const struct run *whole);
/* Like results_unit_path, but by the unit's key; KEY.h5. */
char *results_part_of_key(const struct results *results, const char key[33]);
/* Was the hash of the part at this path found to be right already? */
bool results_part_checked(const struct results *results, const char *path);
/* Records the new path of the part of that key, which replaces a damaged part in another folder. */
void results_part_made(const struct results *results, const char key[33], const char *path);

/* Writes to a part which inputs its task read: attribute `inputs` (inputs.c). */
enum status inputs_write(hid_t part, const struct results *results, const struct task *task, struct error *error);
/* Will the output of this run be read, if it is right? Never that of a roof. */
bool unit_wants_output(const struct results *results, const struct run *unit);
/* Reads the row of an undamaged part; false: the part is damaged or gone. *has_output: it holds the run's output. */
bool part_read_row(const struct results *results, const char *path, struct result_row *row, bool *has_output);
/* Makes the part of a run of the whole from an earlier OUTPUT, the open file `from`. `output`: the run's data set in
 * it; NULL: the part gets no output. */
enum status part_import(struct results *results, const struct run *whole, const struct result_row *row, hid_t from,
                        const char *output, struct error *error);
/* Closes the readers of all results, which read parts. */
void results_close_outputs(const struct results *results);
/* Does each unit of the run, a panel, have a part of its own? */
bool run_is_in_panels(const struct results *results, const struct run *whole);
/* The part of a run, or the parts of its panels, with the box of the run's output that each holds. Free with
 * run_parts_free. */
struct run_parts {
    int count;
    struct run_part {
        char *path;
        struct box box;
    } * items;
};
struct run_parts parts_of_run(const struct results *results, const struct run *whole);
void run_parts_free(struct run_parts *parts);
/* Puts data sets `name` of the parts together in a new data set, the output of the plan's task of that number. */
enum status output_join(const struct plan *plan, int number, const struct run_parts *parts, const char *name,
                        hid_t file, const char *path, struct error *error);
/* Writes the samples of the run: the sums of its panels' samples. */
enum status panels_write_samples(const struct results *results, const struct run *whole, hid_t file, const char *path,
                                 struct error *error);
/* Writes the rows of panels as the table /panels; `unit_rows`: by run of a unit. */
enum status panels_write_rows(hid_t file, const struct results *results, const struct result_row *unit_rows,
                              struct error *error);

/* Is there a linked results file at `path`, which needs its parts? */
bool link_is_at(const char *path);
/* Marks a results file as linked: writes the name of the folder of parts to it. */
enum status link_mark(const struct results *results, hid_t file, struct error *error);
/* Is the file at `path` a results file? If not, sets `instead` to what it is: "is not an HDF5 file". */
bool results_are_at(const char *path, char instead[512]);
/* STATUS_USAGE: the destination is the job file, or a file from which the job's inputs are read, under any name or
 * link. */
enum status check_not_an_input(const struct destination *destination, const struct plan *plan, struct error *error);
/* Opens the existing OUTPUT if all its runs are runs of this job. *done: OUTPUT lacks no run, output or tag of the job;
 * with `restricted` its status may be "partial". STATUS_USAGE: OUTPUT is not this job's, and `overwrite` was not given;
 * with it OUTPUT is ignored. */
enum status previous_open(struct results *results, bool restricted, bool *done, struct error *error);
void previous_close(struct previous *previous);
/* Why the results in an open file are not this job's: "is another job, or an earlier version of this one (...)".
 * `sha256`: of `resolved`, the resolved text of its job; both may be NULL. The caller frees. */
char *results_difference(const struct results *results, hid_t file, const char *sha256, const char *resolved);
/* The first key whose value differs between the resolved texts of two jobs: "`repeat: 1` there, `repeat: 3` here";
 * "`shape` differs" if a value is long. NULL: no value of a key does, or `there` is NULL. The caller frees. */
char *resolved_difference(const char *there, const char *here);
/* Makes parts of the finished runs that OUTPUT holds, this process needs and that have no part; notes runs that timed
 * out. */
enum status previous_import(struct results *results, struct error *error);

/* Writes a data set of one dimension. */
enum status results_write_vector(hid_t file, const char *path, enum dtype dtype, int64_t count, const void *data,
                                 const char *units, struct error *error);

#endif
