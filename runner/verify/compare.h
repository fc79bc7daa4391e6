/* compare.h - compares elements of an output with their truth.
 *
 * An error is |out - truth| / magnitude. Rounding errors scale with the magnitude (|A||B| for a product). A NaN is
 * wrong if the truth has none there, and so is the reverse. An infinity counts as the least number that rounds to it,
 * so that one beside a truth just below the largest number, a finite number beside a truth just above it, and an
 * overflow to the other side where the error allowed is as large as that, are judged like any other rounding. */
#ifndef RUNNER_COMPARE_H
#define RUNNER_COMPARE_H

#include "verify.h"

/* `data`: the elements of `box` of the output, packed, as type `stored`: right is what a right element becomes by
 * conversion. Integers, and elements that are only moved, must equal their converted truth. Of a float stored as
 * another float, half the distance between neighbours is no error; stored as an integer, the error is the truth's
 * distance from the nearest number that converts to it. Raises verdict->error to the largest error. The first element
 * that is wrong by `tolerance` sets verdict->right to false and writes the message. Uses all cores. */
void compare_elements(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict);

#endif
