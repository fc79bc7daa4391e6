/* carry.h - the attributes that a moved result takes over from the data set that its elements are of. */
#ifndef RUNNER_CARRY_H
#define RUNNER_CARRY_H

#include "results.h"

/* Gives data set `output`, which holds `array`, the attributes of its input, if the array is a moved one: with those
 * that say how the numbers are decoded where these are as stored. What cannot be read any more is left out, with a word
 * on stderr: results must not be lost for it. */
enum status carry_attributes(const struct results *results, const struct array *array, hid_t output,
                             struct error *error);

#endif
