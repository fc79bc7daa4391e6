/* multicast_choice.cuh - which tile and which cluster suit a product: a model of matmul/multicast.cu's time.
 *
 * A configuration is a block's tile, whether the product is turned (C^T = B^T A^T), and how blocks form a cluster: they
 * lie below and beside each other and share operands, or they multiply pieces of k. A step is 64 of k of one tile. It
 * takes about the longest of
 *
 *     tensor core     4 instructions of each 64 rows, N / 2 cycles each, or what reading A from shared memory takes
 *     boxes           60 ns for each box that is copied, however small: small tiles do not shorten a long k, pieces do
 *     L2              bytes that a block asks for; rows that begin within a line touch two lines, and more sectors
 *     arriving        bytes that come into a multiprocessor, whoever asked for them: 64 a cycle
 *     lines           a cycle for each line of 128 bytes
 *     few lines       that all blocks want at the same time: the parts of L2 that hold them serve one after the other
 *     the far half    where operands do not fit into L2 twice, what is asked for crosses the chip
 *
 * and a launch takes
 *
 *     launch + rounds * (steps * step + store)        or, if longer, bytes / rate of memory, and a quarter of the less
 *
 * The constants were fitted to the times of 6200 configurations of 79 products on an H200, from 64^3 to 8192^3, whose
 * rows begin on 16 bytes; those of pieces anew, to 600 configurations. Of 104 products, 25 of them with odd rows, what
 * is chosen is 3.0 % slower than the best in the geometric mean, and 32 % at most (2048 x 512 x 16). Constants fitted
 * to one half of the 79 products chose 4.6 % slower than the best for the other half. `tests/bench/choices.py` times
 * all configurations beside the one chosen. */
#ifndef KERNELS_MATMUL_MULTICAST_CHOICE_CUH
#define KERNELS_MATMUL_MULTICAST_CHOICE_CUH

#include "wgmma_choice.cuh"

#include <cmath>
#include <initializer_list>

#define TILE_K           WGMMA_STEP_K
#define MULTICAST_PIECES 4 /* of k, at most */
#define MULTICAST_STAGES 16
#define MULTICAST_SHARED (227 * 1024) /* of a multiprocessor, for one block */
#define MULTICAST_RING   1024         /* bytes before the stages: barriers */

struct multicast_tile_size {
    int rows, columns;
    int blocks; /* that share a multiprocessor where there are enough */

    bool operator==(const multicast_tile_size &) const = default;
    /* Pieces of k, at most: wider tiles have no registers left to add them up. */
    constexpr int most_pieces() const { return columns <= 192 ? MULTICAST_PIECES : 1; }
};
static constexpr multicast_tile_size multicast_tiles[] = {
    {128, 256, 1}, {128, 240, 1}, {128, 224, 1}, {128, 208, 1}, {128, 192, 1}, {128, 176, 1}, {128, 160, 1},
    {128, 144, 1}, {128, 128, 1}, {128, 96, 1},  {64, 192, 1},  {64, 160, 1},  {64, 144, 1},  {64, 128, 1},
    {64, 112, 1},  {64, 96, 1},   {64, 80, 1},   {64, 64, 2},   {64, 48, 2},   {64, 32, 2},   {64, 16, 2}};

/* Blocks of a cluster that share operands: down * across. */
struct multicast_share {
    int down, across;
};
static const multicast_share multicast_shares[] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2}, {1, 4}};

struct multicast_config {
    multicast_tile_size tile;
    multicast_share share;
    int pieces, stages;
    bool turned;
    double seconds;
};

/* C is stored in boxes of so many columns, or of 16 where k is cut; a consumer has room for so many parts of 64. */
template <int COLUMNS> constexpr int multicast_box = COLUMNS % 64 == 0 ? 64 : COLUMNS % 32 == 0 ? 32 : 16;
template <int COLUMNS> constexpr int multicast_parts = COLUMNS > 64 ? 2 : 1;

inline int multicast_parts_bytes(const multicast_tile_size &tile) {
    return tile.rows / 64 * (tile.columns > 64 ? 2 : 1) * SLAB_BYTES;
}

inline int multicast_stage_bytes(const multicast_tile_size &tile, bool b_along_n) {
    return tile.rows * 128 + (b_along_n ? int(ceil_div(tile.columns, 64)) * SLAB_BYTES : tile.columns * 128);
}

