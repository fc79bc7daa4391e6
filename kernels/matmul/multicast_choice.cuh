/* multicast_choice.cuh - which tile and which cluster suit a product: a model of matmul/multicast.cu's time.
 *
 * A configuration is a block's tile, whether the product is turned (C^T = B^T A^T), how many blocks of a cluster lie
 * below and beside each other, and in how many pieces k is cut. A block takes, for 64 of k, the longest of
 *
 *     tensor core     4 instructions a consumer, each N / 2 cycles
 *     L2              what the block itself copies: A / across + B / down, at its share of L2's rate
 *
 * and the launch takes
 *
 *     launch + rounds * (steps * step + tile) + gather          or bytes / rate of memory, and a tenth of the less
 *
 * These are a chip's plain figures, an H200's, and not yet fitted to times: `tests/bench/choices.py` would tell. */
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

/* The share of the chip that clusters of so many blocks can fill: they must fit into one part of it. */
inline double multicast_room(int cluster) {
    return cluster <= 2 ? 1 : cluster == 4 ? 0.96 : 0.9;
}

/* Of one launch, `args` being turned if it is; without the copies that TMA may need. Fills in the stages. */
inline double multicast_seconds_of(const matmul_args &args, multicast_config &config, int multiprocessors) {
    const double clock = 1.7e9, l2 = 6.5e12, dram = 4.0e12;
    const multicast_tile_size &tile = config.tile;
    const multicast_share &share = config.share;
    const int cluster = share.down * share.across * config.pieces,
              bytes = multicast_stage_bytes(tile, !args.transpose_b);
    const double blocks = double(multicast_clusters(args, tile, share)) * cluster;
    const double room = multiprocessors * multicast_room(cluster);
    const int beside = blocks > room ? tile.blocks : 1; /* blocks on a multiprocessor */
    config.stages = std::min(MULTICAST_STAGES, (MULTICAST_SHARED / beside - MULTICAST_RING - 1024) / bytes);

    const double steps = double(ceil_div(ceil_div(args.k, TILE_K), config.pieces));
    const double rounds = std::ceil(blocks / (room * beside)), busy = std::min(blocks, room * beside);
    const double multiply = tile.rows / 64 * 4 * std::max(tile.columns / 2.0, 24.0) / clock * beside;
    const double own = tile.rows * 128.0 / share.across + (bytes - tile.rows * 128.0) / share.down;
    const double copy = own * busy / l2;
    const double store = 0.8e-6 + 1.5e-6 * tile.rows * tile.columns / (128 * 256);
    const double gather = config.pieces > 1 ? 1.2e-6 : 0;
    const double moved = wgmma_stack_bytes(wgmma_stack_a(args)) + wgmma_stack_bytes(wgmma_stack_b(args)) +
                         2.0 * double(args.batch) * double(args.m) * double(args.n);
    const double in_flight = busy * std::min(double(config.stages), steps) * own;
    const double reach = std::min(dram, in_flight / 1e-6); /* a microsecond from request to arrival */
    const double compute = rounds * (steps * std::max(multiply, copy) + store) + gather, memory = moved / reach + 1e-6;
    return 2e-6 + std::max(compute, memory) + 0.1 * std::min(compute, memory); /* they hardly hide each other whole */
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
                    (share.across > 1 && seen.n <= tile.columns * (share.across / 2)))
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
