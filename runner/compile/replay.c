/* replay.c - compares a launch's result for changed inputs with the simplest variant's. */
#include "replay.h"

#include "../base/text.h"

#include <math.h>

#define MAX_WORK  (INT64_C(1) << 26) /* multiply-adds or elements: the simplest variant takes a tenth of a second */
#define TOLERANCE 1e-3               /* allowed error of an element, as a share of the largest magnitude */

/* The matrices of an operand in memory; without a stride all matrices of the stack are the same. */
static int64_t matrices(int64_t stride, int64_t batch) {
    return stride ? batch : 1;
}

bool replay_make(const struct launch *launch, struct replay *replay) {
    *replay = (struct replay){.simplest = kernel_find(launch->op, "cpu"), .launch = *launch};
    struct matmul_args *matmul = &replay->launch.args.matmul;
    struct reduce_args *reduce = &replay->launch.args.reduce;
    struct transpose_args *transpose = &replay->launch.args.transpose;
    struct scale_args *scale = &replay->launch.args.scale;
    int64_t count[2] = {0, 0}, work = 0;
    switch (launch->op) {
    case OP_MATMUL:
        replay->in[0] = &matmul->a, replay->in[1] = &matmul->b, replay->out = &matmul->c;
        count[0] = matrices(matmul->a_batch_stride, matmul->batch) * matmul->m * matmul->k;
        count[1] = matrices(matmul->b_batch_stride, matmul->batch) * matmul->k * matmul->n;
        work = matmul->batch * matmul->m * matmul->n * matmul->k;
        break;
    case OP_REDUCE:
        replay->in[0] = &reduce->x, replay->out = &reduce->y, replay->summed = reduce->length;
        work = count[0] = reduce->outer * reduce->length * reduce->inner;
        break;
    case OP_TRANSPOSE:
        replay->in[0] = &transpose->x, replay->out = &transpose->y;
        work = count[0] = transpose->batch * transpose->rows * transpose->cols;
        break;
    case OP_SCALE:
        replay->in[0] = &scale->x, replay->out = &scale->y;
        work = count[0] = scale->count;
        break;
    case OP_MAP:
    case OP_COUNT: return false;
    }
    for (int i = 0; i < 2; i++) replay->in_bytes[i] = count[i] * (int64_t)dtype_size(launch->dtype);
    replay->launch.stream = NULL;
    replay->launch.kernel = replay->simplest;
    return count[0] > 0 && work <= MAX_WORK && !launch->before.map && replay->simplest &&
           replay->simplest->dtypes & DTYPE_BIT(launch->dtype) && !kernel_refusal(replay->simplest, &replay->launch);
}

void replay_change(enum dtype dtype, char *data, int64_t bytes) {
    int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t at = 0; at < bytes; at += 3 * size)
        if (dtype_is_float(dtype))
            data[at + size - 1] ^= (char)0x80;
        else
            data[at] ^= 1;
}

/* The largest finite magnitude. */
static double largest_of(enum dtype dtype, const void *data, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = fabs(dtype_load(dtype, data, i));
        if (isfinite(value)) largest = fmax(largest, value);
    }
    return largest;
}

/* The first element that differs by more than the allowed error; -1: no element does. `rounding`: added to the allowed
 * error, because sums of large terms may cancel. */
static int64_t find_difference(enum dtype dtype, const void *right, const void *got, int64_t count, double rounding) {
    double tolerance = fmax(TOLERANCE, 16 * dtype_epsilon(dtype)); /* of a coarse type a few roundings */
    double allowed = dtype_is_float(dtype) ? tolerance * largest_of(dtype, right, count) + rounding : 0;
    for (int64_t i = 0; i < count; i++) {
        double a = dtype_load(dtype, right, i), b = dtype_load(dtype, got, i);
        if (!(fabs(a - b) <= allowed) && a != b && isfinite(a)) return i;
    }
    return -1;
}

enum status replay_judge(const struct replay *replay, const void *got, enum dtype out, int64_t out_bytes,
                         struct error *error) {
    char got_text[32], right_text[32];
    enum dtype dtype = replay->launch.dtype;
    double rounding = dtype_is_float(dtype) ? (double)replay->summed * dtype_epsilon(dtype) : 0;
    replay->simplest->launch(&replay->launch);
    if (rounding > 0) rounding *= largest_of(dtype, *replay->in[0], replay->in_bytes[0] / (int64_t)dtype_size(dtype));
    int64_t at = find_difference(out, *replay->out, got, out_bytes / (int64_t)dtype_size(out), rounding);
    if (at < 0) return STATUS_OK;
    return fail(error, STATUS_RUN,
                "with other input it gave a wrong result, as if it replayed an earlier one: element %lld is %s, "
                "should be %s",
                (long long)at, value_text(dtype_load(out, got, at), got_text),
                value_text(dtype_load(out, *replay->out, at), right_text));
}
