/* job_pattern.h - inputs whose `file` is a pattern: a swept parameter of the input's name, a value for each match. */
#ifndef RUNNER_JOB_PATTERN_H
#define RUNNER_JOB_PATTERN_H

#include "job_read.h"

/* Adds the parameters of such inputs, with what --set says of them, and makes their `file` depend on them: of
 * `../run-*.h5`, matched by ../run-7.h5, input A's parameter A has the value "run-7" and its file is `../${A}.h5`. A
 * value is what follows the folders before the first wildcard, without the extension that all matches share. Inputs
 * that are concatenated are left as they are. Complains where nothing matches. Returns the set of parameters that the
 * patterns use. */
uint64_t patterns_expand(struct reader *reader, const struct yaml_node *inputs, const char *const *sets, int set_count);

#endif
