/* h5guard.h - guards reading: follows the references from a data set to other files before HDF5 does, and refuses those
 * that are not permitted: a file outside the folder, unless the job's key `external` allows it; a file that is not
 * regular, such as a pipe; and a virtual data set that reads itself. References are external links, the sources of
 * virtual data sets, and files of external storage. */
#ifndef RUNNER_H5GUARD_H
#define RUNNER_H5GUARD_H

#include "../../base/job_input.h"
#include "../elements/selection.h"
#include <hdf5.h>
#include <sys/stat.h>

struct h5_guard {
    enum job_external rule;
    const char *path, *dataset;   /* the file and the data set where the walk begins, for messages */
    hid_t links;                  /* link access properties that every H5Oopen through external links is given: a link
                                   that is not permitted fails, and sets `error` */
    struct error error;           /* the first refusal */
    const struct selection *seen; /* the part of the first data set whose sources are followed; NULL: all of it */
    void (*visit)(const char *path, const char *name, struct error *error); /* NULL, or called for each source */
    /* The rest is private. */
    char *folder[2];           /* the folder of `path`, and that of the file behind links; NULL: not known */
    bool has_folders;          /* `folder` is set */
    const struct stat *wanted; /* the file that h5_reads_file looks for; NULL: none */
    bool found;                /* the walk has reached it */
    int depth, visited;        /* nesting of virtual data sets, and number of nested ones */
    struct h5_guarded {
        unsigned long file;
        haddr_t address;
        const char *path; /* the file that contains it */
    } chain[16];          /* the virtual data sets from the first to the one that is being followed */
};

/* Declares a guard, which ends with its scope; the rest as for h5_guard_begin. */
#define H5_GUARD(name, ...)                                                                                            \
    FREED_BY(h5_guard_end) struct h5_guard name;                                                                       \
    h5_guard_begin(&name, __VA_ARGS__)
/* `path` and `dataset` must outlive the guard. End it with h5_guard_end. */
void h5_guard_begin(struct h5_guard *guard, enum job_external rule, const char *path, const char *dataset);
void h5_guard_end(struct h5_guard *guard);

/* Follows the open data set to all files that reading it opens, and opens none that is not permitted. STATUS_USAGE: the
 * data set refers to such a file. Accepts missing sources, and objects that are not data sets. */
enum status h5_guard_check_open(struct h5_guard *guard, hid_t dataset, struct error *error);

/* Does reading data set `name` of the HDF5 file at `path` open the file `file`? If HDF5 would look for a file name in
 * several folders, a file in any of them counts. */
bool h5_reads_file(const char *path, const char *name, const struct stat *file);

#endif
