/* reduce/state.c - the result types of reductions, the last step of each, and states of any operator. */
#include "state.h"
#include <math.h>

enum dtype reduce_result_type(enum reduce_operator operator_, enum dtype dtype) {
    switch (operator_) {
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX:
    case REDUCE_COUNT_NAN: return INT64;
    case REDUCE_MIN:
    case REDUCE_MAX: return dtype;
    case REDUCE_MEAN:
    case REDUCE_VAR:
    case REDUCE_STD:
    case REDUCE_NORM2: return dtype_is_float(dtype) ? dtype : FLOAT64;
    case REDUCE_SUM:
    case REDUCE_PROD: return dtype_is_float(dtype) ? dtype : dtype_is_signed(dtype) ? INT64 : UINT64;
    case REDUCE_OPERATOR_COUNT: break;
    }
    return DTYPE_COUNT;
}

/* Stores a result; makes every NaN the one without sign and payload. */
static void store_float(enum dtype dtype, void *y, int64_t i, double value) {
    dtype_store(dtype, y, i, isnan(value) ? (double)NAN : value);
}

void reduce_state_finish(enum reduce_operator operator_, enum dtype dtype, const struct reduce_state *state,
                         int64_t total, void *y, int64_t i) {
    enum dtype result = reduce_result_type(operator_, dtype);
    if (operator_ == REDUCE_ARGMIN || operator_ == REDUCE_ARGMAX)
        dtype_store_integer(result, y, i, state->index);
    else if (!reduce_in_double(operator_, dtype))
        dtype_store_integer(result, y, i, state->value.i);
    else if (operator_ == REDUCE_MEAN)
        store_float(result, y, i, state->value.f / (double)total);
    else if (operator_ == REDUCE_PROD)
        store_float(result, y, i, scalbln(state->value.f, state->index));
    else if (operator_ == REDUCE_NORM2)
        store_float(result, y, i, scalbln(sqrt(state->value.f), 600 * state->index));
    else if (reduce_selects(operator_) && state->index < 0)
        store_float(result, y, i, NAN); /* NaNs alone, skipped */
    else
        store_float(result, y, i, state->value.f);
}

/* ---- any state --------------------------------------------------------------------------------------------------- */

void reduce_merge(const struct reduction *reduction, union reduce_any *into, const union reduce_any *from) {
    enum reduce_operator operator_ = reduction->args->operator_;
    if (!reduce_has_moments(operator_, reduction->args->skip_nan)) {
        reduce_state_merge(operator_, reduction->dtype, &into->state, &from->state);
    } else if (!reduce_is_variance(operator_)) {
        into->moments.count += from->moments.count;
        into->moments.total.sum += from->moments.total.sum;
    } else if (dtype_is_float(reduction->dtype)) {
        moments_merge(&into->moments, &from->moments);
    } else {
        moments_merge_exact(&into->moments, &from->moments);
    }
}

/* x^2; `dtype`: the integer type whose 64-bit pattern x holds. */
static wide_uint square(enum dtype dtype, int64_t x) {
    const uint64_t magnitude = dtype_is_signed(dtype) && x < 0 ? -(uint64_t)x : (uint64_t)x;
    return (wide_uint)magnitude * magnitude;
}

void reduce_add(const struct reduction *reduction, union reduce_any *into, int64_t element, int64_t position) {
    const struct reduce_args *args = reduction->args;
    enum dtype dtype = reduction->dtype;
    union reduce_any one = {.moments = {.count = 1}};
    if (args->skip_nan && reduce_is_nan(dtype, args->x, element)) return;
    if (!reduce_has_moments(args->operator_, args->skip_nan)) {
        one.state = reduce_state_of(args->operator_, dtype, args->x, element, position);
    } else if (!reduce_is_variance(args->operator_)) {
        one.moments.total.sum = dtype_load(dtype, args->x, element);
    } else if (dtype_is_float(dtype)) {
        double x = dtype_load(dtype, args->x, element);
        one.moments.spread.mean = x;
        one.moments.spread.squares = x - x; /* infinities have no variance */
    } else {
        int64_t x = dtype_load_integer(dtype, args->x, element);
        wide_int sum = dtype_is_signed(dtype) ? (wide_int)x : (wide_int)(uint64_t)x;
        one.moments = (struct reduce_moments){0};
        moments_add_exact(&one.moments, sum, square(dtype, x), 0);
    }
    reduce_merge(reduction, into, &one);
}

union reduce_any reduce_load(const struct reduction *reduction, int64_t out) {
    const struct reduce_args *args = reduction->args;
    size_t size = reduce_state_size(args->operator_, args->skip_nan);
    union reduce_any state;
    if (args->first) return reduce_empty(reduction);
    memcpy(&state, (const char *)args->state + (size_t)out * size, size);
    return state;
}

void reduce_store(const struct reduction *reduction, const union reduce_any *state, int64_t out) {
    const struct reduce_args *args = reduction->args;
    size_t size = reduce_state_size(args->operator_, args->skip_nan);
    enum dtype dtype = reduction->dtype, result = reduce_result_type(args->operator_, dtype);
    const struct reduce_moments *moments = &state->moments;
    bool root = args->operator_ == REDUCE_STD;
    if (!args->last)
        memcpy((char *)args->state + (size_t)out * size, state, size);
    else if (!reduce_has_moments(args->operator_, args->skip_nan))
        reduce_state_finish(args->operator_, dtype, &state->state, args->total, args->y, out);
    else if (!reduce_is_variance(args->operator_))
        store_float(result, args->y, out,
                    moments->total.sum / (args->operator_ == REDUCE_MEAN ? (double)moments->count : 1));
    else if (dtype_is_float(dtype))
        store_float(result, args->y, out, moments_result(moments, args->ddof, root));
    else
        store_float(result, args->y, out, moments_result_exact(moments, args->total, args->ddof, root));
}
