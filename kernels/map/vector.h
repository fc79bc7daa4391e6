/* vector.h - computes the steps of a map's program for a few hundred elements at a time. */
#ifndef KERNELS_MAP_VECTOR_H
#define KERNELS_MAP_VECTOR_H

#include "program.h"

/* Elements of one pass over the steps: the values of ten steps fit into the L1 and L2 caches. */
#define MAP_VECTOR 1024

/* Computes one step for `count` elements. `in` holds the operands' values in their wide types; the results go to `out`.
 * The only leaf that it accepts is MAP_CONSTANT. */
void map_vector(const struct map_step *step, int64_t count, const void *const in[MAP_OPERANDS], void *out);

/* Converts elements of a data type to values of its wide type, and back. */
void map_load(enum dtype dtype, int64_t count, const void *from, void *values);
void map_store(enum dtype dtype, int64_t count, const void *values, void *to);

#endif
