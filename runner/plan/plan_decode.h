/* plan_decode.h - decides which operations read an input's decoded values, and which its stored numbers ("packed").
 *
 * An operation that only moves elements moves the stored numbers, and its result gets the attributes for decoding them;
 * all other operations read decoded values. If both kinds read an array, the plan has two entries for it. */
#ifndef RUNNER_PLAN_DECODE_H
#define RUNNER_PLAN_DECODE_H

#include "plan.h"

/* Marks inputs that are only moved as packed; for inputs that are also computed with, appends a packed second entry. */
void plan_pack_inputs(struct plan *plan);
/* The index of the array entry, packed or decoded, that the operation reads where the job names array `array`. Appends
 * a decoded second entry for a packed result. */
int plan_operand(struct plan *plan, const struct job_operation *operation, int array);
/* Sets packing and decoding of the result of an operation whose first input is `in`. */
void plan_describe_moved(const struct job_operation *operation, const struct array *in, struct array *out);

#endif
