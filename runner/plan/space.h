/* space.h - checks that the file system has enough free space for a job's files. */
#ifndef RUNNER_SPACE_H
#define RUNNER_SPACE_H

#include "plan.h"

/* The largest stored part becomes OUTPUT or a file of a `to` if it has at least this many bytes; other parts are
 * copied. */
#define SPACE_ADOPT_BYTES (INT64_C(64) << 20)

/* A result of a `to` of up to this size is copied into OUTPUT too; a larger one is a virtual data set in OUTPUT. */
#define SPACE_COPIED_BYTES (INT64_C(64) << 10)

/* The peak of the disk space that a job's files take: stored outputs, one output that is only verified, and the copies
 * that are made when the parts are assembled. For a compressed output it counts the smallest possible size. */
double space_needed(const struct plan *plan);

/* The bytes of results that a `to` puts on another file system than OUTPUT, the first one if there are several.
 * *folder: a folder on it, which the caller frees; NULL: there is none. */
double space_elsewhere(const struct plan *plan, char **folder);

/* Sets *bytes to the free space of a folder's file system for an unprivileged process; false: unknown. */
bool space_available(const char *folder, double *bytes);

/* STATUS_USAGE: the file system of the job's output has less than space_needed free, or that of a `to` less than its
 * results need. Existing parts of the job count as free, because they are reused or removed. A file system that cannot
 * be queried passes the check. */
enum status space_check(const struct plan *plan, struct error *error);

/* STATUS_IO: the output of a run exceeds the free space. To be called before the run begins. */
enum status space_check_run(const struct plan *plan, const struct run *run, struct error *error);

#endif
