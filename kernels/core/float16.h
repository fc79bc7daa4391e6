/* float16.h - converts float16 and bfloat16 from and to float32 by integer arithmetic on their bits, without branches,
 * so that loops vectorise on any processor (after F. Giesen's "float->half variants"). Rounds to nearest, ties to
 * even. */
#ifndef KERNELS_FLOAT16_H
#define KERNELS_FLOAT16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts exactly; NaNs keep their payload. Moves exponent and fraction to their places in a float32, and adds the
 * difference of the exponents' biases, 127 and 15. */
static inline float float16_to_float(uint16_t half) {
    const uint32_t infinity = 0x7c00u << 13;
    uint32_t bits = (half & 0x7fffu) << 13, exponent = bits & infinity;
    uint32_t normal = bits + ((127u - 15u) << 23);
    uint32_t special = normal + ((128u - 16u) << 23);                               /* infinity or NaN */
    uint32_t subnormal = float_bits(float_of_bits(normal + (1u << 23)) - 0x1p-14f); /* renormalises */
    uint32_t magnitude = exponent == infinity ? special : exponent == 0 ? subnormal : normal;
    return float_of_bits(magnitude | (uint32_t)(half & 0x8000u) << 16);
}

/* Rounds; every NaN becomes 0x7e00 with the sign. 0x47800000 is 2^16, from which on all is infinite; 0x38800000 is
 * 2^-14, the smallest normal float16. */
static inline uint16_t float_to_float16(float value) {
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude + ((15u - 127u) << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* The ulp of 0.5 is the smallest float16. */
    uint32_t subnormal = float_bits(float_of_bits(magnitude) + 0.5f) - float_bits(0.5f);
    uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u; /* NaN or infinity */
    uint32_t half = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? subnormal : normal;
    return (uint16_t)(half | sign);
}

static inline float bfloat16_to_float(uint16_t value) {
    return float_of_bits((uint32_t)value << 16);
}

/* Rounds; a NaN keeps the upper bits of its payload, and becomes quiet. */
static inline uint16_t float_to_bfloat16(float value) {
    uint32_t bits = float_bits(value), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

/* Rounds to odd: an inexact result gets an odd last bit, so that a second rounding, to 16 bits, gives the same as a
 * single one (Boldo and Melquiond, 2008). */
static inline float double_to_odd_float(double value) {
    float nearest = (float)value;
    uint32_t bits = float_bits(nearest);
    uint32_t towards_zero = bits - (fabs((double)nearest) > fabs(value));
    return float_of_bits((double)nearest < value || (double)nearest > value ? towards_zero | 1u : bits);
}

#endif
