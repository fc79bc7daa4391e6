/* multicast_choice.cuh - which tile and which cluster suit a product: a model of matmul/multicast.cu's time.
 *
 * A configuration is a block's tile, whether the product is turned (C^T = B^T A^T), how many blocks of a cluster lie
 * below and beside each other, and in how many pieces k is cut. A step is 64 of k of one tile. It takes the longest of
 *
 *     tensor core     4 instructions of each 64 rows, N / 2 cycles each, or what reading A from shared memory takes
 *     arrival         bytes that arrive in a multiprocessor, whoever asked for them, and those that it asked L2 for
 *     lines           a cycle for each line of 128 bytes, five for one beyond the operand's end, which is made of zeros
 *     the far half    where operands do not fit into L2 twice, half of what is asked for crosses the chip
 *
 * and a launch takes
 *
 *     launch + rounds * (steps * step + store)        or, if longer, bytes / rate of memory, and a quarter of the less
 *
 * Rates, launch and the mix were fitted to the times of 120 configurations of 12 products on an H200, from 176^3 to
 * 8192^3. Set by hand are the far half, the room of clusters, the long launch's clock, and what stores and pieces cost:
 * these were timed before the stores were changed, and are an estimate. What the terms stand for is inferred from the
 * times; none was measured alone. Of the 12 choices, 10 were timed: nine are within 5 % of the best, 2048 x 128 x 2048
 * is 9 % off. The rules were adjusted on these same products, so others may fare worse. `tests/bench/choices.py` times
 * all configurations beside the one chosen. */
#ifndef KERNELS_MATMUL_MULTICAST_CHOICE_CUH
#define KERNELS_MATMUL_MULTICAST_CHOICE_CUH

#include "wgmma_choice.cuh"

#define TILE_K           WGMMA_STEP_K
#define MULTICAST_PIECES 8 /* of k, at most; also blocks of a cluster */
#define MULTICAST_STAGES 16
#define MULTICAST_SHARED (227 * 1024) /* of a multiprocessor, for one block */
#define MULTICAST_RING   1024         /* bytes before the stages: barriers */

struct multicast_tile_size {
    int rows, columns;
    int blocks; /* that share a multiprocessor where there are enough */
};
static const multicast_tile_size multicast_tiles[] = {{128, 256, 1}, {128, 192, 1}, {128, 160, 1}, {128, 128, 1},
                                                      {128, 64, 1},  {64, 192, 1},  {64, 128, 1},  {64, 64, 2},
                                                      {64, 32, 2},   {64, 16, 2}};

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

/* The share of the chip that clusters of so many blocks can fill: they must fit into one part of it. */
inline double multicast_room(int cluster) {
    return cluster <= 2 ? 1 : cluster == 4 ? 0.91 : 0.85;
}

/* What a block copies of one operand in a step. */
struct multicast_copies {
    double own, all; /* lines that it asks for itself, that arrive */
    double zeros;    /* of its own, those beyond the operand's end, in the last tile */
    double cost;     /* of a line, relatively: rows that begin within a sector of 32 bytes touch more sectors */
    bool shared;     /* not all blocks want the same lines at the same time, which L2 serves at once */
    double bytes;    /* of the operand */

    multicast_copies(const tma_stack &stack, int64_t extent, int tile, int blocks, bool along)
        : cost(ceil_div(stack.columns, 8) % 2 ? 1.24 : 1), shared(extent > 2 * tile), bytes(wgmma_stack_bytes(stack)) {
        own = along ? double(ceil_div(std::min<int64_t>(tile, extent), 64) * multicast_lines(extent, 0, blocks))
                    : multicast_lines(extent, tile, blocks);
        all = own * blocks;
        zeros = along || extent <= tile ? 0 : double(ceil_div(extent, tile) * tile - extent) / blocks;
    }
};

/* Of one launch, `args` being turned if it is; without the copies that TMA may need. Fills in the stages. */
inline double multicast_seconds_of(const matmul_args &args, multicast_config &config, int multiprocessors) {
    const double clock = 1.64e9, arrival = 7.2e-12, asked = 4.3e-12, far = 6.6e12, dram = 4.4e12, half_l2 = 25e6;
    const multicast_tile_size &tile = config.tile;
    const multicast_share &share = config.share;
    const int pieces = config.pieces, cluster = share.down * share.across * pieces;
    config.stages = std::min(MULTICAST_STAGES, (MULTICAST_SHARED / tile.blocks - MULTICAST_RING - 1024) /
                                                   multicast_stage_bytes(tile, !args.transpose_b));
    const double blocks = double(multicast_clusters(args, tile, share)) * cluster;
    const double room = multiprocessors * multicast_room(cluster), busy = std::min(blocks, room * tile.blocks);
    const double beside = std::max(1.0, busy / room); /* blocks on a multiprocessor */
    const double steps = double(ceil_div(ceil_div(args.k, TILE_K), pieces));
    const double rounds = std::ceil(blocks / (room * tile.blocks));

    const multicast_copies a(wgmma_stack_a(args), args.m, tile.rows, share.across, args.transpose_a),
        b(wgmma_stack_b(args), args.n, tile.columns, share.down, !args.transpose_b);
    double arrives = 0, lines = 0, crosses = 0;
    for (const multicast_copies &of : {a, b}) {
        arrives += (of.all * arrival + (of.shared ? of.own * asked : 0)) * 128 * of.cost;
        lines += of.own + 4 * of.zeros;
        if (a.bytes + b.bytes > half_l2 && of.bytes > half_l2 / 3) crosses += of.own * 128 * busy / far;
    }
    const double multiply = tile.rows / 64 * 4 * std::max(tile.columns / 2.0, 16 + tile.columns / 8.0) / clock;
    const double step = std::max({multiply * std::ceil(beside), arrives * beside, lines * beside / clock, crosses});
    double store = 0.2e-6 + 1.2e-6 * tile.columns / 256;
    if (pieces > 1) { /* 8 reads of other blocks' sums at a time, then stores */
        const double threads = tile.rows * 2 + 32, each = tile.rows * tile.columns / 4 / threads;
        store = 1.8e-6 + 0.4e-6 * std::ceil(each / 8) * (config.turned ? 3 : 1);
    }
    double compute = rounds * steps * step;
    compute *= 1 + 0.15 * compute / (compute + 500e-6); /* the clock falls */
    const double memory = (a.bytes + b.bytes) / dram;
    return (2.1e-6 + std::max(compute, memory) + 0.24 * std::min(compute, memory) + rounds * store) *
           (1 + 0.006 * (cluster - 1));
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
            /* A tile of B that lies along n is whole slabs. */
            if ((turned && turned != side + 1) || (!columns && !seen.transpose_b && tile.columns % 64)) continue;
            for (const multicast_share &share : multicast_shares) {
                /* Blocks beyond the edge of C would only keep others waiting. */
                if ((share.down > 1 && seen.m <= tile.rows * (share.down / 2)) ||
                    (share.across > 1 && seen.n <= tile.columns * (share.across / 2)) || tile.columns / share.down < 8)
                    continue;
                const int64_t clusters = multicast_clusters(seen, tile, share);
                for (int cut = 1; cut * share.down * share.across <= MULTICAST_PIECES; cut *= 2) {
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
    if (packed > 0) best.seconds += 1.5e-6 + 2 * double(packed) / 2.6e12;
    return best;
}

#endif
