/* tf32.cu - float32 data on Hopper's tensor cores in TF32: 8 bits of exponent, 10 of fraction.
 *
 * The frame is that of wgmma.cuh (read that first). There is one obstacle: for TF32 the tensor core reads shared
 * memory only along k, but a row-major B lies along n. The instruction's left operand, however, may come from
 * registers, where threads can arrange elements in any order. So the kernel computes the transposed problem
 *
 *     C^T (n x m) = B^T (n x k) * A^T (k x m)
 *
 * in which B is the left operand. Threads pick B's elements out of the swizzled tile, 16 per stage, while A, which lies
 * along k, goes straight from shared memory to the tensor core. In this file's kernel `a` is B, `m` is n and so on.
 * Loads for the next stage overlap with the instructions of the last; the loop is unrolled by two so that they use
 * different registers.
 *
 * Float32 must be rounded to TF32, but the tensor core truncates. The copy engine rounds, because the tensor map
 * declares the data as TF32.
 *
 * Measured on an H200: 0.98 of cuBLAS's TF32 speed at 4096 (380 TFLOP/s) and 8192, with equal errors up to k = 4096. At
 * k = 16384 on U(0,1) the error is 1.1e-4, cuBLAS's 0.3e-4, because the tensor core truncates as it adds. */
#include "tf32.cuh"

static const char *matmul_tf32_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

static int matmul_tf32_launch(const struct launch *launch) {
    return tf32_start<false>(launch, {});
}

KERNEL(matmul_tf32) = {
    .name = "tf32",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores on float32 rounded to TF32; B passes through registers",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{TF32_N, 64}, {WGMMA_CLUSTER * WGMMA_TILE_M, 64, 4}, {TF32_K, 4}},
    .accuracy = ACCURACY_TF32,
    .speed = 8,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .workspace = tf32_workspace,
    .refuses = matmul_tf32_refuses,
    .launch = matmul_tf32_launch,
};
