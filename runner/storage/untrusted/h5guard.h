/* h5guard.h - restricts what an untrusted file may refer to: no file outside its folder unless `external` in the job
 * allows it, only regular files, and no virtual data set that reads itself. */
#ifndef RUNNER_H5GUARD_H
#define RUNNER_H5GUARD_H

#include "../../job/job.h"
#include "../elements/selection.h"
#include <hdf5.h>

struct h5_guard {
    enum job_external rule;
    const char *path;    /* the file of the job; must outlive the guard */
    char *folder[2];     /* the folder of `path`, and that of the file behind links; NULL: not known */
    bool has_folders;    /* `folder` is set */
    struct error error;  /* the first refusal */
    const char *dataset; /* data set that is checked, for messages */
    int depth, visited;
    struct h5_guarded {
        unsigned long file;
        haddr_t address;
    } chain[16]; /* the chain of virtual data sets that is being followed */
    const struct selection
        *seen; /* part of the first data set that is read: only its sources are followed; NULL: all */
    void (*visit)(const char *path, const char *name, struct error *error); /* called for each source; may be NULL */
};

void h5_guard_begin(struct h5_guard *guard, enum job_external rule, const char *path);
void h5_guard_end(struct h5_guard *guard);

/* Link access properties for opening objects through external links: a link that is not permitted fails, and sets
 * guard->error. Close with H5Pclose. */
hid_t h5_guard_links(struct h5_guard *guard);

/* Follows open data set `name` to all files that reading it opens, and opens none that is not permitted. STATUS_USAGE:
 * it refers to such a file. Accepts missing sources, and objects that are not data sets. */
enum status h5_guard_check_open(struct h5_guard *guard, const char *name, hid_t dataset, struct error *error);

#endif
