/* wgmma.cu - bfloat16 and float16 on Hopper's tensor cores: a copy engine moves the operands, threads only give
 * orders.
 *
 *     copy engine   | stage 0 | stage 1 | stage 2 | stage 3 | stage 0 ..   48 KiB each: 128 x 64 of A, 64 x 256 of B
 *     producer      one thread starts a copy as soon as a stage is empty
 *     consumer 0              | stage 0 | stage 1 | stage 2 | stage 3 ..   64 x 256 of C += 64 x 64 * 64 x 256,
 *     consumer 1              | stage 0 | stage 1 | stage 2 | stage 3 ..   four instructions
 *
 * mma.cu loads operands from shared memory into registers before it multiplies. Here no thread touches an
 * operand: the copy engine fills shared memory, the tensor core reads it there, and threads only start both. A block's
 * tile of 128 x 256 is the largest that registers hold (128 sums per thread), so each byte loaded serves the most
 * multiplications. Two blocks form a cluster and share their tile of B, which cuts reads from L2 by a third. A block
 * stays for the whole launch and takes tile after tile: while it stores one tile's sums, the next tile's operands
 * arrive.
 *
 * A stage takes 1024 cycles: each of two consumers issues 4 instructions of 128 cycles. Shared memory moves 128 KiB in
 * that time, which is its limit: copies write 48 KiB, and each consumer reads 8 KiB of A and 32 KiB of B.
 *
 * Barriers use the plain forms of arrive and wait: only the copy engine and the tensor core touch the data they guard.
 * A release and an acquire at cluster scope in every stage cost a third of the speed.
 *
 * Not every C is large. The pair's tile is 256 rows by 256, 192, 128 or 64 columns; a product whose m is small is
 * turned (C^T = B^T A^T: both kinds of operand may lie either way), so that the 256 lie along n; and where tiles are
 * few, k is cut in 2 or 4 pieces:
 *
 *     pair 0   A, 256 x k/4  |  sums of 256 x n  |     Every block leaves its sums in its own shared memory, then
 *     pair 1   A, 256 x k/4  |  sums of 256 x n  |     adds up a quarter of its rows, read from all four pairs. This
 *     pair 2   A, 256 x k/4  |  sums of 256 x n  |     needs no workspace, counter or second launch, and it adds in
 *     pair 3   A, 256 x k/4  |  sums of 256 x n  |     the same order every time.
 *
 * More than four pieces would need clusters of more than 8 blocks, which not every chip can place. Tiles of 64 columns
 * leave room for two blocks on a multiprocessor: one loads while the other starts or stores. Which of these is fastest
 * is predicted (wgmma_choice.cuh), and can be forced by the job.
 *
 * The copy engine wants rows that begin on 16 bytes. Others are copied first (pack.cuh), one pass over the operand.
 *
 * Measured on an H200, bfloat16, against cuBLAS: 0.98 to 1.02 at 4096 to 16384 (803 TFLOP/s at 8192), 0.74 at 2000, 4.2
 * at 4785 and 3.3 at 3413, whose rows begin anywhere. By the model's choice, of 21 drawn shapes 16 took at most 5 %
 * longer than by the best of 20 configurations; its constants were then fitted to these times.
 *
 * What remains: at the end of a tile both consumers store, and neither multiplies. A small product takes 5 us where the
 * vendor's takes 2.5. Weights that are read once, for a few rows, arrive at 2.2 to 3.2 TB/s. */
#include "wgmma_choice.cuh"

#define TILE_K WGMMA_STEP_K

/* The job's words, by their place in the descriptor's lists; 0 where the model decides. */
static const int tile_words[] = {0, 256, 192, 128, 64}, piece_words[] = {0, 1, 2, 4};

static wgmma_config matmul_wgmma_config(const struct launch *launch) {
    const int *choice = launch->choice;
    return wgmma_choose(launch, tile_words[choice[0]], piece_words[choice[1]],
                        tile_words[choice[0]] > 128 ? 1 : choice[2]);
}

/* An element's bits depend only on how k is cut. */
static uint64_t matmul_wgmma_way(const struct launch *launch) {
    const int pieces = matmul_wgmma_config(launch).pieces;
    return pieces == 1 ? 1 : uint64_t(ceil_div(ceil_div(launch->args.matmul.k, pieces), TILE_K)) << 1;
}

static size_t matmul_wgmma_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
}

static const char *matmul_wgmma_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

/* Compiled in wgmma_TYPE_TILE.cu. */
template <int TILE_N, typename T> int matmul_wgmma_tile(const struct launch *launch, const wgmma_config &config);

template <typename T> static int matmul_wgmma_of(const struct launch *launch) {
    const wgmma_config config = matmul_wgmma_config(launch);
    switch (config.tile_n) {
    case 256: return matmul_wgmma_tile<256, T>(launch, config);
    case 192: return matmul_wgmma_tile<192, T>(launch, config);
    case 128: return matmul_wgmma_tile<128, T>(launch, config);
    default: return matmul_wgmma_tile<64, T>(launch, config);
    }
}

static int matmul_wgmma_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_wgmma_of<__half>(launch) : matmul_wgmma_of<__nv_bfloat16>(launch);
}

KERNEL(matmul_wgmma) = {
    .name = "wgmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores: bulk copies into a ring of stages, warps with roles, clusters that share B",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{WGMMA_CLUSTER * WGMMA_TILE_M, 128, 64, 8}, {256, 192, 128, 64, 8}, {TILE_K, 8, 4 * TILE_K, 8 * TILE_K}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "tile",
                    .values = {"auto", "256x256", "256x192", "256x128", "256x64"},
                    .help = "of a pair of blocks; auto: what a model predicts to be fastest"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "4"},
                    .help = "of k, each by a pair of its own, added up in their shared memory"},
                   {.name = "turned",
                    .values = {"auto", "no", "yes"},
                    .help = "the tile's 256 lie along n; for tiles of 128 and 64"}},
    .way = matmul_wgmma_way,
    .workspace = matmul_wgmma_workspace,
    .refuses = matmul_wgmma_refuses,
    .launch = matmul_wgmma_launch,
};
