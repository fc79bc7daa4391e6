/* reduce/state.h - the rules of each reduction, which are NumPy's, as functions of the state of one output.
 *
 * Integers: sums and products in 64 bits modulo 2^64, which serves signed types too; mean and norm2 in double; min and
 * max compare in 64 bits of the type's own signedness. Floats accumulate in double:
 *
 *     sum, mean        the plain sum: it overflows where NumPy's does
 *     prod             value.f * 2^index with 1 <= |value.f| < 2, so that no order of the elements leaves the range
 *     norm2            the sum of (x * 2^(-600 index))^2: index 1 if the largest |x| is so large that squares might
 *                      overflow, -1 if it is so small that they might underflow, else 0 (J. Blue, 1978)
 *     min, max         a NaN beats every number; -0 is less than +0
 *     argmin, argmax   a NaN beats every number; of equals (-0 equals +0) the first one stays
 *     var, std         struct reduce_moments, by the rules of reduce/moments.h
 *     count_nan        an integer
 *
 * For min to argmax, `index` is the position, -1 if nothing has been seen. A NaN result is always the same quiet NaN
 * without sign and payload, whatever NaNs went in.
 *
 * With skip_nan NaNs are ignored. So a mean needs the number of the other elements, beside the sum. If all elements are
 * NaN, the min, max, mean and variance are NaN, positions are -1, a sum is 0 and a product is 1. */
#ifndef KERNELS_REDUCE_STATE_H
#define KERNELS_REDUCE_STATE_H

#include "moments.h"
#include <string.h>

/* Does the operator choose one of the elements? */
static inline bool reduce_selects(enum reduce_operator operator_) {
    return operator_ == REDUCE_MIN || operator_ == REDUCE_MAX || operator_ == REDUCE_ARGMIN ||
           operator_ == REDUCE_ARGMAX;
}

static inline bool reduce_seeks_smallest(enum reduce_operator operator_) {
    return operator_ == REDUCE_MIN || operator_ == REDUCE_ARGMIN;
}

/* Is the value in value.f, rather than in value.i or value.u? */
static inline bool reduce_in_double(enum reduce_operator operator_, enum dtype dtype) {
    if (operator_ == REDUCE_COUNT_NAN) return false;
    return (DTYPES_FLOAT & DTYPE_BIT(dtype)) || operator_ == REDUCE_MEAN || operator_ == REDUCE_NORM2;
}

/* The type of the results for elements of type `dtype`. */
enum dtype reduce_result_type(enum reduce_operator operator_, enum dtype dtype);

/* Returns the mantissa of x, 1 <= |mantissa| < 2, and adds its exponent to *exponent. 0, infinities and NaN stay as
 * they are. There are no branches, so that loops over it vectorise. */
static inline double reduce_split(double x, int64_t *exponent) {
    const bool subnormal = fabs(x) < 0x1p-1022;
    const double normal = subnormal ? x * 0x1p64 : x;
    uint64_t bits;
    memcpy(&bits, &normal, sizeof bits);
    const int64_t field = (int64_t)(bits >> 52 & 0x7ff);
    const bool splits = (field > 0) & (field < 0x7ff);
    *exponent += splits ? field - (subnormal ? 1023 + 64 : 1023) : 0;
    bits = splits ? (bits & 0x800fffffffffffffu) | 0x3ff0000000000000u : bits;
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    return mantissa;
}

/* The smallest index of norm2 at which the square of x, and the sum of 2^60 such squares, are in range. */
static inline int64_t reduce_square_level(double x) {
    const double magnitude = fabs(x);
    return magnitude < 0x1p-400 ? -1 : magnitude < 0x1p480 ? 0 : 1;
}

/* The factor of elements before they are squared, at this level: the index of norm2. */
static inline double reduce_square_scale(int64_t level) {
    return level < 0 ? 0x1p600 : level > 0 ? 0x1p-600 : 1;
}

/* Converts a sum of squares from one level to a level as high or higher. */
static inline double reduce_square_sum(double sum, int64_t level, int64_t higher) {
    for (; level < higher; level++) sum = sum * 0x1p-600 * 0x1p-600;
    return sum;
}

/* The state before any element. */
static inline struct reduce_state reduce_state_empty(enum reduce_operator operator_, enum dtype dtype) {
    struct reduce_state state = {.value.i = 0, .index = -1};
    if (!reduce_in_double(operator_, dtype))
        state.value.i = operator_ == REDUCE_PROD;
    else if (operator_ == REDUCE_PROD)
        state = (struct reduce_state){.value.f = 1, .index = 0};
    return state;
}

/* Is x[element] a NaN? Integers never are. */
static inline bool reduce_is_nan(enum dtype dtype, const void *x, int64_t element) {
    return (DTYPES_FLOAT & DTYPE_BIT(dtype)) && isnan(dtype_load(dtype, x, element));
}

