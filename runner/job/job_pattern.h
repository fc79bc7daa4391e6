/* job_pattern.h - inputs whose `file` is a glob pattern: each becomes a swept parameter, named after the input, with
 * one value for each match. */
#ifndef RUNNER_JOB_PATTERN_H
#define RUNNER_JOB_PATTERN_H

#include "job_read.h"

/* Adds the parameters of such inputs, applies --set to them, and replaces each pattern by a path with the parameter. If
 * the `file` of input A is `../run-*.h5` and ../run-7.h5 matches, parameter A has the value "run-7" and the file
 * becomes `../${A}.h5`. A value is the part of the match behind the folders without wildcards and before the common
 * extension. Inputs with `concatenate` stay as they are. Reports patterns without matches. Returns the set of
 * parameters that the patterns use. */
uint64_t patterns_expand(struct job_reader *reader, const struct yaml_node *inputs, const char *const *sets,
                         int set_count);

#endif
