/* reduce_state.h - the rules of each reduction, NumPy's, on one struct reduce_state at a time.
 *
 * Floats accumulate in double (norm2: the sum of squares). Integers: sums and products in 64 bits modulo 2^64, which
 * serves either sign; mean and norm2 in double; min and max compare in 64 bits of their own signedness. In min, max,
 * argmin and argmax a NaN beats every number, and of equals the one at the least position stays, so for all four
 * `index` is that position, -1 where nothing has been seen. */
#ifndef KERNELS_REDUCE_STATE_H
#define KERNELS_REDUCE_STATE_H

#include "../core/kernel.h"
#include <math.h>

static inline bool reduce_selects(enum reduce_operator operator_) {
    return operator_ == REDUCE_MIN || operator_ == REDUCE_MAX || operator_ == REDUCE_ARGMIN ||
           operator_ == REDUCE_ARGMAX;
}

static inline bool reduce_seeks_least(enum reduce_operator operator_) {
    return operator_ == REDUCE_MIN || operator_ == REDUCE_ARGMIN;
}

/* Does value.f count, rather than value.i or value.u? */
static inline bool reduce_in_double(enum reduce_operator operator_, enum dtype dtype) {
    return (DTYPES_FLOAT & DTYPE_BIT(dtype)) || operator_ == REDUCE_MEAN || operator_ == REDUCE_NORM2;
}

enum dtype reduce_result_type(enum reduce_operator operator_, enum dtype dtype);

/* Nothing yet. */
static inline struct reduce_state reduce_state_empty(enum reduce_operator operator_, enum dtype dtype) {
    struct reduce_state state = {.value.i = 0, .index = -1};
    if (reduce_in_double(operator_, dtype))
        state.value.f = operator_ == REDUCE_PROD ? 1 : 0;
    else
        state.value.i = operator_ == REDUCE_PROD;
    return state;
}

/* One element, x[element], at `position` along the reduced axis. */
static inline struct reduce_state reduce_state_of(enum reduce_operator operator_, enum dtype dtype, const void *x,
                                                  int64_t element, int64_t position) {
    struct reduce_state state = {.index = position};
    if (!reduce_in_double(operator_, dtype)) {
        state.value.i = dtype_load_integer(dtype, x, element);
    } else {
        double value = dtype_load(dtype, x, element);
        state.value.f = operator_ == REDUCE_NORM2 ? value * value : value;
    }
    return state;
}

/* Is `a` to be taken rather than `b`, whatever their positions? */
static inline bool reduce_beats(enum reduce_operator operator_, enum dtype dtype, const struct reduce_state *a,
                                const struct reduce_state *b) {
    bool least = reduce_seeks_least(operator_);
    if (DTYPES_FLOAT & DTYPE_BIT(dtype)) {
        if (isnan(a->value.f)) return !isnan(b->value.f);
        return least ? a->value.f < b->value.f : a->value.f > b->value.f;
    }
    if (dtype < UINT8) return least ? a->value.i < b->value.i : a->value.i > b->value.i;
    return least ? a->value.u < b->value.u : a->value.u > b->value.u;
}

/* Two parts into one. */
static inline void reduce_state_merge(enum reduce_operator operator_, enum dtype dtype, struct reduce_state *into,
                                      const struct reduce_state *from) {
    bool product = operator_ == REDUCE_PROD;
    if (reduce_selects(operator_)) {
        if (from->index < 0) return;
        if (into->index < 0 || reduce_beats(operator_, dtype, from, into) ||
            (from->index < into->index && !reduce_beats(operator_, dtype, into, from)))
            *into = *from;
    } else if (reduce_in_double(operator_, dtype)) {
        into->value.f = product ? into->value.f * from->value.f : into->value.f + from->value.f;
    } else {
        into->value.u = product ? into->value.u * from->value.u : into->value.u + from->value.u;
    }
}

/* Writes the result to y[i]; a mean divides by `total`. */
void reduce_state_finish(enum reduce_operator operator_, enum dtype dtype, const struct reduce_state *state,
                         int64_t total, void *y, int64_t i);

#endif