inline int64_t multicast_clusters(const matmul_args &args, const multicast_tile_size &tile,
                                  const multicast_share &share) {
    return args.batch * ceil_div(args.m, tile.rows * share.down) * ceil_div(args.n, tile.columns * share.across);
}

/* The lines of 128 bytes, of an operand's tile, that each of `blocks` copies: of k where the operand lies along m or n
 * (`tile` 0), else of m or n, and of these no more than there are. Where blocks share them, groups of 8 (tma.cuh). */
inline int multicast_lines(int64_t extent, int tile, int blocks) {
    if (tile == 0) return TILE_K / blocks;
    const int lines = int(std::min<int64_t>(tile, extent));
    return blocks == 1 ? lines : int(ceil_div(lines, blocks * 8)) * 8;
}

/* What a block copies of one operand in a step. */
struct multicast_copies {
    double lines;    /* that it asks for itself */
    double arriving; /* with those that others of its cluster ask for */
    double boxes;    /* that it copies them in */
    double distinct; /* lines that all blocks want together */
    double cost;     /* of asking for a line, relatively */
    double bytes;    /* of the operand */

    multicast_copies(const tma_stack &stack, int64_t batch, int64_t extent, int tile, int blocks, bool along)
        : bytes(wgmma_stack_bytes(stack)) {
        boxes = along ? double(ceil_div(std::min<int64_t>(tile, extent), 64)) : 1;
        lines = along ? boxes * multicast_lines(extent, 0, blocks) : multicast_lines(extent, tile, blocks);
        arriving = lines * blocks;
        distinct = double(batch * ceil_div(extent, tile)) * arriving;
        const int64_t pitch = ceil_div(stack.columns, 8), whole = pitch & -pitch; /* 16 bytes; its largest power of 2 */
        cost = (1 + 1.665 * (1 - double(std::min<int64_t>(whole, 8)) / 8)) * (along ? 1.303 : 1);
    }
};

/* The longest of `times`; those near it add a little, as nothing overlaps perfectly. */
inline double multicast_longest(std::initializer_list<double> times) {
    const double longest = std::max(times);
    double sum = 0;
    for (const double time : times) {
        const double square = time / longest * (time / longest), fourth = square * square;
        sum += fourth * fourth;
    }
    return longest * std::sqrt(std::sqrt(std::sqrt(sum)));
}

