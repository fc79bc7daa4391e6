/* matmul/multicast.cu - bfloat16 and float16 on Hopper's tensor cores, with a tile for every shape.
 *
 * The engine is that of matmul/wgmma.cu (read that first): one thread copies, warpgroups multiply, a ring of stages is
 * between them. What it adds are tiles for every shape, and clusters that make small tiles cheap:
 *
 *     a tile is 128 rows of 256, 240, 224 .. 128 or 96 columns, or 64 rows of 192, 160, 144 .. 32 or 16
 *
 *     64 x 7168 x 7168, turned: 112 tiles of 64 x 64, one a multiprocessor, all in one round. In a pair of 128 x 64
 *     tiles, there would be 28 pairs: 56 of 132 multiprocessors would fetch the weights.
 *
 * Steps of 16 columns let the tiles of most products fill whole rounds of multiprocessors: 0.90 of these instead of
 * 0.84, for drawn matrices of 1500 to 2500 rows and columns, than with four widths.
 *
 * A small tile multiplies little for each byte that it fetches: 64 x 64 needs 16 KiB for 128 cycles of the tensor
 * core, four times what L2 can give. So the blocks of a cluster fetch for each other. In a cluster of 2 x 2 a block
 * copies half of its tile of A and half of its tile of B, and the copy engine writes each into both blocks that need it
 * (multicast.cuh). Where tiles are still few, k is cut into 2 or 4 pieces, whose blocks send each other sums
 * (multicast_exchange).
 *
 * A small product lasts as long as it takes to begin and to end:
 *
 *     the next launch begins       blocks of the next kernel come while the last ones of this kernel still store; they
 *     early                        make barriers and fetch descriptors, then wait for its end (core/cluster.cuh)
 *     the first copies are ready   where they come from is computed before that wait; the compiler had left 300
 *                                  instructions, 0.4 us, between the wait and the first copy
 *     no fence for barriers        a cluster's blocks tell of them by a relaxed arrival, which waits for no memory
 *     no registers change hands    one warp copies, not four, so that 128 sums a thread fit without setmaxnreg
 *     an elected thread copies     and the compiler knows that there is one: each copy began 63 ns after the one before
 *                                  where it did not, which was what small tiles waited for (elect_one)
 *     each warp makes barriers     for some stages
 *     no barrier at the end        a block may leave before the others of its cluster (multicast_release)
 *     no divisions                 shifts, or of 32 bits; tiles are numbered in int
 *     one copy of odd rows         both operands in one launch (pack.cuh), which overlaps too
 *     the copy engine stores       while the next tile is multiplied (multicast_store.cuh)
 *
 * As many stages as fit, 16 at most, and as there are steps: two blocks fit into a multiprocessor, and a block alone
 * has all of its memory. What comes into a multiprocessor is at most 64 bytes a cycle, 112 GB/s; with a microsecond of
 * latency that takes 110 KiB in flight.
 *
 * Times on an H200, in us, of bfloat16 products launched one after the other, of the best configuration tried. Without
 * early launches a prototype took 3.4 for 176^3; `before`: with four widths, threads that stored C, and a loop around
 * each copy.
 *
 *     m x n x k               best  before  vendor    tile
 *     176 x 176 x 176          2.4     2.5     2.6    64 x 16, turned, four share A
 *     600 x 600 x 600          4.2     5.0     4.2    64 x 64, 2 x 2 share both
 *     1000 x 1000 x 1000       7.9     8.5     7.4    64 x 128, pairs share B
 *     3000 x 3000 x 3000      82.2    89.5    75.4    128 x 192, turned, pairs share B
 *     4096 x 4096 x 4096       180     179     182    128 x 256, pairs share B
 *     5000 x 5000 x 5000       363     406     338    128 x 256, turned, 2 x 2 share both
 *     4128 x 136 x 1376        8.2     9.7     7.7    64 x 160, turned, four share B
 *     304 x 8192 x 2048       16.6    17.4    15.1    128 x 160, turned, pairs share A
 *     189 x 7808 x 7808       39.3    40.1    34.6    64 x 192, turned
 *     96 x 5120 x 5120        17.9    20.8    15.6    128 x 96, turned, 2 pieces
 *     16 x 5632 x 1152         4.7     5.9     4.1    64 x 16, turned
 *     3 x 1728 x 2240          4.5     5.2     5.2    64 x 16, turned, 4 pieces
 *
 * Since then the first copies were made ready, fences taken out and stages counted anew: 1000^3 takes 7.3 (cuBLAS in
 * the same job 6.8), 600^3 4.1 (3.9), 148^3 3.4 (3.5; before 3.7), 4128 x 136 x 1376 7.7 (7.1), 16 x 2816 x 2816 5.6
 * (6.2). What is left against the vendor's library, 0.65 to 0.8, are products of 30 to 250 rows with a long k, whose
 * operands come from L2: 120 x 3456 x 3456 takes 12.5 (8.2). There the vendor's takes k in pieces in clusters that
 * share operands as well.
 *
 * Tried and left out, as never best by more than 2 %: tiles of 128 x 64, 8 pieces of k, pieces in clusters that also
 * share operands (but for one product, 2.8 %). Tiles of 192 rows were best of all once, by 2 %. */
