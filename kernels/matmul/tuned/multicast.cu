/* multicast.cu - bfloat16 and float16 on Hopper's tensor cores, with a tile for every shape.
 *
 * The engine is that of wgmma.cuh (read that first): threads copy, warpgroups multiply, a ring of stages is between
 * them. What it adds are tiles for every shape, and clusters that make small tiles cheap:
 *
 *     a tile is 128 rows of 256, 240, 224 .. 64 or 48 columns, or 64 rows of 192, 160, 144 .. 32 or 16
 *
 *     64 x 7168 x 7168, turned: 112 tiles of 64 x 64, one a multiprocessor, all in one round. In a pair of 128 x 64
 *     tiles, there would be 28 pairs: 56 of 132 multiprocessors would fetch the weights.
 *
 * Steps of 16 columns let the tiles of most products fill whole rounds of multiprocessors.
 *
 * A small tile multiplies little for each byte that it fetches: 64 x 64 needs 16 KiB for 128 cycles of the tensor
 * core, four times what L2 can give. So the blocks of a cluster fetch for each other. In a cluster of 2 x 2 a block
 * copies half of its tile of A and half of its tile of B, and the copy engine writes each into both blocks that need it
 * (multicast.cuh). If tiles are still few, k is cut into up to 8 pieces, whose blocks send each other sums
 * (multicast_exchange). A cluster of 8 may do both: 2 x 2 that share operands, and 2 pieces.
 *
 * A long k of few tiles is a long row of steps, one after the other: a step should take no more than its copies. So
 *
 *     a thread for each operand    each takes 28 instructions for a step; it computes where to begin before
 *     descriptors                  consumers compute the lower half of an operand's; the upper half is a constant
 *     releases                     a thread computes once which block it signals, and for each tile how often
 *
 * A small product lasts as long as it takes to begin and to end:
 *
 *     the next launch begins       its blocks come while the last ones of this kernel still store; they make barriers
 *     early                        and compute their first copies, then wait for its end (core/cluster.cuh)
 *     no fence for barriers        a cluster's blocks announce them by a relaxed arrival, without a wait
 *     no registers change hands    two warps copy, not four, so that 128 sums per thread fit without setmaxnreg
 *     an elected thread copies     and the compiler knows that there is one (elect_one)
 *     no barrier at the end        a block may leave before the others of its cluster (multicast_release)
 *     one copy of odd rows         both operands in one launch (pack.cuh), which overlaps too
 *     the copy engine stores       while the next tile is multiplied (multicast_store.cuh); a block's only tile goes
 *                                  through the stages that it came from, all at once
 *     sums land beside the stages  so that no block has to ask for memory, and come in bulk copies
 *     half of the memory           is left to the next launch if that is worth more than stages
 *
 * There are as many stages as fit, but no more than steps, and 16 at most. A multiprocessor receives at most 64 bytes a
 * cycle, 112 GB/s; with a microsecond of latency that takes 110 KiB in flight.
 *
 * Measured on an H200, bfloat16, us, launched one after the other; the vendor's best algorithm of 8:
 *
 *     m x n x k              best  vendor  tile                m x n x k            best  vendor  tile
 *     176 x 176 x 176         2.4     2.6  64 x 16, turned     120 x 3456 x 3456     9.4     8.7  128 x 64, 2 pieces
 *     1000 x 1000 x 1000      7.9     7.4  64 x 128            256 x 4096 x 4096    14.2    15.0  64 x 128, turned
 *     4096 x 4096 x 4096      180     182  128 x 256           16 x 2816 x 2816      5.1     6.5
 *     5000 x 5000 x 5000      363     338  128 x 256, turned   384 x 1536 x 6144    15.5    14.3  128 x 96, turned
 *
 * The limit: 1.1 us from a block's start to its first copy, 0.45 for a tile of 64 x 96 to be stored, and 1.2 to 1.4
 * until the sums of pieces are added up. */
#include "multicast_choice.cuh"
#include "ways.cuh"
#include <iterator>

