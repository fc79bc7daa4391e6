/* scale_spoiled.c - a planted fault: one element of a tile is lost; the environment variable SPOILED chooses which. */
#include "../core/kernel.h"
#include <stdlib.h>

DECLARE_KERNEL(scale_cpu); /* whose result is then spoiled */

static int scale_spoiled_launch(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    const char *number = getenv("SPOILED");
    int64_t elements = args->count;
    int status = scale_cpu.launch(launch);
    dtype_store(launch->dtype, args->y, (number ? atoll(number) : 0) % elements, 0);
    return status;
}

KERNEL(scale_spoiled) = {
    .name = "spoiled",
    .op = OP_SCALE,
    .device = DEVICE_CPU,
    .summary = "a planted fault: loses one element",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = scale_spoiled_launch,
};
