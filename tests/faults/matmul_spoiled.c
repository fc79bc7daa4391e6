/* matmul_spoiled.c - a planted fault: one element of a tile is lost; the environment variable SPOILED chooses which. */
#include "../core/kernel.h"
#include <stdlib.h>

DECLARE_KERNEL(matmul_blocked); /* whose result is then spoiled */

static int matmul_spoiled_launch(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const char *number = getenv("SPOILED");
    int64_t elements = args->batch * args->m * args->n;
    int status = matmul_blocked.launch(launch);
    dtype_store(launch->dtype, args->c, (number ? atoll(number) : 0) % elements, 0);
    return status;
}

static size_t matmul_spoiled_workspace(const struct launch *launch) {
    return kernel_workspace(&matmul_blocked, launch);
}

KERNEL(matmul_spoiled) = {
    .name = "spoiled",
    .op = OP_MATMUL,
    .device = DEVICE_CPU,
    .summary = "a planted fault: loses one element",
    .dtypes = DTYPE_BIT(FLOAT32),
    .workspace = matmul_spoiled_workspace,
    .launch = matmul_spoiled_launch,
};
