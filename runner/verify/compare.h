/* compare.h - compares elements of an output with their truth.
 *
 * The error of an element is |out - truth| / magnitude. Rounding errors scale with the magnitude (|A||B| for a
 * product). A NaN is wrong if the truth is not NaN, and the reverse. An infinity counts as the smallest number that
 * rounds to it. So three cases are judged like any other rounding: an infinity where the truth is just below the
 * largest number, a finite number where the truth is just above it, and an overflow to the other sign where the allowed
 * error is that large. */
#ifndef RUNNER_COMPARE_H
#define RUNNER_COMPARE_H

#include "verify.h"

/* Compares `data`, the packed elements of a box of the output, with the truth, and raises verdict->error to the largest
 * error. The first element that `tolerance` does not allow sets verdict->right to false and writes the message. Uses
 * all cores.
 *
 * `data` has the type `stored`, and a stored element is right if a right element converts to it. Integers, and elements
 * that are only moved, must equal the converted truth. For a float stored as another float type, half the distance
 * between neighbours is not an error. For a float stored as an integer, the error is the distance from the truth to the
 * nearest number that converts to the stored one. */
void compare_elements(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict);

/* Adds to the message of a verdict that is not right how many elements are wrong, where, and the largest error. */
void compare_finish(struct verdict *verdict);

#endif
