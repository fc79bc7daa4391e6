/* clash.h - keeps a job from writing over a file that it needs itself. */
#ifndef RUNNER_CLASH_H
#define RUNNER_CLASH_H

#include "../base/destination.h"
#include "plan.h"

/* STATUS_USAGE if the place is the job file or a file that reading the job's inputs opens, by whatever name or link. */
enum status clash_check(const struct destination *place, const struct plan *plan, struct error *error);

#endif
