/* job_to.h - `to` of an operation: the place of its result in a file of its own. */
#ifndef RUNNER_JOB_TO_H
#define RUNNER_JOB_TO_H

#include "job_read.h"

/* Reads an operation's `to` (NULL: it has none) once its run options are known. */
void job_read_to(struct reader *reader, const struct yaml_node *node, struct job_operation *operation);
/* Once all operations are read: complains where two results go to one place. */
void job_check_to(struct reader *reader);

#endif