/* Of one launch, `args` being turned if it is; without the copies that TMA may need. Fills in the stages. */
inline double multicast_seconds_of(const matmul_args &args, multicast_config &config, int multiprocessors) {
    const double clock = 1.744e9, l2 = 161.8e9, port = 112.7e9, far = 9829e9, half_l2 = 25e6;
    const multicast_tile_size &tile = config.tile;
    const multicast_share &share = config.share;
    const int pieces = config.pieces, sharing = share.down * share.across, cluster = sharing * pieces;
    const double blocks = double(multicast_clusters(args, tile, share)) * cluster;
    const double room = multiprocessors * (cluster > 2 ? 0.911 : 1); /* clusters must fit into one part of the chip */
    const double busy = std::min(blocks, room * tile.blocks);
    const double beside = std::ceil(std::max(1.0, busy / room)); /* blocks on a multiprocessor */
    const double steps = double(ceil_div(ceil_div(args.k, TILE_K), pieces));
    const double rounds = std::ceil(blocks / (room * tile.blocks));
    /* Sums of pieces land in the stages; else no more are of use than there are steps. */
    const int room_for_stages = MULTICAST_SHARED / int(beside) - MULTICAST_RING - 1024 - multicast_parts_bytes(tile);
    config.stages = std::min(MULTICAST_STAGES, room_for_stages / multicast_stage_bytes(tile, !args.transpose_b));
    if (pieces == 1) config.stages = int(std::min(double(config.stages), std::max(2.0, steps * rounds)));

    const multicast_copies a(wgmma_stack_a(args), args.batch, args.m, tile.rows, share.across, args.transpose_a),
        b(wgmma_stack_b(args), args.batch, args.n, tile.columns, share.down, !args.transpose_b);
    double asked = 0, arriving = 0, lines = 0, crosses = 0, few = 0;
    for (const multicast_copies &of : {a, b}) {
        asked += of.lines * 128 * of.cost / l2;
        arriving += of.arriving * 128 / port;
        lines += of.lines;
        few = std::max(few, busy * of.lines / std::min(busy / blocks * of.distinct, 221.0) * 0.8604e-9);
        if (a.bytes + b.bytes > half_l2 && of.bytes > half_l2 / 3) crosses += of.lines * 128 * busy / far;
    }
    const double multiply = tile.rows / 64 * 4 * std::max(tile.columns / 2.0, 40.96 + tile.columns / 8.0) / clock;
    const double boxes =
        (23.31e-9 + 59.99e-9 * (a.boxes + b.boxes)) * (1 + 0.6946 * (beside - 1)) + 6.262e-9 * (sharing - 1);
    const double step = multicast_longest(
        {multiply * beside, asked * beside, arriving * beside, lines * beside / clock, boxes, crosses, few});

    double store = 0.4525e-6 + 2.73e-6 * tile.rows * tile.columns / 32768.0;
    if ((config.turned ? args.m : args.n) % 8 != 0) { /* threads store rows of C in words */
        const double wide = tile.columns / 256.0;
        store = config.turned ? 0.123e-6 + 4.491e-6 * wide : 0.632e-6 + 8.793e-6 * wide;
    }
    double compute = rounds * steps * step;
    compute *= 1 + 0.2974 * compute / (compute + 500e-6);                                          /* the clock falls */
    const double bytes = a.bytes + b.bytes, memory = bytes / (bytes > 40e6 ? 4.762e12 : 10.44e12); /* else from L2 */
    const double whole = 1.428e-6 + std::max(compute, memory) + 0.2767 * std::min(compute, memory) + rounds * store;
    if (pieces == 1) return whole;
    /* Blocks of pieces begin and end together, and sums land in each. */
    const int units = tile.columns / 16, own = (units + pieces - 1) / pieces;
    return 1.1 * whole + (pieces == 4 ? 0.9e-6 : 0.6e-6) + 3e-6 * own * 16 * (pieces - 1) * tile.rows / 16384.0;
}

/* The least of all; `rows`, `columns`, `pieces` and `turned` above 0 (turned: 1 no, 2 yes) admit only these. */
inline multicast_config multicast_choose(const struct launch *launch, int rows, int columns, int pieces, int turned) {
    const matmul_args &args = launch->args.matmul, other = matmul_turn(args);
    const int multiprocessors = std::max(1, launch->multiprocessors);
    multicast_config best = {};
    for (const multicast_tile_size &tile : multicast_tiles) {
        if ((rows && rows != tile.rows) || (columns && columns != tile.columns)) continue;
        for (int side = 0; side < 2; side++) {
            const matmul_args &seen = side ? other : args;
            if (turned && turned != side + 1) continue;
            for (const multicast_share &share : multicast_shares) {
                /* Blocks beyond the edge of C would only keep others waiting. */
                if ((share.down > 1 && seen.m <= tile.rows * (share.down / 2)) ||
                    (share.across > 1 && seen.n <= tile.columns * (share.across / 2)) ||
                    tile.columns % (8 * share.down) != 0)
                    continue;
                const int64_t clusters = multicast_clusters(seen, tile, share);
                const int most = share.down * share.across > 1 ? 1 : tile.most_pieces();
                for (int cut = 1; cut <= most; cut *= 2) {
                    if (pieces && pieces != cut) continue;
                    if (!pieces && cut > 1 && (args.k < 2 * TILE_K * cut || clusters * cut > multiprocessors)) break;
                    multicast_config config = {tile, share, cut, 0, side == 1, 0};
                    config.seconds = multicast_seconds_of(seen, config, multiprocessors);
                    if (best.pieces == 0 || config.seconds < best.seconds) best = config;
                }
            }
        }
    }
    int64_t packed = 0;
    for (const tma_stack &stack : {wgmma_stack_a(args), wgmma_stack_b(args)})
        if (wgmma_packs(stack)) packed += int64_t(wgmma_stack_bytes(stack));
    if (packed > 0) best.seconds += 2e-6 + 2 * double(packed) / 3.52e12;
    return best;
}

#endif
