/* to.h - the files that results go to (`to`), of which OUTPUT has a copy or, where they are large, virtual data sets
 * (link.h).
 *
 * Each is written during the assembly, under another name in its folder, and renamed just before OUTPUT is. Of large
 * results the largest is not copied: its part becomes the file, and a kill between that rename and OUTPUT's costs that
 * run. Where one of a file's results was not made the file is not written: OUTPUT then holds those that were. Each
 * data set has the key of its task as an attribute, by which --resume knows the file as this job's. */
#ifndef RUNNER_TO_H
#define RUNNER_TO_H

#include "results.h"

struct to_file {
    struct destination place;
    char *real;       /* its absolute path, links of folders followed: by it files are told apart */
    char *unfinished; /* where it is written at first */
    int first, count; /* its operations, in `sorted` */
    bool written;
    const struct run *adopted; /* whose part becomes the file (to_adopt); NULL: none */
};

struct to_files {
    int count;
    struct to_file *of;
    int *sorted;       /* operations, those of a file together, in their order */
    int *of_operation; /* the number of its file; -1: none */
};

/* Finds the files, and looks whether they may be written. STATUS_USAGE: one must not be replaced or cannot be written,
 * or two results go to one place by different names. Call it before the lock is taken, and to_begin with the lock. */
enum status to_open(struct results *results, bool resume, struct error *error);
enum status to_begin(struct results *results, bool resume, struct error *error);
/* Removes unfinished files; frees nothing, since other threads may still write them. The lock must be held: a
 * shard's will do, since no merge and no whole run goes on while it is. */
void to_leave(const struct results *results);
void to_close(struct results *results);

/* With --resume, after inputs were hashed and OUTPUT was looked at: sets *done to false if a file is not as OUTPUT
 * says, or as the job does now. STATUS_USAGE: one is not this job's, and may not be overwritten. */
enum status to_resume(const struct results *results, bool *done, struct error *error);

/* Opens a finished file that tilerun has written for `to`; negative: it is none. Close with H5Fclose. */
hid_t to_open_written(const char *path);
/* STATUS_USAGE: the file that is there must not be replaced. */
enum status to_refuse(const struct to_file *file, bool resume, struct error *error);

/* Writes all files. STATUS_IO. */
enum status to_write(struct results *results, const struct result_summary *summary, struct error *error);
/* Has to_write written the result of a task? */
bool to_has(const struct results *results, int task);
/* Is it so large that OUTPUT shows it instead of having a copy? */
bool to_shows(const struct results *results, int task);
/* Makes `path` in OUTPUT a virtual data set that shows it. */
enum status to_show(const struct results *results, int task, hid_t file, const char *path, struct error *error);
/* Writes where it lies to attributes of the output at `path`. */
enum status to_name(const struct results *results, int task, hid_t file, const char *path, struct error *error);
/* Does the part of a result become one of the files? */
bool to_adopts(const struct results *results);
/* When all else of OUTPUT is written, makes that part the file that it becomes. If that fails, as on a full disk, the
 * part is restored, as one that becomes OUTPUT is. */
enum status to_adopt(struct results *results, const struct result_summary *summary, struct error *error);
/* Gives the files their names. *final: the part that becomes a file is one now. STATUS_IO. */
enum status to_put(const struct results *results, bool *final, struct error *error);

#endif
