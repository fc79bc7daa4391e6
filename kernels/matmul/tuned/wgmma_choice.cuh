/* wgmma_choice.cuh - which tile suits a product: a model of wgmma.cu's time, and the least of what it predicts.
 *
 * A configuration is the tile of a pair of blocks, in how many pieces k is cut, and whether the product is turned
 * (C^T = B^T A^T), so that the 256 rows of a pair lie along n. Its time is that of the busiest multiprocessor:
 *
 *     launch + rounds * (steps * step + tile) + gather                      but no less than bytes / rate of memory
 *
 *     rounds    tiles that one multiprocessor takes, one after another      step    64 of k of one tile
 *     steps     of 64 of k in a piece                                       tile    to fill the ring, and to store
 *
 * A large tile has the fastest multiplications, a small one wastes less at the edges of C and in the last round, and
 * pieces of k occupy multiprocessors that would have no tile. The times are an H200's; `tests/bench/choices.py`
 * times all configurations beside the one chosen. */
#ifndef KERNELS_MATMUL_WGMMA_CHOICE_CUH
#define KERNELS_MATMUL_WGMMA_CHOICE_CUH

#include "pack.cuh"
#include "wgmma.cuh"

#define WGMMA_STEP_K 64 /* of k in a stage: a slab's 128 bytes */
#define WGMMA_PIECES 4  /* of k, at most */

struct wgmma_tile_costs {
    int n;            /* columns of a tile */
    int blocks;       /* that share a multiprocessor */
    double step, own; /* seconds of 64 of k, of the tile itself */
};
static const wgmma_tile_costs wgmma_costs[] = {
    {256, 1, 0.69e-6, 5.5e-6}, {192, 1, 0.62e-6, 3.0e-6}, {128, 1, 0.40e-6, 1.8e-6}, {64, 2, 0.25e-6, 1.4e-6}};

struct wgmma_config {
    int tile_n, blocks, pieces;
    bool turned;
    double seconds;
};

inline bool wgmma_packs(const tma_stack &stack) {
    return pack_needed(stack, 2, false);
}

inline double wgmma_stack_bytes(const tma_stack &stack) {
    return 2.0 * double(stack.count) * double(stack.rows) * double(stack.columns);
}

/* Of one launch by one configuration, `args` being turned if it is; without the copies that TMA may need. */
inline double wgmma_config_seconds(const matmul_args &args, const wgmma_tile_costs &costs, int pieces,
                                   int multiprocessors) {
    const double tiles = double(wgmma_tiles(args, costs.n)), blocks = tiles * WGMMA_CLUSTER * pieces;
    const int64_t steps = ceil_div(ceil_div(args.k, WGMMA_STEP_K), pieces);
    /* A cluster of many blocks must fit into one part of the chip, and parts do not hold a whole number of them: 31
     * clusters of 4 took as long on 132 multiprocessors as two rounds would. */
    const double room = pieces > 1 ? multiprocessors * 0.875 : multiprocessors;
    const double rounds = std::ceil(blocks / (room * costs.blocks));
    const double shared = blocks > room ? costs.blocks : 1; /* blocks that run side by side slow each other down */
    const double compute = rounds * (double(steps) * costs.step * shared + costs.own) + (pieces > 1 ? 1.2e-6 : 0);
    const double copied = blocks * double(steps) * (128 + costs.n / 2.0) * WGMMA_STEP_K * 2; /* out of L2 */
    const double bytes = wgmma_stack_bytes(wgmma_stack_a(args)) + wgmma_stack_bytes(wgmma_stack_b(args)) +
                         2.0 * double(args.batch) * double(args.m) * double(args.n);
    return 3e-6 + std::max({compute, bytes / 3e12 + 3e-6, copied / 5.5e12 + 1e-6});
}

/* The least of all; `tile`, `pieces` and `turned` above 0 (turned: 1 no, 2 yes) admit only these. */
inline wgmma_config wgmma_choose(const struct launch *launch, int tile, int pieces, int turned) {
    const matmul_args &args = launch->args.matmul, other = matmul_turn(args);
    wgmma_config best = {};
    for (const wgmma_tile_costs &costs : wgmma_costs)
        for (int side = 0; side < (costs.n > 128 ? 1 : 2); side++)
            for (int cut = 1; cut <= WGMMA_PIECES; cut *= 2) {
                if ((tile && tile != costs.n) || (pieces && pieces != cut) || (turned && turned != side + 1)) continue;
                if (!pieces && cut > 1 && args.k < 2 * WGMMA_STEP_K * cut) continue;
                const double seconds =
                    wgmma_config_seconds(side ? other : args, costs, cut, std::max(1, launch->multiprocessors));
                if (best.tile_n && seconds >= best.seconds) continue;
                best = {costs.n, costs.blocks, cut, side == 1, seconds};
            }
    for (const tma_stack &stack : {wgmma_stack_a(args), wgmma_stack_b(args)})
        if (wgmma_packs(stack)) best.seconds += 2.5e-6 + 2 * wgmma_stack_bytes(stack) / 2.6e12;
    return best;
}

#endif
