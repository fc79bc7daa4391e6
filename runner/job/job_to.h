/* job_to.h - `to` of an operation: stores its result in a file of its own. */
#ifndef RUNNER_JOB_TO_H
#define RUNNER_JOB_TO_H

#include "job_read.h"

/* Reads an operation's `to` (NULL: it has none). Call it after its run options are read. */
void job_read_to(struct job_reader *reader, const struct yaml_node *node, struct job_operation *operation);
/* Reports results that go to the same data set, or into another result. Call it after all operations are read. */
void job_check_to(struct job_reader *reader);

#endif
