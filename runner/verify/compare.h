/* compare.h - compares elements of an output with their truth.
 *
 * An error is |out - truth| / magnitude. Rounding errors scale with the magnitude (|A||B| for a product). A NaN or an
 * infinity is wrong if the truth has none there, and so is the reverse. But at the edge of the type's range, an
 * infinity beside a truth just below the largest number, or a finite number beside a truth just above it, is judged
 * like any other rounding. */
#ifndef RUNNER_COMPARE_H
#define RUNNER_COMPARE_H

#include "verify.h"

/* `data`: the elements of `box` of the output, packed. Raises verdict->error to the largest error. The first element
 * that is wrong by `tolerance` sets verdict->right to false and writes the message. Uses all cores. */
void compare_elements(const struct geometry *geometry, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict);

#endif
