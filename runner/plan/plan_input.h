/* plan_input.h - describes the inputs of a job. */
#ifndef RUNNER_PLAN_INPUT_H
#define RUNNER_PLAN_INPUT_H

#include "plan.h"

/* Describes an input and applies its keys `select` and `rows`. Reports errors at their position in the job file; chunks
 * larger than both the job's memory and 64 MiB are an error too. */
void plan_input(const struct job *job, const struct job_input *input, struct array *array);

#endif