/* The state of a single element, x[element], at `position` along the reduced axis. */
static inline struct reduce_state reduce_state_of(enum reduce_operator operator_, enum dtype dtype, const void *x,
                                                  int64_t element, int64_t position) {
    struct reduce_state state = {.index = position};
    if (operator_ == REDUCE_COUNT_NAN) {
        state.value.i = reduce_is_nan(dtype, x, element);
        return state;
    }
    if (!reduce_in_double(operator_, dtype)) {
        state.value.i = dtype_load_integer(dtype, x, element);
        return state;
    }
    double value = dtype_load(dtype, x, element);
    if (operator_ == REDUCE_PROD) {
        state.index = 0;
        value = reduce_split(value, &state.index);
    } else if (operator_ == REDUCE_NORM2) {
        state.index = reduce_square_level(value);
        value *= reduce_square_scale(state.index);
        value *= value;
    }
    state.value.f = value;
    return state;
}

/* Does `a` replace `b`, whatever their positions? */
static inline bool reduce_beats(enum reduce_operator operator_, enum dtype dtype, const struct reduce_state *a,
                                const struct reduce_state *b) {
    bool smallest = reduce_seeks_smallest(operator_);
    if (DTYPES_FLOAT & DTYPE_BIT(dtype)) {
        if (isnan(a->value.f)) return !isnan(b->value.f);
        if (a->value.f == b->value.f && operator_ == REDUCE_MIN) return signbit(a->value.f) && !signbit(b->value.f);
        if (a->value.f == b->value.f && operator_ == REDUCE_MAX) return signbit(b->value.f) && !signbit(a->value.f);
        return smallest ? a->value.f < b->value.f : a->value.f > b->value.f;
    }
    if (!(DTYPES_UNSIGNED & DTYPE_BIT(dtype))) return smallest ? a->value.i < b->value.i : a->value.i > b->value.i;
    return smallest ? a->value.u < b->value.u : a->value.u > b->value.u;
}

/* Merges `from` into `into`. */
static inline void reduce_state_merge(enum reduce_operator operator_, enum dtype dtype, struct reduce_state *into,
                                      const struct reduce_state *from) {
    if (reduce_selects(operator_)) {
        if (from->index < 0) return;
        if (into->index < 0 || reduce_beats(operator_, dtype, from, into) ||
            (from->index < into->index && !reduce_beats(operator_, dtype, into, from)))
            *into = *from;
    } else if (!reduce_in_double(operator_, dtype)) {
        into->value.u = operator_ == REDUCE_PROD ? into->value.u * from->value.u : into->value.u + from->value.u;
    } else if (operator_ == REDUCE_PROD) {
        into->index += from->index;
        into->value.f = reduce_split(into->value.f * from->value.f, &into->index);
    } else if (operator_ == REDUCE_NORM2) {
        const int64_t level = into->index > from->index ? into->index : from->index;
        into->value.f =
            reduce_square_sum(into->value.f, into->index, level) + reduce_square_sum(from->value.f, from->index, level);
        into->index = level;
    } else {
        into->value.f += from->value.f;
    }
}

/* Writes the result to y[i]; a mean divides by `total`. */
void reduce_state_finish(enum reduce_operator operator_, enum dtype dtype, const struct reduce_state *state,
                         int64_t total, void *y, int64_t i);

/* ---- any state --------------------------------------------------------------------------------------------------- */

/* The state of an output, in the struct that its operator needs (reduce_has_moments). */
union reduce_any {
    struct reduce_state state;
    struct reduce_moments moments;
};

/* What a launch reduces, and how. */
struct reduction {
    const struct reduce_args *args;
    enum dtype dtype;
};

/* The state before any element. */
static inline union reduce_any reduce_empty(const struct reduction *reduction) {
    union reduce_any empty = {.moments = {0}};
    if (!reduce_has_moments(reduction->args->operator_, reduction->args->skip_nan))
        empty.state = reduce_state_empty(reduction->args->operator_, reduction->dtype);
    return empty;
}

/* Merges `from` into `into`. */
void reduce_merge(const struct reduction *reduction, union reduce_any *into, const union reduce_any *from);
/* Merges x[element], at `position` along the reduced axis; not a NaN that is skipped. */
void reduce_add(const struct reduction *reduction, union reduce_any *into, int64_t element, int64_t position);
/* The state of output number `out` that earlier launches have left; empty in the first launch. */
union reduce_any reduce_load(const struct reduction *reduction, int64_t out);
/* Stores the state of output number `out` for the next launch, or, in the last launch, its result. */
void reduce_store(const struct reduction *reduction, const union reduce_any *state, int64_t out);

#endif
