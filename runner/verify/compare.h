/* compare.h - elements of an output beside the truth about them.
 *
 * An error is |out - truth| / magnitude, the magnitude being what rounding errors scale with (|A||B| for a product). A
 * NaN or infinity where the truth has none is wrong, and so is the reverse; but an infinity beside a truth just below
 * the type's largest number, or a finite number beside one just above it, is off by no more than any other rounding. */
#ifndef RUNNER_COMPARE_H
#define RUNNER_COMPARE_H

#include "verify.h"

/* `data`: a box of the output, packed. Raises verdict->error to the largest error; the first element that is wrong by
 * `tolerance` turns verdict->right false and is the message. On all cores. */
void compare_elements(const struct geometry *geometry, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict);

#endif
