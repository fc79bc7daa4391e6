/* to.h - writes the files that results go to (the job key `to`). OUTPUT has copies of small results, and virtual data
 * sets that show large ones.
 *
 * Each file is published like OUTPUT (output.h), just before it. If one of a file's results was not made, the file is
 * not written, and OUTPUT holds the others. Each data set has the key of its task as an attribute, by which --resume
 * recognizes the file as this job's. */
#ifndef RUNNER_TO_H
#define RUNNER_TO_H

#include "results.h"

struct to_file {
    struct destination destination;
    char *real;             /* its absolute path, with links of folders followed: identifies the file */
    char *unfinished;       /* the path at which it is written; to_put renames it */
    int first, last, count; /* its operations: to_files.next links them */
    bool written;           /* all its results were made, so it is written */
};

struct to_files {
    int count;
    struct to_file *items;
    int *next;              /* next[operation]: the next operation of the same file; -1: it is the last */
    int *file_of_operation; /* by operation: the number of its file; -1: it has no `to` */
};

/* Finds the files and checks that they may be written. STATUS_USAGE: one must not be replaced or cannot be written, or
 * two results go to one place by different names. Call to_open before the lock is taken, and to_begin after. */
enum status to_open(struct results *results, struct error *error);
enum status to_begin(const struct results *results, struct error *error);
/* Removes unfinished files; frees nothing, since other threads may still write them. The lock must be held; a shard's
 * lock suffices, because it excludes `merge` and whole jobs. */
void to_leave(const struct results *results);
/* Frees results->to. */
void to_close(struct results *results);

/* With --resume, after the inputs were hashed and OUTPUT was opened: sets *done to false if a file lacks results that
 * the job writes to it, or that OUTPUT refers to in it. STATUS_USAGE: a file belongs to another job, and may not be
 * overwritten. */
enum status to_resume(const struct results *results, bool *done, struct error *error);

/* Decides which files are written: those whose results were all made. Reports the others. */
void to_select(struct results *results, const struct result_summary *summary);
/* Does the result of a task go to a file that is written? */
bool to_has(const struct results *results, int task);
/* Is this run's output a result that goes to a written file? */
bool to_takes(const struct results *results, const struct result_summary *summary, const struct run *run);
/* Writes the unfinished files. `adopting`: only the file that begins as a renamed part (results->adopted); else all
 * others. Fails with STATUS_IO. */
enum status to_write(const struct results *results, const struct result_summary *summary, bool adopting,
                     struct error *error);
/* Is the result so large that OUTPUT gets a virtual data set of it instead of a copy? */
bool to_shows(const struct results *results, int task);
/* Creates that virtual data set at `path` in OUTPUT. */
enum status to_show(const struct results *results, int task, hid_t file, const char *path, struct error *error);
/* Names the file and the data set of the result in attributes of the output at `path`. */
enum status to_name(const struct results *results, int task, hid_t file, const char *path, struct error *error);
/* Renames the unfinished files to their final names. STATUS_IO: another process has written such a file
 * while the job ran, or it cannot be renamed. */
enum status to_put(const struct results *results, struct error *error);

#endif
