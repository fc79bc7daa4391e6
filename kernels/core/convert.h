/* convert.h - rows of elements to and from the types that the CPU computes in; float16.h converts single elements. */
#ifndef KERNELS_CONVERT_H
#define KERNELS_CONVERT_H

#include "kernel.h"

/* Rows of `count` adjacent elements. `float`: FLOAT32, FLOAT16 and BFLOAT16 only; `integer`: integer types only. */
void convert_to_float(enum dtype dtype, const void *from, int64_t count, float *to);
void convert_to_double(enum dtype dtype, const void *from, int64_t count, double *to);
void convert_from_double(enum dtype dtype, const double *from, int64_t count, void *to);
void convert_to_integer(enum dtype dtype, const void *from, int64_t count, int64_t *to);

#endif
