/* vector.h - computes the steps of a map's program for a few hundred elements at a time. */
#ifndef KERNELS_MAP_VECTOR_H
#define KERNELS_MAP_VECTOR_H

#include "program.h"

/* Elements of one pass over the steps: the values of ten steps fit into the L1 and L2 caches. */
#define MAP_VECTOR 1024

/* Computes one step for `count` elements. `in` holds the operands' values in their wide types; the results go to `out`.
 * Not for MAP_INPUT and MAP_INDEX. */
void map_vector(const struct map_step *step, int64_t count, const void *const in[MAP_OPERANDS], void *out);

/* Convert elements of a data type to values of its wide type, and back. map_store: DTYPE_COUNT stores truth values. */
void map_load(enum dtype dtype, int64_t count, const void *from, void *values);
void map_store(enum dtype dtype, int64_t count, const void *values, void *to);

#endif
