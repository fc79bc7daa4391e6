/* clash.h - must a file that is to be written not be replaced, because the job itself needs it? */
#ifndef RUNNER_CLASH_H
#define RUNNER_CLASH_H

#include "../base/place.h"
#include "plan.h"

/* Refuses the job file and every file that reading the job's inputs opens, by whatever name or link. */
enum status clash_check(const struct place *place, const struct plan *plan, struct error *error);

#endif
