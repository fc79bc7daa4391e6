/* result_parts.h - what the files of the result module share: result.c (the place, the lock, keys), result_part.c (one
 * run's file), result_assemble.c (the final file), result_table.c (the table of runs, as HDF5, CSV and JSON). */
#ifndef RUNNER_RESULT_PARTS_H
#define RUNNER_RESULT_PARTS_H

#include "result.h"

#define RESULT_SCHEMA "tilerun-results"
#define PART_SCHEMA   "tilerun-part"

struct results {
    char *output, *folder; /* OUTPUT and the folder it is in */
    char *parts;           /* OUTPUT.parts */
    int lock;              /* descriptor of OUTPUT.parts/lock */
    const struct plan *plan;
    bool *kept; /* for each task: an earlier run's part holds its result */
};

/* OUTPUT.parts/KEY + suffix; the caller frees. */
char *results_part_path(const struct results *results, const struct run *run, const char *suffix);
/* Makes a rename in a folder last. */
enum status results_sync_folder(const char *folder, struct error *error);

/* Removes our own files from the folder of parts: what killed writers left, and with `finished` the parts too. */
void results_clear(const struct results *results, bool finished);

/* One hash of all runs' keys: what a finished results file stands for. */
void results_plan_key(const struct plan *plan, char key[33]);

/* Writes rows as the table /runs of a file. */
enum status result_write_rows(hid_t file, const struct result_row *rows, int count, struct error *error);
/* Reads it; `path` is for messages. The caller frees rows. */
enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error);

#endif
