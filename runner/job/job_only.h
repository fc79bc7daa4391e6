/* job_only.h - --only ID[:VARIANT],...: selects some operations of a job, and some of their variants. */
#ifndef RUNNER_JOB_ONLY_H
#define RUNNER_JOB_ONLY_H

#include "job_text.h"

/* Keeps the operations that a list names, and the definitions that they read. A VARIANT is a label, or a name that
 * stands for all its labels. IDs contain no '=', so a text after a comma that does belongs to the label before it:
 * "product:tiled,tile=16,total" has two entries. Reports unknown IDs. */
void only_keep(struct job_reader *reader, struct definitions *definitions, const char *list);

/* Removes the variants that --only does not select from an operation that has been read. Reports a VARIANT that the
 * operation does not have, once for all its combinations. */
void only_choose(struct job_reader *reader, const struct definition *definition, struct job_operation *operation);

#endif
