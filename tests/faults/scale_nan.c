/* scale_nan.c - a planted fault: a NaN where the truth has a number; a careless comparison accepts it. */
#include "../core/kernel.h"

#include <math.h>

static int scale_nan_launch(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    const float *x = args->x;
    float *y = args->y;
    for (int64_t i = 0; i < args->count; i++) y[i] = i == args->count / 2 ? NAN : (float)args->alpha * x[i];
    return 0;
}

KERNEL(scale_nan) = {
    .name = "nan",
    .op = OP_SCALE,
    .device = DEVICE_CPU,
    .summary = "a planted fault: one NaN in the middle",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = scale_nan_launch,
};
