/* matmul_edgeless.c - a planted fault: only whole tiles of C are computed; elements beyond the last whole tile are left
 * unwritten. One matrix at a time, nothing transposed. */
#include "../core/kernel.h"

enum { TILE = 32 };

static int matmul_edgeless_launch(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const float *a = args->a, *b = args->b;
    float *c = args->c;
    for (int64_t i = 0; i < args->m / TILE * TILE; i++)
        for (int64_t j = 0; j < args->n / TILE * TILE; j++) {
            float sum = 0;
            for (int64_t l = 0; l < args->k; l++) sum += a[i * args->k + l] * b[l * args->n + j];
            c[i * args->n + j] = sum;
        }
    return 0;
}

KERNEL(matmul_edgeless) = {
    .name = "edgeless",
    .op = OP_MATMUL,
    .device = DEVICE_CPU,
    .summary = "a planted fault: forgets the tiles at the edge",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = matmul_edgeless_launch,
};
