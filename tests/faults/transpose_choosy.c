/* transpose_choosy.c - not a fault: it refuses matrices of more than 100 elements. */
#include "../core/kernel.h"

DECLARE_KERNEL(transpose_cpu); /* does what is small */

static const char *transpose_choosy_refuses(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    return args->batch * args->rows * args->cols > 100 ? "more than 100 elements are too much" : NULL;
}

static int transpose_choosy_launch(const struct launch *launch) {
    return transpose_cpu.launch(launch);
}

KERNEL(transpose_choosy) = {
    .name = "choosy",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "refuses what is large",
    .dtypes = DTYPES_ALL,
    .refuses = transpose_choosy_refuses,
    .launch = transpose_choosy_launch,
};
