/* scaled.cuh - products and sums of squares whose running value stays in range in any order. reduce/state.h has these
 * rules for the CPU.
 *
 * A product is a mantissa, 1 <= |mantissa| < 2, and an exponent. A sum of squares has a level: its elements were
 * multiplied by 2^(-600 level) before they were squared. */
#ifndef KERNELS_REDUCE_SCALED_CUH
#define KERNELS_REDUCE_SCALED_CUH

#include <cstdint>
#include <cuda_runtime.h>

#define SQUARE_SHIFT 600 /* binary exponents per level */

/* 2^exponent; -1022 <= exponent <= 1023. */
__device__ inline double power_of_two(int exponent) {
    return __hiloint2double((1023 + exponent) << 20, 0);
}

/* value * 2^exponent, rounded once. */
__device__ inline double with_exponent(double value, int64_t exponent) {
    return ldexp(value, int(min(max(exponent, int64_t(-4096)), int64_t(4096))));
}

/* Returns the mantissa of x and adds its exponent to `exponent`. 0, infinities and NaN stay as they are. */
__device__ inline double split_exponent(double x, int64_t &exponent) {
    int field = __double2hiint(x) >> 20 & 0x7ff, bias = 1023;
    if (field == 0) {
        x *= 0x1p64; /* a subnormal number becomes a normal one */
        field = __double2hiint(x) >> 20 & 0x7ff;
        bias += 64;
    }
    if (field == 0 || field == 0x7ff) return x;
    exponent += field - bias;
    return __hiloint2double((__double2hiint(x) & 0x800fffff) | 0x3ff00000, __double2loint(x));
}

/* The least level at which the square of x, and the sum of 2^60 such squares, is in range. `high`: the high word of
 * |x|. */
__device__ inline int square_level(int high) {
    return high < (1023 - 400) << 20 ? -1 : high < (1023 + 480) << 20 ? 0 : 1;
}

/* The factor of elements before they are squared. */
__device__ inline double square_scale(int level) {
    return power_of_two(-SQUARE_SHIFT * level);
}

/* Converts a sum of squares from one level to a level as high or higher. */
__device__ inline double square_sum(double sum, int level, int higher) {
    for (; level < higher; level++) sum = sum * power_of_two(-SQUARE_SHIFT) * power_of_two(-SQUARE_SHIFT);
    return sum;
}

#endif
