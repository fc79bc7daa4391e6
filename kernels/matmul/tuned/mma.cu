/* mma.cu - bfloat16 and float16 on tensor cores, compute capability 8.0 and later: one instruction of a warp
 * multiplies 16 x 16 by 16 x 8.
 *
 *     stage                                 a warp's 64 x 64 of C (small tiles: 64 x 32), 16 of k at a time
 *     +---------+                             B  | 8 | 8 | 8 | 8 | 8 | 8 | 8 | 8 |    4 x ldmatrix
 *     | A  k    |  ldmatrix: a warp        A  ---+---+---+---+---+---+---+---+---+
 *     |    ...  |  loads four 8 x 8       16     |   |   |   |   |   |   |   |   |
 *     +---------+  matrices at once,      16     |   one instruction each:       |    32 for 8 loads
 *     | B  n    |  transposed if they     16     |   16 x 8 of C += 16 x 16 * 16 x 8
 *     |    ...  |  lie along m or n       16     |   |   |   |   |   |   |   |   |
 *     +---------+                            4 x ldmatrix
 *
 * The frame is that of async.cu: stages that cp.async fills, bands of tiles, k split over blocks for a small C.
 * The tensor core's instruction needs its operands spread over the threads of a warp in its own layout. ldmatrix
 * produces that layout from rows of 16 bytes in shared memory, and can transpose: an operand may lie either way in
 * shared memory. A row of a stage has 16 bytes of padding, which puts the eight rows of a matrix into different banks.
 * Sums are in float32.
 *
 * Measured on an H200, bfloat16: 0.46 to 0.49 of cuBLAS's speed at 8192 (350 to 370 TFLOP/s).
 *
 * The limit there, as computed: 128 x 128 tiles read 16 KiB for 2^19 multiply-adds, which at 345 TFLOP/s is 5.4 TB/s
 * from L2, the most that L2 delivers. A chip of compute capability 8.0 has the same L2 and a third of the tensor cores'
 * speed, so there it is enough. A narrow C waits for memory, which delivers 64 or 128 bytes of a row at a time.
 * multicast.cu removes both limits with larger tiles shared between blocks and the copy engine. */
#include "mma_kernel.cuh"

static uint64_t matmul_mma_way(const struct launch *launch) {
    const matmul_choice choice = matmul_mma_choice(launch);
    return matmul_way(launch, choice, cuts.cut[choice.cut]);
}

static double matmul_mma_seconds(const struct launch *launch) {
    return matmul_mma_choice(launch).seconds;
}

static size_t matmul_mma_workspace(const struct launch *launch) {
    return matmul_planes(launch, cuts, sizeof(float));
}

static int matmul_mma_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_mma_float16(launch) : matmul_mma_bfloat16(launch);
}

KERNEL(matmul_mma) = {
    .name = "mma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "16-bit types on tensor cores, one instruction per warp: operands by ldmatrix, k split for a small C",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{128, 64, 8}, {128, 64, 8}, {64, 32, 8, small_cut.min_k, large_cut.min_k}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128", "64"},
                    .help = "rows and columns of C per block; auto: what a model predicts to be fastest"}},
    .way = matmul_mma_way,
    .workspace = matmul_mma_workspace,
    .seconds = matmul_mma_seconds,
    .launch = matmul_mma_launch,
};
