/* space.h - checks that the file system has room for what a job writes. */
#ifndef RUNNER_SPACE_H
#define RUNNER_SPACE_H

#include "plan.h"

/* The largest stored part becomes OUTPUT if it has at least this many bytes; the other parts are copied into it. */
#define SPACE_ADOPT_BYTES (INT64_C(64) << 20)

/* A result of a `to` of up to this size is copied into OUTPUT too; of a larger one OUTPUT shows what lies in its file.
 */
#define SPACE_COPIED_BYTES (INT64_C(64) << 10)

/* The most bytes that a job's files take at one time: outputs that are kept, one that is only verified, and the copies
 * made when the parts are joined at the end. A compressed output counts with the least that its compressor may leave of
 * it. */
double space_needed(const struct plan *plan);

/* Bytes of results that a `to` puts on another file system, and a folder on it; NULL, which the caller frees: there are
 * none. Of several other file systems it is the first. */
double space_elsewhere(const struct plan *plan, char **folder);

/* The folder of an output; the caller frees. */
char *space_folder(const char *output);
/* Bytes free in a folder to an unprivileged process; false: unknown. */
bool space_free(const char *folder, double *bytes);

/* STATUS_USAGE if the file system of the job's output has less than space_needed free. Existing parts of the job count
 * as free, because they are used again or removed. A folder whose file system cannot be queried passes. */
enum status space_check(const struct plan *plan, struct error *error);

/* STATUS_IO if the output of a run that is about to begin is larger than what is free by now. */
enum status space_check_run(const struct plan *plan, const struct run *run, struct error *error);

#endif
