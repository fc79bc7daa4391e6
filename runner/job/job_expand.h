/* job_expand.h - expands definitions: one instance for each combination of the swept parameters that a definition
 * depends on. */
#ifndef RUNNER_JOB_EXPAND_H
#define RUNNER_JOB_EXPAND_H

#include "job_text.h"

#define MAX_INSTANCES 100000 /* of all inputs and operations together */

/* The definition called `name` among the first `count`; NULL: none. */
const struct definition *definition_find(const struct definitions *definitions, int count, const char *name);

/* Reads the instances of all kept definitions into the job. */
void job_expand(struct job_reader *reader, struct definitions *definitions);

void job_variant_free(struct job_variant *variant);

#endif
