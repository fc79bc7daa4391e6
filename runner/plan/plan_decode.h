/* plan_decode.h - which operations read an input's values, and which the numbers that its file stores.
 *
 * An operation that only moves elements moves the stored numbers, and its result has the attributes by which they are
 * decoded; all others read decoded ones. Where both kinds read an array, the plan has it twice. */
#ifndef RUNNER_PLAN_DECODE_H
#define RUNNER_PLAN_DECODE_H

#include "plan.h"

/* Packs the inputs that are only moved, and appends a packed one of those that are moved and computed with. */
void plan_pack_inputs(struct plan *plan);
/* The number of the array that the operation reads where its job names array number `array`. Appends a decoded one of a
 * result that was moved packed. */
int plan_operand(struct plan *plan, const struct job_operation *operation, int array);
/* What follows for the result of an operation that reads `in`, its first input. */
void plan_describe_moved(const struct job_operation *operation, const struct array *in, struct array *out);

#endif
