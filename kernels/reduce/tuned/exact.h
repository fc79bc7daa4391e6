/* exact.h - sums of floats that are rounded only once, at the end: the accumulator of exact.cu and exact_cpu.c. C11 and
 * CUDA C compile the same lines, so tests on a CPU also cover the GPU.
 *
 * An accumulator is one wide integer that covers every exponent of the type, and sums of 2^63 of its largest numbers:
 *
 *     limb           10      9       ...      1       0        float32: 11 limbs of 64 bits,
 *     counts        2^128   2^96     ...    2^-160  2^-192     32 bits apart
 *
 * A number is added as three pieces of 32 bits to three neighbouring limbs. Each limb has 31 bits to spare, so 2^31
 * additions need no carry: limbs are added one by one, in any order, by atomic additions too. Integers are associative:
 * the limbs' sum is the same in any order. exact_carry() brings all limbs but the highest back to 0 .. 2^32-1.
 * The highest one has the sign.
 *
 * A word after the limbs records which infinities and NaNs were added; two such words are merged by `or`.
 *
 * exact_round() rounds once, to nearest, ties to even. Before that it can divide by the number of elements: the lowest
 * limb is 33 or more bits below the type's smallest number, so the bit of the quotient that decides the rounding is
 * in the limbs, and the remainder decides ties. */
#ifndef KERNELS_REDUCE_EXACT_H
#define KERNELS_REDUCE_EXACT_H

#include "../../core/kernel.h"
#include <string.h>

#ifdef __CUDACC__
#define EXACT_CALL     __host__ __device__ __forceinline__ static
#define EXACT_CONSTANT __host__ __device__ constexpr static
#else
#define EXACT_CALL     static inline __attribute__((always_inline))
#define EXACT_CONSTANT EXACT_CALL
#endif
#ifdef __CUDA_ARCH__
#define EXACT_UNROLL    _Pragma("unroll")
#define EXACT_NO_UNROLL _Pragma("unroll 1")
#else
#define EXACT_UNROLL
#define EXACT_NO_UNROLL
#endif

#define EXACT_MAX_LIMBS 68 /* float64's */
#define EXACT_MAX_WORDS (EXACT_MAX_LIMBS + 1)

/* The bits of the word after the limbs: what was added. */
#define EXACT_NAN   1
#define EXACT_PLUS  2 /* an infinity */
#define EXACT_MINUS 4

/* The constants of a data type. */
struct exact_type {
    int limbs;         /* of an accumulator, without the word of flags behind them */
    int base;          /* limb i counts 2^(base + 32 i) */
    int bins;          /* of exact_bins.h */
    int min_exponent;  /* 2^min_exponent is the smallest positive number */
    int digits;        /* of a significand, the leading one included */
    int exponent_bits; /* of the type's representation */
};

EXACT_CONSTANT struct exact_type exact_type_of(enum dtype dtype) {
    return dtype == FLOAT64   ? (struct exact_type){68, -1120, 3, -1074, 53, 11}
           : dtype == FLOAT16 ? (struct exact_type){4, -64, 1, -24, 11, 5}
           : dtype == FLOAT32 ? (struct exact_type){11, -192, 2, -149, 24, 8}
                              : (struct exact_type){11, -192, 2, -133, 8, 8};
}

/* The words of an accumulator: the limbs, and one of flags. */
EXACT_CONSTANT int exact_words(enum dtype dtype) {
    return exact_type_of(dtype).limbs + 1;
}

