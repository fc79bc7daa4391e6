/* job_only.h - --only ID[:VARIANT],...: which operations a job keeps, and of an operation which variants. */
#ifndef RUNNER_JOB_ONLY_H
#define RUNNER_JOB_ONLY_H

#include "job_text.h"

/* Keeps the operations that a list names, and what they read. A VARIANT is a label or, for all labels of a variant, its
 * name. As IDs have no '=', what follows a comma and has one belongs to the label before: "product:tiled,tile=16,total"
 * is two entries. Complains about unknown IDs. */
void only_keep(struct reader *reader, struct definitions *definitions, const char *list);

/* Removes the variants that --only leaves out from an operation that has been read. Complains, once for all its
 * combinations, about a VARIANT that it has not. */
void only_choose(struct reader *reader, const struct definition *definition, struct job_operation *operation);

#endif
