/* space.h - is there room on the file system for what a job writes? */
#ifndef RUNNER_SPACE_H
#define RUNNER_SPACE_H

#include "plan.h"

/* A stored part of at least so many bytes becomes OUTPUT, if it is the largest; the others are copied into it. */
#define SPACE_ADOPT_BYTES (INT64_C(64) << 20)

/* The most bytes that a job's files hold at one time: outputs that are kept, one that is only verified, and the copies
 * of the last step, which joins the parts. Compressed outputs count with the least that gzip may leave of them. */
double space_needed(const struct plan *plan);

/* STATUS_USAGE with a sentence: the file system of the job's output has less than that free. Parts of the job that are
 * there already count as free, since they are used again or removed. A folder that cannot be looked at has room. */
enum status space_check(const struct plan *plan, struct error *error);

/* STATUS_IO with a sentence: a run is about to begin, and its output is larger than what is free by now. */
enum status space_check_run(const struct plan *plan, const struct run *run, struct error *error);

#endif
