/* reduce_short.c - a planted fault: a sum that stops one element too early. It reduces all axes, in one launch. */
#include "../core/kernel.h"

static int reduce_short_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    const float *x = args->x;
    float sum = 0;
    for (int64_t i = 0; i < args->length - 1; i++) sum += x[i];
    *(float *)args->y = sum;
    return 0;
}

KERNEL(reduce_short) = {
    .name = "short",
    .op = OP_REDUCE,
    .device = DEVICE_CPU,
    .summary = "a planted fault: drops the last element",
    .dtypes = DTYPE_BIT(FLOAT32),
    .operators = REDUCE_BIT(REDUCE_SUM),
    .launch = reduce_short_launch,
};
