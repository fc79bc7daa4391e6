/* random.h - inputs made from a seed instead of read from a file.
 *
 * Philox4x32-10 (Salmon et al., SC'11; the generator of cuRAND and NumPy's Philox family) run as a pure function of
 * seed and linear element index: any tile of an array can be made anywhere, by any number of threads, and comes out the
 * same. The element with linear index i uses 64 random bits x: counter (i/2 as two 32-bit words low first, 0, 0), key =
 * the seed's two 32-bit words low first, output words 2(i%2) (low) and 2(i%2)+1 (high). uniform   low + (high - low) *
 * (x >> 11) * 2^-53, kept below high after rounding to the data type normal    mean + std * z, z by Box-Muller from the
 * pair of elements 2j, 2j+1: u = ((x0 >> 11) + 1) * 2^-53, v = (x1 >> 11) * 2^-53, z0 = sqrt(-2 ln u) cos(2 pi v), z1 =
 * sqrt(-2 ln u) sin(2 pi v), in float64 integer   low + x mod (high - low + 1), both ends included, rounded to the data
 * type constant  value;   index: the linear index itself, both rounded to the data type (index: modulo 2^bits of an
 * integer) */
#ifndef RUNNER_RANDOM_H
#define RUNNER_RANDOM_H

#include "../job/random_terms.h"

/* Fills `data` (packed, box->count elements) with the elements of an array of `shape` that lie in `box`. */
void random_fill(const struct random_terms *terms, const struct shape *shape, enum dtype dtype, const struct box *box,
                 void *data);

#endif
