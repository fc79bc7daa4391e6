/* result_parts.h - what the files of the result module share: result.c (opening and closing), result_place.c (the
 * folder of parts and its lock), result_key.c (keys), result_former.c (an earlier, unfinished OUTPUT), result_part.c
 * (one run's file), result_assemble.c (the final file), result_table.c (the table of runs, as HDF5, CSV and JSON). */
#ifndef RUNNER_RESULT_PARTS_H
#define RUNNER_RESULT_PARTS_H

#include "../base/place.h"
#include "../storage/h5io.h"
#include "result.h"

#define RESULT_SCHEMA "tilerun-results"
#define PART_SCHEMA   "tilerun-part"

struct keys;   /* of a job's tasks and runs, each computed once */
struct former; /* an OUTPUT of this job that lacks runs */

struct results {
    struct place place; /* OUTPUT */
    char *parts;        /* OUTPUT.parts, beside the file itself where OUTPUT is a link */
    int lock;           /* descriptor of OUTPUT.parts/lock; -1: not taken */
    bool overwrite;     /* may OUTPUT be anybody's */
    bool cleared;       /* all parts were removed */
    const struct plan *plan;
    struct readers *readers;
    struct keys *keys;
    struct former *former;      /* NULL: none */
    struct h5_journal *journal; /* of the part that is being made OUTPUT; NULL: none */
    bool *kept;                 /* for each task: an earlier run's part holds its result */
};

/* Takes the lock, making OUTPUT.parts; STATUS_USAGE: another has it, or the folder will not do. */
enum status results_take_lock(struct results *results, struct error *error);

/* Counts the parts, and what is not ours. STATUS_USAGE: something bears one of our names that cannot be ours. */
enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error);
/* Removes our own files from the folder of parts: what killed writers left, and with `finished` the parts too. */
void results_clear(struct results *results, bool finished);

/* OUTPUT.parts/KEY + suffix; the caller frees. */
char *results_part_path(const struct results *results, const struct run *run, const char *suffix);
/* Makes a rename in a folder last. */
enum status results_sync_folder(const char *folder, struct error *error);

/* Keys: hex digits of a hash of all that a result depends on. What a task reads must have been hashed when its key, or
 * that of one of its runs, is asked for. */
struct keys *keys_create(const struct plan *plan, const struct readers *readers);
void keys_free(struct keys *keys);
/* A run's own: the name of its part. */
void keys_of_run(struct keys *keys, const struct run *run, char key[33]);
/* One hash of the keys of all tasks (NULL), or of those that `tasks` marks: what a results file stands for. */
void keys_of_tasks(struct keys *keys, const bool *tasks, char key[33]);

/* Is there a results file? If not `instead` says what the file is: "is not an HDF5 file". */
bool results_are_at(const char *path, char instead[512]);
/* Opens the OUTPUT that is there if its runs are all runs of this job too. *done: it lacks none. STATUS_USAGE: it is
 * another's, and was not to be overwritten. */
enum status former_open(struct results *results, bool restricted, bool *done, struct error *error);
void former_close(struct former *former);
/* The row of a run that was `ok`; *has_output: its output is stored. */
bool former_find(const struct results *results, const struct run *run, struct result_row *row, bool *has_output);

/* Where in an open file the data of a run are; names of what is not there may be given. */
struct stored {
    hid_t file;
    char output[512], seconds[64], clock_mhz[64];
};
/* Those that the former OUTPUT holds of a run. */
bool former_stored(const struct results *results, const struct run *run, struct stored *stored);

/* "/outputs/n=512/product"; the caller frees. */
char *results_path_of(const char *root, const char *label, const char *name);

/* Writes rows as the table /runs of a file. */
enum status result_write_rows(hid_t file, const struct result_row *rows, int count, struct error *error);
/* Reads it; `path` is for messages. The caller frees rows. */
enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error);

#endif
