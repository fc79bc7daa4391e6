/* multicast.cu - bfloat16 and float16 on Hopper's tensor cores, with a tile for every shape.
 *
 * The engine is that of wgmma.cu (read that first): one thread copies, warpgroups multiply, a ring of stages is
 * between them. What it adds are tiles for every shape, and clusters that make small tiles cheap:
 *
 *     a tile is 128 rows of 256, 240, 224 .. 64 or 48 columns, or 64 rows of 192, 160, 144 .. 32 or 16
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
 * (multicast.cuh). Where tiles are still few, k is cut into up to 8 pieces, whose blocks send each other sums
 * (multicast_exchange). A cluster of 8 may do both: 2 x 2 that share operands, and 2 pieces.
 *
 * A long k of few tiles is a long row of steps, one after the other. Whatever the tile, a step took 200 to 240 ns, with
 * 16 columns as with 128: not for the tensor core (128 cycles for 64 x 64), nor for what arrives (256 cycles), but
 * because one thread copied both operands. It did 65 instructions for a step, some of which wait for constants. So
 *
 *     a thread for each operand    each does 28 instructions for a step; where they begin is computed before
 *     descriptors                  of an operand, consumers compute the lower half; the upper is a constant
 *     releases                     whom a consumer tells is computed once, and whether it tells at all once a tile
 *
 * Then 64 x 64 takes 145 ns, 64 x 96 165, 128 x 64 185: what arrives, near 64 bytes a cycle.
 *
 * A small product lasts as long as it takes to begin and to end:
 *
 *     the next launch begins       blocks of the next kernel come while the last ones of this kernel still store; they
 *     early                        make barriers and fetch descriptors, then wait for its end (core/cluster.cuh)
 *     the first copies are ready   where they come from is computed before that wait; the compiler had left 300
 *                                  instructions, 0.4 us, between the wait and the first copy
 *     no fence for barriers        a cluster's blocks tell of them by a relaxed arrival, which waits for no memory
 *     no registers change hands    two warps copy, not four, so that 128 sums a thread fit without setmaxnreg
 *     an elected thread copies     and the compiler knows that there is one: each copy began 63 ns after the one before
 *                                  where it did not, which was what small tiles waited for (elect_one)
 *     consumers make barriers      each warp for some stages; those that copy compute meanwhile where from
 *     no barrier at the end        a block may leave before the others of its cluster (multicast_release)
 *     no divisions                 shifts, or of 32 bits; tiles are numbered in int
 *     one copy of odd rows         both operands in one launch (pack.cuh), which overlaps too
 *     the copy engine stores       while the next tile is multiplied (multicast_store.cuh); a block's only tile goes
 *                                  through the stages that it came from, all at once
 *     sums land beside the stages  so that nobody asks first whether there is room, and come in bulk copies
 *     half of the memory           is left to the next launch where that is worth more than stages: its blocks come
 *                                  while this launch's still multiply
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
 * Since then copies have a thread each, sums land beside the stages, and pieces may share operands. The best
 * configuration of a sweep, in us, and the vendor's best algorithm of 8, both in the same job:
 *
 *     m x n x k               before   now  vendor    tile
 *     120 x 3456 x 3456         12.5   9.4     8.7    128 x 64, four share B, 2 pieces
 *     5376 x 96 x 1344           7.5   5.9     5.3    64 x 96, turned, 2 x 4 share both
 *     256 x 4096 x 4096         19.7  14.2    15.0    64 x 128, turned, pairs share A
 *     45 x 4800 x 3648          11.5   9.0     9.0    128 x 48, turned, 3 pieces
 *     64 x 3584 x 3584           8.5   7.7     7.9
 *     16 x 2816 x 2816           5.6   5.1     6.5
 *     1536 x 48 x 6000                 8.1     7.8    128 x 48, 6 pieces
 *     384 x 1536 x 6144               15.5    14.3    128 x 96, turned, four share A, 2 pieces
 *     250 x 1000 x 8000               12.8    11.0
 *
 * Of 38 products of this kind the best is 1.02 times as fast as the vendor's (geometric mean), and what the model below
 * chooses 0.99 (the same 38 that it was fitted to). What is left, by stamps in the kernel: 1.1 us from a block's start
 * to its first copy, 0.45 for a tile of 64 x 96 to be stored, and 1.2 to 1.4 until the sums of pieces are added up.
 * That is as long with bulk copies between blocks as with stores of single threads (st.async), and why is not known.
 *
 * Pieces in clusters that share operands, and clusters of 8, are best by at most 5 %, for a third of the 38.
 *
 * Tried and left out: tiles of 192 rows, best of all once, by 2 %. L2 asked for as little as is needed instead of for
 * 128 bytes at a time: the same within 1 %; for 256: up to 25 % slower. */
