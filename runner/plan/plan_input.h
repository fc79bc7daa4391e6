/* plan_input.h - describes the inputs of a job. */
#ifndef RUNNER_PLAN_INPUT_H
#define RUNNER_PLAN_INPUT_H

#include "plan.h"

/* Describes an input and applies its keys `select` and `rows`. What is wrong is said where it stands in the job file:
 * among it a chunk that is larger than the job's memory, and than 64 MiB. */
void plan_input(const struct job *job, const struct job_input *input, struct array *array);

#endif
