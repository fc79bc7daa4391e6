/* multicast_choice.cuh - which tile and which cluster suit a product: a model of matmul/multicast.cu's time.
 *
 * A configuration is a block's tile, whether the product is turned (C^T = B^T A^T), and how blocks form a cluster: they
 * lie below and beside each other and share operands, or they multiply pieces of k. A step is 64 of k of one tile. It
 * takes about the longest of
 *
 *     tensor core     4 instructions of each 64 rows, N / 2 cycles each, or what reading A from shared memory takes
 *     boxes           93 ns for each box that is copied, however small: small tiles do not shorten a long k, pieces do
 *     L2              bytes that a block asks for; rows that begin within a line touch two lines, and more sectors
 *     lines           a cycle for each line of 128 bytes, 3.6 more for one beyond the operand's end, made of zeros
 *     few lines       that all blocks want at the same time: the parts of L2 that hold them serve one after the other
 *     the far half    where operands do not fit into L2 twice, what is asked for crosses the chip
 *
 * and a launch takes
 *
 *     launch + rounds * (steps * step + store)        or, if longer, bytes / rate of memory, and a fifth of the less
 *
 * The constants were fitted to the times of 4500 configurations of 80 products on an H200, from 64^3 to 8192^3. Of the
 * 76 products whose choice was among them, it is 2.3 % slower than the best in the geometric mean, and 22 % at most
 * (1648 x 48 x 72); the time predicted is 8 % off (root of the mean square). Constants fitted to one half of the
 * products chose 4.5 % and 2.8 % slower than the best for the other half. All was timed with TMA asking L2 for 256
 * bytes at a time, not 128 as now. `tests/bench/choices.py` times all configurations beside the one chosen. */
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
};
static const multicast_tile_size multicast_tiles[] = {{128, 256, 1}, {128, 192, 1}, {128, 160, 1},
                                                      {128, 128, 1}, {64, 192, 1},  {64, 128, 1},
                                                      {64, 64, 2},   {64, 32, 2},   {64, 16, 2}};

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
    double zeros;    /* of these, those beyond the operand's end, in the last tile */
    double boxes;    /* that it copies them in */
    double distinct; /* lines that all blocks want together */
    double cost;     /* of asking for a line, relatively */
    double bytes;    /* of the operand */

    multicast_copies(const tma_stack &stack, int64_t batch, int64_t extent, int tile, int blocks, bool along)
        : bytes(wgmma_stack_bytes(stack)) {
        boxes = along ? double(ceil_div(std::min<int64_t>(tile, extent), 64)) : 1;
        lines = along ? boxes * multicast_lines(extent, 0, blocks) : multicast_lines(extent, tile, blocks);
        zeros = along || extent <= tile ? 0 : double(ceil_div(extent, tile) * tile - extent) / blocks;
        distinct = double(batch * ceil_div(extent, tile)) * lines * blocks;
        const int64_t pitch = ceil_div(stack.columns, 8), whole = pitch & -pitch; /* 16 bytes; its largest power of 2 */
        cost =
            (1 + 1.2 * (1 - double(std::min<int64_t>(whole, 8)) / 8)) * (pitch % 2 ? 1.763 : 1) * (along ? 1.494 : 1);
    }
};

/* The longest of `times`; those near it add a little, as nothing overlaps perfectly. */
inline double multicast_longest(std::initializer_list<double> times) {
    const double longest = std::max(times);
    double sum = 0;
    for (const double time : times) sum += std::pow(time / longest, 8);
    return longest * std::pow(sum, 1.0 / 8);
}

/* Of one launch, `args` being turned if it is; without the copies that TMA may need. Fills in the stages. */
inline double multicast_seconds_of(const matmul_args &args, multicast_config &config, int multiprocessors) {
    const double clock = 1.548e9, l2 = 1.885e11, far = 8.33e12, half_l2 = 25e6;
    const multicast_tile_size &tile = config.tile;
    const multicast_share &share = config.share;
    const int pieces = config.pieces, sharing = share.down * share.across, cluster = sharing * pieces;
    config.stages = std::min(MULTICAST_STAGES, (MULTICAST_SHARED / tile.blocks - MULTICAST_RING - 1024) /
                                                   multicast_stage_bytes(tile, !args.transpose_b));
    const double blocks = double(multicast_clusters(args, tile, share)) * cluster;
    const double room = multiprocessors * (cluster > 2 ? 0.911 : 1); /* clusters must fit into one part of the chip */
    const double busy = std::min(blocks, room * tile.blocks);
    const double beside = std::ceil(std::max(1.0, busy / room)); /* blocks on a multiprocessor */
    const double steps = double(ceil_div(ceil_div(args.k, TILE_K), pieces));
    const double rounds = std::ceil(blocks / (room * tile.blocks));

    const multicast_copies a(wgmma_stack_a(args), args.batch, args.m, tile.rows, share.across, args.transpose_a),
        b(wgmma_stack_b(args), args.batch, args.n, tile.columns, share.down, !args.transpose_b);
    double asked = 0, lines = 0, crosses = 0, few = 0;
    for (const multicast_copies &of : {a, b}) {
        asked += of.lines * 128 * of.cost / l2;
        lines += of.lines + 3.59 * of.zeros;
        few = std::max(few, busy * of.lines / std::min(busy / blocks * of.distinct, 221.0) * 1.433e-9);
        if (a.bytes + b.bytes > half_l2 && of.bytes > half_l2 / 3) crosses += of.lines * 128 * busy / far;
    }
    const double multiply = tile.rows / 64 * 4 * std::max(tile.columns / 2.0, 16 + tile.columns / 8.0) / clock;
    const double boxes =
        (15.5e-9 + 92.8e-9 * (a.boxes + b.boxes)) * (1 + 0.433 * (beside - 1)) + 21.8e-9 * (sharing - 1);
    const double step =
        multicast_longest({multiply * beside, asked * beside, lines * beside / clock, boxes, crosses, few});

    /* Rows of C that are not whole vectors of 16 bytes are stored in parts. */
    const bool parts = (config.turned ? args.m : args.n) % 8 != 0;
    const double wide = tile.columns / 256.0;
    double store = config.turned ? 0.123e-6 + 1.768e-6 * wide * (parts ? 2.54 : 1)
                                 : 0.632e-6 + 2.396e-6 * wide * (parts ? 3.67 : 1);
    if (pieces > 1) { /* 8 reads of other blocks' sums at a time, then stores */
        const double threads = tile.rows * 2 + 32, each = tile.rows * tile.columns / 4 / threads;
        store = 0.143e-6 + 1.299e-6 * std::ceil(each / 8) * (config.turned ? 2.29 : 1);
    }
    double compute = rounds * steps * step;
    compute *= 1 + 0.0085 * compute / (compute + 500e-6);                                        /* the clock falls */
    const double bytes = a.bytes + b.bytes, memory = bytes / (bytes > 40e6 ? 4.54e12 : 6.39e12); /* else from L2 */
    return 1.739e-6 + std::max(compute, memory) + 0.194 * std::min(compute, memory) + rounds * store;
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
                    (share.across > 1 && seen.n <= tile.columns * (share.across / 2)) || tile.columns / share.down < 8)
                    continue;
                const int64_t clusters = multicast_clusters(seen, tile, share);
                const int most = share.down * share.across > 1 ? 1 : MULTICAST_PIECES;
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
