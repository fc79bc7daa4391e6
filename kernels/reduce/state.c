/* reduce/state.c - the types and the last step of each reduction. */
#include "state.h"
#include <math.h>

enum dtype reduce_result_type(enum reduce_operator operator_, enum dtype dtype) {
    switch (operator_) {
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX: return INT64;
    case REDUCE_MIN:
    case REDUCE_MAX: return dtype;
    case REDUCE_MEAN:
    case REDUCE_NORM2: return dtype_is_float(dtype) ? dtype : FLOAT64;
    case REDUCE_SUM:
    case REDUCE_PROD: return dtype_is_float(dtype) ? dtype : dtype_is_signed(dtype) ? INT64 : UINT64;
    case REDUCE_OPERATOR_COUNT: break;
    }
    return DTYPE_COUNT;
}

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
    else
        store_float(result, y, i, state->value.f);
}
