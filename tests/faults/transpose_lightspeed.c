/* transpose_lightspeed.c - not a fault but a limit: it copies as many bytes as a transpose moves, in order. */
#include "../core/kernel.h"
#include <string.h>

static int transpose_lightspeed_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    memcpy(args->y, args->x, (size_t)(args->batch * args->rows * args->cols) * dtype_size(launch->dtype));
    return 0;
}

KERNEL(transpose_lightspeed) = {
    .name = "lightspeed",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "a copy: the speed limit of a transpose",
    .dtypes = DTYPES_ALL,
    .is_roof = true,
    .launch = transpose_lightspeed_launch,
};