#include "multicast_kernel.cuh"

/* The job's words, by their place in the descriptor's lists; 0 where the model decides. */
static const int row_words[] = {0, 128, 64},
                 column_words[] = {0, 256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16},
                 multicast_piece_words[] = {0, 1, 2, 4};

static multicast_config matmul_multicast_config(const struct launch *launch) {
    const int *choice = launch->choice;
    return multicast_choose(launch, row_words[choice[0]], column_words[choice[1]], multicast_piece_words[choice[2]],
                            choice[3]);
}

static double matmul_multicast_seconds(const struct launch *launch) {
    return matmul_multicast_config(launch).seconds;
}

/* An element's bits depend only on how k is cut. */
static uint64_t matmul_multicast_way(const struct launch *launch) {
    const int pieces = matmul_multicast_config(launch).pieces;
    return pieces <= 1 ? 1 : uint64_t(ceil_div(ceil_div(launch->args.matmul.k, TILE_K), pieces)) << 1;
}

static size_t matmul_multicast_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
}

/* Tiles are numbered in int, and the largest cluster reaches 1024 rows and columns beyond C. */
static const char *matmul_multicast_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int rows = row_words[launch->choice[0]], columns = column_words[launch->choice[1]];
    const int pieces = multicast_piece_words[launch->choice[2]];
    bool found = false;
    for (const multicast_tile_size &tile : multicast_tiles)
        found = found ||
                ((!rows || rows == tile.rows) && (!columns || columns == tile.columns) && pieces <= tile.most_pieces());
    if (!found) return "there is no tile of so many rows and columns, or not with k in pieces";
    const double tiles = double(args.batch) * double(ceil_div(args.m, 32)) * double(ceil_div(args.n, 32));
    if (tiles > 0x1p30) return "C has more than 2^30 tiles";
    return wgmma_refuses({args.batch, args.m + 1024, args.n + 1024, args.k + TILE_K});
}

/* In matmul/multicast_half.cu, so that both types compile at the same time. */
int matmul_multicast_half(const struct launch *launch, const multicast_config &config);

static int matmul_multicast_launch(const struct launch *launch) {
    const multicast_config config = matmul_multicast_config(launch);
    return launch->dtype == FLOAT16 ? matmul_multicast_half(launch, config)
                                    : matmul_multicast_of<__nv_bfloat16>(launch, config);
}

KERNEL(matmul_multicast) = {
    .name = "multicast",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores, a tile for every shape: blocks of a cluster fetch both operands for each other",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{256, 208, 144, 128, 96, 64, 48, 16},
              {256, 208, 144, 128, 96, 64, 48, 16},
              {TILE_K, 8, 4 * TILE_K, 8 * TILE_K}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "rows", .values = {"auto", "128", "64"}, .help = "of a block's tile"},
                   {.name = "columns",
                    .values = {"auto", "256", "240", "224", "208", "192", "176", "160", "144", "128", "112", "96", "80",
                               "64", "48", "32", "16"},
                    .help = "of a block's tile; auto: what a model predicts to be fastest"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "4"},
                    .help = "of k, each by blocks of its own, added up in their shared memory"},
                   {.name = "turned", .values = {"auto", "no", "yes"}, .help = "the tile's rows lie along n"}},
    .way = matmul_multicast_way,
    .workspace = matmul_multicast_workspace,
    .refuses = matmul_multicast_refuses,
    .seconds = matmul_multicast_seconds,
    .launch = matmul_multicast_launch,
};
