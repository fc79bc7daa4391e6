/* convert.h - converts rows of elements between any two types, and so to and from the types that the CPU computes in.
 * float16.h converts single elements. */
#ifndef KERNELS_CONVERT_H
#define KERNELS_CONVERT_H

#include "kernel.h"

/* Four functions that convert `count` adjacent elements. convert_to_integer takes integer types only; convert_to_float
 * takes FLOAT32, FLOAT16, BFLOAT16 and the integer types up to INT32, but not UINT32. A call with another type writes
 * nothing. */
void convert_to_float(enum dtype dtype, const void *from, int64_t count, float *to);
void convert_to_double(enum dtype dtype, const void *from, int64_t count, double *to);
void convert_from_double(enum dtype dtype, const double *from, int64_t count, void *to);
void convert_to_integer(enum dtype dtype, const void *from, int64_t count, int64_t *to);

/* Returns the number of infinite elements. */
int64_t convert_infinities(enum dtype dtype, const void *data, int64_t count);

/* The numbers of elements whose values a conversion has changed, by cause. */
struct casts {
    int64_t overflowed; /* finite elements that became infinite */
    int64_t wrapped;    /* elements out of the range of an integer type, NaNs and infinities included */
    int64_t truncated;  /* elements that lost a fraction in an integer type */
    int64_t rounded;    /* 64-bit integers that float64 cannot hold, decoded because values are missing (decode.h) */
    int64_t missing;    /* elements that marked a missing value and became NaN (runner/storage/elements/decode.h) */
};

void casts_add(struct casts *to, const struct casts *more);

/* Converts from one type to another as NumPy's astype does: to the nearest float, ties to even, rounded once; to an
 * integer towards zero. Elements of the same type are copied bit for bit. If C and NumPy define no result, an
 * integer type gets the value modulo 2^bits, and 0 for NaN and infinities. Adds the changed elements to *casts. */
void convert_elements(enum dtype from_type, const void *from, int64_t count, enum dtype to_type, void *to,
                      struct casts *casts);

#endif
