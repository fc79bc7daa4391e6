/* job_text.h - a job printed as text, with parameters, defaults and merges replaced by what they stand for. */
#ifndef RUNNER_JOB_TEXT_H
#define RUNNER_JOB_TEXT_H

#include "job_definition.h"

/* The text for job_operation.resolved; the caller frees. */
char *job_resolve_operation(const struct job_operation *operation);
/* The text for job.resolved: YAML that loads as the same job. `overrides` may be NULL. The caller frees. */
char *job_resolve(const struct job_reader *reader, const struct definitions *definitions,
                  const struct job_overrides *overrides);

#endif
