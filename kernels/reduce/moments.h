/* reduce/moments.h - the state of var and std for the elements seen so far. C11 and CUDA C compile the same code.
 *
 * Floats: the state is their count, their mean and the sum of squared deviations from it. Two sets merge by the formula
 * of Chan, Golub and LeVeque (1983):
 *
 *     step     = (mean of b - mean of a) * count of b / count of both
 *     mean     = mean of a + step
 *     squares  = squares of a + squares of b + step * (mean of b - mean of a) * count of a
 *
 * All terms of `squares` are positive, so they do not cancel. The difference of the means may cancel, so each mean is
 * kept in two doubles. Therefore the result is as accurate for numbers far from zero as for numbers around it.
 *
 * Within a set, one pass sums the deviations from a pivot p, which is one of the elements, later their mean so far:
 *
 *     sum += x - p,  squares += (x - p)^2         at the end:   mean = p + sum/n,   squares -= sum^2/n
 *
 * The pivot moves after 1, 2, 4, 8 ... batches (moments_recentre). Therefore sum^2/n is at most a few times the result
 * of the subtraction, for any elements in any order. Equal elements give exactly 0.
 *
 * Integers: the state is the exact sum and the exact sum of squares, in 128 and 192 bits. n * squares - sum^2 is exact
 * in 256 bits and is rounded once, so the result has the same bits on every device, in any order of the elements. */
#ifndef KERNELS_REDUCE_MOMENTS_H
#define KERNELS_REDUCE_MOMENTS_H

#include "../core/kernel.h"
#include <math.h>

/* Is the reduction a variance or a standard deviation? */
static inline bool reduce_is_variance(enum reduce_operator operator_) {
    return operator_ == REDUCE_VAR || operator_ == REDUCE_STD;
}

/* Is the state a struct reduce_moments, rather than a struct reduce_state? `skip_nan`: NaNs are skipped. */
static inline bool reduce_has_moments(enum reduce_operator operator_, bool skip_nan) {
    return reduce_is_variance(operator_) || (skip_nan && (operator_ == REDUCE_MEAN || operator_ == REDUCE_SUM));
}

/* The bytes of the state of one output. */
static inline size_t reduce_state_size(enum reduce_operator operator_, bool skip_nan) {
    return reduce_has_moments(operator_, skip_nan) ? sizeof(struct reduce_moments) : sizeof(struct reduce_state);
}

#ifdef __CUDACC__
#define MOMENTS_CALL __host__ __device__ __forceinline__ static
#else
#define MOMENTS_CALL static inline
#endif

__extension__ typedef __int128 wide_int;
__extension__ typedef unsigned __int128 wide_uint;

/* Returns a + b rounded; *lo: the rounding error, so that the result + *lo is exactly a + b (Knuth). */
MOMENTS_CALL double moments_add(double a, double b, double *lo) {
    const double sum = a + b, b_in_sum = sum - a;
    *lo = (a - (sum - b_in_sum)) + (b - b_in_sum);
    return sum;
}

/* 1 / count, up to an error in the last bits. */
MOMENTS_CALL double moments_inverse(double count) {
#ifdef __CUDA_ARCH__ /* a division is a call, which costs registers */
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(count));
    for (int i = 0; i < 3; i++) inverse = fma(inverse, fma(-count, inverse, 1.0), inverse);
    return inverse;
#else
    return 1 / count;
#endif
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Merges `from` into `into` by the formula above. Each mean is the sum of two doubles, `mean` and `rest`. */
MOMENTS_CALL void moments_merge(struct reduce_moments *into, const struct reduce_moments *from) {
    if (from->count == 0) return;
    if (into->count == 0) {
        *into = *from;
        return;
    }
    const double into_count = (double)into->count, inverse = moments_inverse((double)(into->count + from->count));
    double lost, mean_rest;
    const double mean_difference = moments_add(from->spread.mean, -into->spread.mean, &lost);
    const double delta = mean_difference + (lost + (from->spread.rest - into->spread.rest));
    const double step = delta * ((double)from->count * inverse);
    const double mean = moments_add(into->spread.mean, step, &mean_rest);
    into->count += from->count;
    into->spread.mean = mean;
    into->spread.rest += mean_rest;
    into->spread.squares += from->spread.squares + delta * into_count * step;
}

/* Returns the moments of `count` elements, from the sum of their deviations from a pivot and the sum of the squares. */
MOMENTS_CALL struct reduce_moments moments_of(double pivot, int64_t count, double sum, double squares) {
    struct reduce_moments moments = {count, {{0, 0}}};
    const double step = count > 0 ? sum * moments_inverse((double)count) : 0, about_mean = squares - sum * step;
    moments.spread.mean = count > 0 ? moments_add(pivot, step, &moments.spread.rest) : 0;
    const bool sum_is_finite = sum - sum == 0, squares_overflow = squares > 1.7976931348623157e308;
    if (sum_is_finite && squares_overflow)
        moments.spread.squares = squares; /* infinite; about_mean might be NaN */
    else
        moments.spread.squares = about_mean < 0 ? 0 : about_mean;
    return moments;
}

