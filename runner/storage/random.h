/* random.h - inputs that are generated from a seed.
 *
 * Philox4x32-10 (Salmon et al., SC'11; the generator of cuRAND and of NumPy's Philox family) is used as a pure function
 * of seed and linear element index: any box of an array can be generated anywhere, by any number of threads, with the
 * same values. The element with linear index i uses 64 random bits x. The counter is (i/2 as two 32-bit words, low
 * first, 0, 0), the key is the seed's two 32-bit words, low first; x is output words 2(i%2) (low) and 2(i%2)+1 (high).
 *
 *     uniform   low + (high - low) * (x >> 11) * 2^-53, kept below high after rounding to the data type
 *     normal    mean + std * z, with z by Box-Muller from the pair of elements 2j, 2j+1, in float64:
 *               u = ((x0 >> 11) + 1) * 2^-53, v = (x1 >> 11) * 2^-53,
 *               z0 = sqrt(-2 ln u) cos(2 pi v), z1 = sqrt(-2 ln u) sin(2 pi v)
 *     integer   low + x mod (high - low + 1), both ends included, rounded to the data type
 *     constant  value, rounded to the data type
 *     index     the linear index, rounded to the data type (for integers: modulo 2^bits) */
#ifndef RUNNER_RANDOM_H
#define RUNNER_RANDOM_H

#include "../base/random_terms.h"

/* Fills packed `data` with the elements of `box` in an array of `shape`, on all cores. */
void random_fill(const struct random_terms *terms, const struct shape *shape, enum dtype dtype, const struct box *box,
                 void *data);

#endif
