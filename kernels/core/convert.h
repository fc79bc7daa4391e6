/* convert.h - rows of elements to and from the types that the CPU computes in; float16.h converts single elements. */
#ifndef KERNELS_CONVERT_H
#define KERNELS_CONVERT_H

#include "kernel.h"

/* Rows of `count` adjacent elements. `float`: FLOAT32, FLOAT16 and BFLOAT16 only; `integer`: integer types only. */
void convert_to_float(enum dtype dtype, const void *from, int64_t count, float *to);
void convert_to_double(enum dtype dtype, const void *from, int64_t count, double *to);
void convert_from_double(enum dtype dtype, const double *from, int64_t count, void *to);
void convert_to_integer(enum dtype dtype, const void *from, int64_t count, int64_t *to);

/* How many are infinite. */
int64_t convert_infinities(enum dtype dtype, const void *data, int64_t count);

/* What a conversion has lost, in elements. */
struct casts {
    int64_t overflowed; /* finite, and infinite in the new type */
    int64_t wrapped;    /* out of the range of an integer type, or no number there (NaN, infinity) */
    int64_t truncated;  /* their fractions are lost to an integer type */
    int64_t missing;    /* stand for no value, and became NaN (runner/storage/elements/decode.h) */
};

void casts_add(struct casts *to, const struct casts *more);

/* From one type to another, as NumPy's astype: to the nearest float, ties to even, rounded once; towards zero to an
 * integer. Of one type: bit for bit. Where C and NumPy leave it open: an integer type takes the value modulo 2^bits,
 * and 0 for NaN and the infinities. Adds what is lost to *casts. */
void convert_elements(enum dtype from_type, const void *from, int64_t count, enum dtype to_type, void *to,
                      struct casts *casts);

#endif