/* Moves the pivot to about the mean of the `count` elements so far, and changes `sum` and `squares`, of the deviations
 * from the pivot, to match. Leaves all as they are if one is, or would become, infinite or NaN. */
MOMENTS_CALL void moments_recentre(double *pivot, double count, double *sum, double *squares) {
    const double to = *pivot + *sum * moments_inverse(count), by = to - *pivot;
    if (!(by - by == 0) || !(*squares <= 1.7976931348623157e308)) return; /* not finite */
    *pivot = to;
    *squares -= by * (2 * *sum - count * by);
    *sum -= count * by;
}

/* The variance (`root`: the standard deviation) of moments->count elements; NaN if ddof leaves none. */
MOMENTS_CALL double moments_result(const struct reduce_moments *moments, double ddof, bool root) {
    const double divisor = (double)moments->count - ddof;
    const double variance = divisor > 0 ? moments->spread.squares / divisor : (double)NAN;
    return root ? sqrt(variance) : variance;
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* The sum that the state of integers holds. */
MOMENTS_CALL wide_int moments_sum(const struct reduce_moments *moments) {
    return (wide_int)((wide_uint)moments->exact[1] << 64 | moments->exact[0]);
}

/* Adds a sum and a sum of squares, of which `squares` holds the low 128 bits and `top` the bits above them. */
MOMENTS_CALL void moments_add_exact(struct reduce_moments *into, wide_int sum, wide_uint squares, uint64_t top) {
    const wide_uint new_sum = (wide_uint)moments_sum(into) + (wide_uint)sum;
    const wide_uint old_squares = (wide_uint)into->exact[3] << 64 | into->exact[2], new_squares = old_squares + squares;
    into->exact[0] = (uint64_t)new_sum;
    into->exact[1] = (uint64_t)(new_sum >> 64);
    into->exact[2] = (uint64_t)new_squares;
    into->exact[3] = (uint64_t)(new_squares >> 64);
    into->exact[4] += top + (new_squares < old_squares);
}

/* Merges `from` into `into`. */
MOMENTS_CALL void moments_merge_exact(struct reduce_moments *into, const struct reduce_moments *from) {
    moments_add_exact(into, moments_sum(from), (wide_uint)from->exact[3] << 64 | from->exact[2], from->exact[4]);
}

/* words += a * b * 2^(64 at) */
MOMENTS_CALL void moments_add_product(uint64_t words[4], uint64_t a, uint64_t b, int at) {
    wide_uint carried = (wide_uint)a * b;
    for (int i = at; i < 4; i++) {
        carried += words[i];
        words[i] = (uint64_t)carried;
        carried >>= 64;
    }
}

/* Divides hi + lo, the sum of two doubles, by `divisor`; the quotient is again such a sum. */
MOMENTS_CALL void moments_divide(double *hi, double *lo, double divisor) {
    const double quotient = *hi / divisor, rest = (fma(-quotient, divisor, *hi) + *lo) / divisor;
    *hi = quotient + rest;
    *lo = rest - (*hi - quotient);
}

/* The variance (`root`: the standard deviation) of `count` integers: (count * squares - sum^2) / (count * (count -
 * ddof)), rounded once; NaN if ddof leaves none. */
MOMENTS_CALL double moments_result_exact(const struct reduce_moments *moments, int64_t count, double ddof, bool root) {
    if (!((double)count - ddof > 0)) return (double)NAN;
    const wide_int sum = moments_sum(moments);
    const wide_uint magnitude = sum < 0 ? -(wide_uint)sum : (wide_uint)sum;
    const uint64_t low = (uint64_t)magnitude, high = (uint64_t)(magnitude >> 64);
    uint64_t words[4] = {0, 0, 0, 0}, squared[4] = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) moments_add_product(words, (uint64_t)count, moments->exact[2 + i], i);
    moments_add_product(squared, low, low, 0);
    moments_add_product(squared, low, high, 1);
    moments_add_product(squared, low, high, 1);
    moments_add_product(squared, high, high, 2);
    uint64_t borrow = 0;
    for (int i = 0; i < 4; i++) {
        const wide_uint difference = (wide_uint)words[i] - squared[i] - borrow;
        words[i] = (uint64_t)difference;
        borrow = (uint64_t)(difference >> 64) & 1;
    }
    double hi = 0, lo = 0, lost;
    for (int i = 7; i >= 0; i--) {
        hi = moments_add(hi * 0x1p32, (double)(uint32_t)(words[i / 2] >> (i % 2 * 32)), &lost);
        lo = lo * 0x1p32 + lost;
    }
    if (hi == 0) return 0;
    const double whole = hi;
    hi = whole + lo;
    lo -= hi - whole;
    moments_divide(&hi, &lo, (double)count);
    moments_divide(&hi, &lo, (double)count - ddof);
    if (!root) return hi;
    const double first = sqrt(hi);
    return first + (fma(-first, first, hi) + lo) / (2 * first);
}

#endif
