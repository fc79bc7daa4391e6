/* scale_refusing.c - a planted fault: every launch fails. */
#include "../core/kernel.h"

static int scale_refusing_launch(const struct launch *launch) {
    return launch->args.scale.count > 0 ? 1 : 0; /* cudaErrorInvalidValue */
}

KERNEL(scale_refusing) = {
    .name = "refusing",
    .op = OP_SCALE,
    .device = DEVICE_CPU,
    .summary = "a planted fault: its launch fails",
    .dtypes = DTYPES_ALL,
    .launch = scale_refusing_launch,
};