/* The bits of a float64 as an integer, and the reverse. */
EXACT_CALL int64_t exact_bits(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
EXACT_CALL double exact_from_bits(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* Adds value * 2^exponent, with |value| < 2^53 and base <= exponent <= base + 32 * (limbs - 2) - 1. Word i of the
 * accumulator is limbs[i * stride]. */
EXACT_CALL void exact_add(struct exact_type type, int64_t *limbs, int64_t stride, int64_t value, int exponent) {
    const int at = exponent - type.base, shift = at & 31;
    int64_t *limb = limbs + (at >> 5) * stride;
    const int64_t above = value >> (32 - shift); /* rounds down, as the piece below is not negative */
    limb[0] += (uint32_t)((uint64_t)value << shift);
    limb[stride] += (uint32_t)above;
    limb[2 * stride] += above >> 32;
}

/* Adds a number of the type, widened to float64. An infinity or a NaN only sets its flag. */
EXACT_CALL void exact_add_number(struct exact_type type, int64_t *limbs, int64_t stride, double x) {
    const int64_t bits = exact_bits(x);
    const int field = (int)(bits >> 52) & 0x7ff;
    const int64_t fraction = bits & ((INT64_C(1) << 52) - 1);
    if (field == 0x7ff) {
        limbs[type.limbs * stride] |= fraction ? EXACT_NAN : bits < 0 ? EXACT_MINUS : EXACT_PLUS;
        return;
    }
    int64_t value = field ? fraction | INT64_C(1) << 52 : fraction;
    int exponent = (field ? field : 1) - 1075;
    if (exponent < type.base) { /* a small number of a narrow type: only zeros are shifted out */
        value = type.base - exponent < 53 ? value >> (type.base - exponent) : 0;
        exponent = type.base;
    }
    exact_add(type, limbs, stride, bits < 0 ? -value : value, exponent);
}

/* Carries, so that all limbs but the highest are 0 .. 2^32 - 1. */
EXACT_CALL void exact_carry(struct exact_type type, int64_t *limbs, int64_t stride) {
    EXACT_NO_UNROLL
    for (int i = 0; i < type.limbs - 1; i++) {
        const int64_t limb = limbs[i * stride];
        limbs[i * stride] = (uint32_t)limb;
        limbs[(i + 1) * stride] += limb >> 32;
    }
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* Divides non-negative limbs without carries. true: there is a remainder. */
EXACT_CALL bool exact_divide(struct exact_type type, int64_t *limbs, int64_t stride, uint64_t divisor) {
    uint64_t rest = 0;
    EXACT_NO_UNROLL
    for (int i = type.limbs - 1; i >= 0; i--) {
        const uint64_t limb = (uint64_t)limbs[i * stride];
        uint64_t quotient = 0;
        if (rest == 0 && limb == 0) continue;
        if (i == type.limbs - 1) { /* may have 63 bits */
            quotient = limb / divisor;
            rest = limb % divisor;
        } else if (divisor >> 32 == 0) {
            quotient = (rest << 32 | limb) / divisor;
            rest = (rest << 32 | limb) % divisor;
        } else {
            EXACT_NO_UNROLL
            for (int bit = 31; bit >= 0; bit--) { /* the rest is less than 2^63 */
                rest = rest << 1 | (limb >> bit & 1);
                if (rest >= divisor) rest -= divisor, quotient |= UINT64_C(1) << bit;
            }
        }
        limbs[i * stride] = (int64_t)quotient;
    }
    return rest != 0;
}

/* Bits [at, at + count) of limbs that are less than 2^32, for a count up to 53. */
EXACT_CALL uint64_t exact_extract(struct exact_type type, const int64_t *limbs, int64_t stride, int at, int count) {
    uint64_t bits = 0;
    for (int i = at >> 5, shift = -(at & 31); shift < count && i < type.limbs; i++, shift += 32) {
        const uint64_t limb = (uint64_t)limbs[i * stride];
        bits |= shift < 0 ? limb >> -shift : limb << shift;
    }
    return bits & ((UINT64_C(1) << count) - 1);
}

/* The sum divided by `divisor`, rounded to the type: its bits. A sum of zero is +0. Destroys the limbs. */
EXACT_CALL uint64_t exact_round(struct exact_type type, int64_t *limbs, int64_t stride, int64_t divisor) {
    const int64_t flags = limbs[type.limbs * stride];
    const int fraction_bits = type.digits - 1;
    const uint64_t infinity = ((UINT64_C(1) << type.exponent_bits) - 1) << fraction_bits;
    const uint64_t minus = UINT64_C(1) << (type.exponent_bits + fraction_bits);
    if (divisor == 0 || (flags & EXACT_NAN) || flags == (EXACT_PLUS | EXACT_MINUS))
        return infinity | UINT64_C(1) << (fraction_bits - 1);
    if (flags) return flags == EXACT_MINUS ? minus | infinity : infinity;

    exact_carry(type, limbs, stride);
    const bool negative = limbs[(type.limbs - 1) * stride] < 0;
    if (negative) {
        EXACT_NO_UNROLL
        for (int i = 0; i < type.limbs; i++) limbs[i * stride] = -limbs[i * stride];
        exact_carry(type, limbs, stride);
    }
    bool rest = divisor > 1 && exact_divide(type, limbs, stride, (uint64_t)divisor);
    int top = type.limbs - 1, length = 0;
    while (top > 0 && limbs[top * stride] == 0) top--;
    for (uint64_t limb = (uint64_t)limbs[top * stride]; limb; limb >>= 1) length++;
    if (length == 0) return rest && negative ? minus : 0; /* far below half the smallest number */

    /* The significand is the bits from `unit` on; `unit` is no lower than the bit of the smallest number. */
    const int lowest = type.min_exponent - type.base, highest = top * 32 + length - 1;
    const int unit = highest - fraction_bits > lowest ? highest - fraction_bits : lowest;
    const uint64_t significand = exact_extract(type, limbs, stride, unit, type.digits);
    const bool half = exact_extract(type, limbs, stride, unit - 1, 1);
    for (int i = 0; i < (unit - 1) >> 5; i++) rest = rest || limbs[i * stride] != 0;
    rest = rest || exact_extract(type, limbs, stride, (unit - 1) & ~31, (unit - 1) & 31) != 0;

    /* The significand's leading one, and what rounding carries beyond it, add to the exponent. */
    uint64_t bits = ((uint64_t)(unit - lowest) << fraction_bits) + significand;
    bits += half && (rest || (significand & 1));
    if (bits > infinity) bits = infinity; /* always if the highest limb counts: it begins beyond the largest number */
    return negative ? minus | bits : bits;
}

#endif
