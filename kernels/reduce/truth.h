/* reduce/truth.h - the truth about reductions, for reduce/op.c. */
#ifndef KERNELS_REDUCE_TRUTH_H
#define KERNELS_REDUCE_TRUTH_H

#include "../core/reference.h"

/* The number of elements that one output reduces. */
int64_t reduced_elements(const struct geometry *geometry);

/* Implements struct operation's `reference`. Sums are twice as precise as float64 and have the range of long double.
 * Products have an unlimited range; if NumPy's order of multiplication, one element after another, leaves float64's
 * range on the way, truth->overflow marks the element. */
enum status reduce_reference(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error);

#endif
