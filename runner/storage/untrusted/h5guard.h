/* h5guard.h - what a file from a stranger may lead to: no file outside its folder, unless the job's `external` allows
 * it, nothing but regular files, and no virtual data set that reads itself. */
#ifndef RUNNER_H5GUARD_H
#define RUNNER_H5GUARD_H

#include "../../job/job.h"
#include "../elements/selection.h"
#include <hdf5.h>

struct h5_guard {
    enum job_external rule;
    const char *path;    /* the file that is named; it must live as long */
    char *folder[2];     /* it lies in the one, and what it leads to in the other; NULL: not known */
    bool placed;         /* these two are known */
    struct error error;  /* the first refusal */
    const char *dataset; /* that is looked at, for messages */
    int depth, looked;
    struct h5_guarded {
        unsigned long file;
        haddr_t address;
    } within[16];                 /* the virtual data sets that are being followed */
    const struct selection *seen; /* of the first of them: only what shows a part of it is followed; NULL: everything */
    void (*visit)(const char *path, const char *name, struct error *error); /* each source; NULL: nobody */
};

void h5_guard_begin(struct h5_guard *guard, enum job_external rule, const char *path);
void h5_guard_end(struct h5_guard *guard);

/* Properties with which objects are opened behind external links: one that is not permitted fails, and fills
 * guard->error. Close with H5Pclose. */
hid_t h5_guard_links(struct h5_guard *guard);

/* Follows an open data set, `name` of the file, to all that reading it opens, and opens nothing that is not permitted.
 * STATUS_USAGE: it leads to what is not. Sources that are not there, and objects that are no data sets, pass. */
enum status h5_guard_check_open(struct h5_guard *guard, const char *name, hid_t dataset, struct error *error);

#endif