/* The values of the descriptor's parameters, in the order of its lists; 0: "auto", the model decides. */
static const int row_words[] = {0, 128, 64},
                 column_words[] = {0, 256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16},
                 multicast_piece_words[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

/* Returns the configuration that the model chooses, from a cache if an equal launch came before: the choice takes 50
 * us. */
static multicast_config matmul_multicast_config(const struct launch *launch) {
    thread_local recent<multicast_config> known;
    struct launch canonical = *launch;
    canonical.dtype = BFLOAT16;                                      /* the choice is the same for float16, */
    canonical.args.matmul.first = canonical.args.matmul.last = true; /* and for each launch of a split k */
    const matmul_key key = matmul_cache_key(&canonical, 0);
    if (const multicast_config *found = known.find(key)) return *found;
    const int *choice = launch->choice;
    return *known.keep(key, multicast_choose(launch, row_words[choice[0]], column_words[choice[1]],
                                             multicast_piece_words[choice[2]], choice[3]));
}

static double matmul_multicast_seconds(const struct launch *launch) {
    return matmul_multicast_config(launch).seconds;
}

/* A number of the order of additions, which is how k is cut: launches with the same number give the same bits. */
static uint64_t matmul_multicast_way(const struct launch *launch) {
    const int pieces = matmul_multicast_config(launch).pieces;
    return pieces <= 1 ? 1 : uint64_t(ceil_div(ceil_div(launch->args.matmul.k, TILE_K), pieces)) << 1;
}

static size_t matmul_multicast_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
}

#define SMALLEST_SIDE 32   /* the smallest tile, 64 x 16, covers as much of C as 32 x 32 does */
#define MAX_OVERHANG  1024 /* rows or columns of a cluster's tiles that lie beyond C, at most */

/* The reason why the launch cannot run; NULL: it can. Tiles are numbered in int. The copy engine's coordinates, of 32
 * bits, reach as far as the last cluster's tiles and the last step of k. */
static const char *matmul_multicast_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (matmul_multicast_config(launch).pieces == 0)
        return "no tile has these rows and columns, or it cannot cut k into so many pieces";
    const double tiles =
        double(args.batch) * double(ceil_div(args.m, SMALLEST_SIDE)) * double(ceil_div(args.n, SMALLEST_SIDE));
    if (tiles > 0x1p30) return "C has more than 2^30 tiles";
    return wgmma_refuses({args.batch, args.m + MAX_OVERHANG, args.n + MAX_OVERHANG, args.k + TILE_K});
}

/* Starts the kernel of config.tile, which is in the group. multicast_TYPE_TILE.cu compiles the groups. */
template <typename T, size_t GROUP>
int matmul_multicast_group(const struct launch *launch, const multicast_config &config);

/* Finds the group of config.tile, and starts its kernel there. */
template <typename T> static int matmul_multicast_of(const struct launch *launch, const multicast_config &config) {
    static constexpr decltype(&matmul_multicast_group<T, 0>) starts[] = {
        matmul_multicast_group<T, 0>, matmul_multicast_group<T, 1>, matmul_multicast_group<T, 2>,
        matmul_multicast_group<T, 3>, matmul_multicast_group<T, 4>, matmul_multicast_group<T, 5>};
    static_assert(std::size(starts) + 1 == std::size(multicast_groups));
    size_t tile = 0, group = 0;
    while (!(multicast_tiles[tile] == config.tile)) tile++;
    while (multicast_groups[group + 1] <= tile) group++;
    return starts[group](launch, config);
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
    .parameters = {{.name = "rows", .values = {"auto", "128", "64"}, .help = "rows of a block's tile"},
                   {.name = "columns",
                    .values = {"auto", "256", "240", "224", "208", "192", "176", "160", "144", "128", "112", "96", "80",
                               "64", "48", "32", "16"},
                    .help = "columns of a block's tile; auto: what a model predicts to be fastest"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "3", "4", "5", "6", "7", "8"},
                    .help = "pieces of k, one per block; the blocks add their sums in shared memory"},
                   {.name = "turned", .values = {"auto", "no", "yes"}, .help = "the tile's rows lie along n"}},
    .way = matmul_multicast_way,
    .workspace = matmul_multicast_workspace,
    .refuses = matmul_multicast_refuses,
    .seconds = matmul_multicast_seconds,
    .launch = matmul_multicast_launch,
};
