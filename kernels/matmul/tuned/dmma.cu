/* dmma.cu - float64 on tensor cores: a warp multiplies a 16 x 4 by a 4 x 8 matrix in one instruction.
 *
 *     A 64 x 4   B 4 x 32     C 64 x 32 per warp     For every 4 of k a thread loads 8 elements of A and 4 of B, and
 *       +--+      +--------+   +--+--+--+--+         the warp multiplies 16 times, once for each 16 x 8 of C. The
 *       |  |  x   |        | = |  |  |  |  |         sums take 128 registers per thread, two sets of operands 48:
 *       |  |      +--------+   +--+--+--+--+         a block of 8 warps, 128 x 128 of C, fills a multiprocessor.
 *       |  |                   |  |  |  |  |
 *       +--+                   +--+--+--+--+
 *
 * Four stages of 16 of k are filled by cp.async, as in async.cu, but no operand is transposed: a thread loads
 * single elements, which is as easy if k is adjacent as if lines are. Either way half a warp loads 4 lines x 4 k
 * of 8 bytes at once, and four elements of padding put them into different banks.
 *
 * Before compute capability 9.0 the 16 rows take two instructions of 8.
 *
 * Smaller tiles, whose k is shared by warps and by clusters of blocks, are in shares.cuh. If there are at least as many
 * tiles as blocks that run at once, blocks share the tiles evenly (even.cuh).
 *
 * Measured on an H200: 0.95 to 1.05 of cuBLAS's speed on large products, up to 62 TFLOP/s (without tensor cores,
 * matmul/vectorized.cu: 17). The limit: the tensor cores themselves; warps wait for them more than for anything
 * else. */
#include "dmma_kernel.cuh"
#include "ways.cuh"

static uint64_t matmul_dmma_way(const struct launch *launch) {
    const matmul_choice choice = matmul_dmma_choice(launch);
    return matmul_way(launch, choice, cuts.cut[choice.cut]);
}

/* The model is wrong for at most FEW rows or columns, where tiles mostly copy, because a tile has at least 16 rows and
 * 32 columns. So if the operands exceed L2, its time is multiplied by one of these factors. Measured time over the
 * model's: 1.7 for 11 x 2458 x 14650, whose k is cut; 1.3 for 7028 x 6 x 1240; but 0.87 for 10 x 22016 x 5504 and 0.99
 * for 11 x 6664 x 13334. */
#define FEW                  16
#define CUT_SLOWDOWN         1.5  /* k is cut */
#define FEW_COLUMNS_SLOWDOWN 1.3  /* else, with few columns */
#define FEW_ROWS_SLOWDOWN    0.95 /* else, with few rows: faster */
#define L2_BYTES             44e6

static double matmul_dmma_seconds(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const matmul_choice choice = matmul_dmma_choice(launch);
    const double bytes = 8 * (double(args.m) + double(args.n)) * double(args.k);
    if (std::min(args.m, args.n) > FEW || bytes <= L2_BYTES) return choice.seconds;
    return choice.seconds * (choice.splits * choice.shares > 1 ? CUT_SLOWDOWN
                             : args.m > args.n                 ? FEW_COLUMNS_SLOWDOWN
                                                               : FEW_ROWS_SLOWDOWN);
}

static size_t matmul_dmma_workspace(const struct launch *launch) {
    size_t bytes = matmul_planes(launch, cuts, sizeof(double));
    for (int i = 0; i < cuts.count; i++) bytes = std::max(bytes, even_bytes(launch, cuts.cut[i]));
    return bytes > 0 ? FLAG_BYTES + bytes : 0;
}

static int matmul_dmma_begin(const struct launch *launch) {
    return launch->args.matmul.transpose_a ? matmul_dmma_a_transposed(launch) : matmul_dmma_a_plain(launch);
}

DECLARE_KERNEL(matmul_dmma);
static int matmul_dmma_launch(const struct launch *launch) {
    return ways_launch(&matmul_dmma, launch, matmul_dmma_begin);
}

KERNEL(matmul_dmma) = {
    .name = "dmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float64 on tensor cores: tiles from 16x32 to 128x128; large products: each block an equal share",
    .dtypes = DTYPE_BIT(FLOAT64),
    .edges = {{128, 64, 32, 16, 2}, {96, 64, 32, 2}, {16, 32, 2, 64, 128, 256}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128", "128x64", "64x96k2", "64x64", "64x64k2", "32x64k2", "32x32k4", "16x32k4"},
                    .help = "rows and columns of C per block, k2: two warps share k; auto: as a model predicts"}},
    .way = matmul_dmma_way,
    .workspace = matmul_dmma_workspace,
    .seconds = matmul_dmma_seconds,
    .launch = matmul_dmma_launch,
};