#include "multicast_choice.cuh"
#include "ways.cuh"
#include <utility>

/* The job's words, by their place in the descriptor's lists; 0 where the model decides. */
static const int row_words[] = {0, 128, 64},
                 column_words[] = {0, 256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16},
                 multicast_piece_words[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

/* All configurations take 50 us to compare, and a launch is mostly like one before it. */
static multicast_config matmul_multicast_config(const struct launch *launch) {
    thread_local recent<multicast_config> known;
    struct launch of = *launch;
    of.dtype = BFLOAT16;                               /* float16 is done alike, */
    of.args.matmul.first = of.args.matmul.last = true; /* and so is each part of k */
    const matmul_facts facts = matmul_facts_of(&of, 0);
    if (const multicast_config *found = known.find(facts)) return *found;
    const int *choice = launch->choice;
    return *known.keep(facts, multicast_choose(launch, row_words[choice[0]], column_words[choice[1]],
                                               multicast_piece_words[choice[2]], choice[3]));
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
    if (matmul_multicast_config(launch).pieces == 0)
        return "there is no tile of so many rows and columns, or not with k in so many pieces";
    const double tiles = double(args.batch) * double(ceil_div(args.m, 32)) * double(ceil_div(args.n, 32));
    if (tiles > 0x1p30) return "C has more than 2^30 tiles";
    return wgmma_refuses({args.batch, args.m + 1024, args.n + 1024, args.k + TILE_K});
}

/* Compiled in multicast_TYPE_TILE.cu. */
template <typename T, size_t GROUP>
int matmul_multicast_group(const struct launch *launch, const multicast_config &config);

template <typename T> static int matmul_multicast_of(const struct launch *launch, const multicast_config &config) {
    size_t tile = 0;
    while (!(multicast_tiles[tile] == config.tile)) tile++;
    return [&]<size_t... GROUPS>(std::index_sequence<GROUPS...>) {
        int error = 0;
        ((multicast_groups[GROUPS] <= tile && tile < multicast_groups[GROUPS + 1]
              ? error = matmul_multicast_group<T, GROUPS>(launch, config)
              : 0),
         ...);
        return error;
    }
    (std::make_index_sequence<std::size(multicast_groups) - 1>());
}

static int matmul_multicast_start(const struct launch *launch) {
    const multicast_config config = matmul_multicast_config(launch);
    return launch->dtype == FLOAT16 ? matmul_multicast_of<__half>(launch, config)
                                    : matmul_multicast_of<__nv_bfloat16>(launch, config);
}

DECLARE_KERNEL(matmul_multicast);
static int matmul_multicast_launch(const struct launch *launch) {
    return ways_launch(&matmul_multicast, launch, matmul_multicast_start);
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
                    .values = {"auto", "1", "2", "3", "4", "5", "6", "7", "8"},
                    .help = "of k, each by blocks of its own, added up in their shared memory"},
                   {.name = "turned", .values = {"auto", "no", "yes"}, .help = "the tile's rows lie along n"}},
    .way = matmul_multicast_way,
    .workspace = matmul_multicast_workspace,
    .refuses = matmul_multicast_refuses,
    .seconds = matmul_multicast_seconds,
    .launch = matmul_multicast_launch,
};
