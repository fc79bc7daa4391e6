/* clash.h - prevents a job from overwriting a file that it reads. */
#ifndef RUNNER_CLASH_H
#define RUNNER_CLASH_H

#include "../base/destination.h"
#include "plan.h"

/* STATUS_USAGE: the destination is the job file, or a file that reading the job's inputs opens, under any name or
 * link. */
enum status clash_check(const struct destination *place, const struct plan *plan, struct error *error);

#endif
