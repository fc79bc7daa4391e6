/* job_expand.h - a definition, one instance for each combination of the swept parameters that it depends on. */
#ifndef RUNNER_JOB_EXPAND_H
#define RUNNER_JOB_EXPAND_H

#include "job_text.h"

#define MAX_INSTANCES 100000 /* of all inputs and operations together */

/* The definition called `name` among the first `count`; NULL: none. */
const struct definition *definition_find(const struct definitions *definitions, int count, const char *name);

/* Reads the instances of all kept definitions into the job. */
void job_expand(struct reader *reader, struct definitions *definitions);

/* Turns a path relative to the job file into one relative to the current directory. The caller frees. */
char *path_beside(const char *job_path, const char *path);

void job_input_free(struct job_input *input);
void job_variant_free(struct job_variant *variant);
void job_operation_free(struct job_operation *operation);

#endif
