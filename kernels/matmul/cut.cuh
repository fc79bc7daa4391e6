/* matmul/cut.cuh - how a product is cut into tiles of C and pieces of k, and what that takes.
 *
 * A C of few tiles leaves most of the device idle, so k is cut into pieces. Piece s of every tile is summed into plane
 * s of the workspace; a second, small kernel adds the planes, always in the same order: no atomics, the same bits every
 * run. Large tiles read least and multiply fastest where they fill the device; small ones waste less at the edges of C,
 * and there are more of them to share.
 *
 * So tile and pieces are chosen by a model: the time of the busiest multiprocessor,
 *
 *     blocks it takes * tile^2 * k of a piece / speed + start of each round of blocks
 *
 * but no less than memory needs, and what the planes cost. Speeds are an H200's, as measured; another GPU's differ in
 * much the same proportion. */
#ifndef KERNELS_MATMUL_CUT_CUH
#define KERNELS_MATMUL_CUT_CUH

#include "matmul.cuh"
#include <algorithm>
#include <cmath>

#define MOST_ROUNDS 2 /* of blocks, that k is cut for */

/* One shape of a kernel's tiles. */
struct matmul_cut {
    int tile;     /* rows and columns */
    int slots;    /* blocks that share a multiprocessor */
    int step;     /* of k: pieces are multiples of it */
    int least;    /* of k per piece, so that a piece is worth its start */
    double flops; /* per second, of a multiprocessor whose slots are taken */
    double alone; /* the share of that which a block reaches by itself */
};

/* What a tiled kernel works on. A block does one piece of k of one tile of one matrix. */
struct matmul_work {
    int64_t splits, k_each; /* number of pieces; k per piece (the last may have less) */
    int64_t rows, columns;  /* numbers of tiles */
    void *planes;           /* [splits][batch][m][n], accumulator type; NULL where splits is 1 */
};

/* Which of two cuts, in how many pieces of k, and the time that this is predicted to take. */
struct matmul_choice {
    bool small;
    int64_t splits;
    double seconds;
};

inline int64_t matmul_tiles(const matmul_args &args, const matmul_cut &cut) {
    return args.batch * ceil_div(args.m, cut.tile) * ceil_div(args.n, cut.tile);
}

inline int64_t matmul_k_each(const matmul_args &args, const matmul_cut &cut, int64_t splits) {
    return ceil_div(ceil_div(args.k, splits), cut.step) * cut.step;
}

inline matmul_work matmul_divide(const struct launch *launch, const matmul_cut &cut, int64_t splits) {
    const matmul_args &args = launch->args.matmul;
    return {.splits = splits,
            .k_each = matmul_k_each(args, cut, splits),
            .rows = ceil_div(args.m, cut.tile),
            .columns = ceil_div(args.n, cut.tile),
            .planes = splits > 1 ? launch->workspace : nullptr};
}

inline int64_t matmul_most_splits(const struct launch *launch, const matmul_cut &cut) {
    const matmul_args &args = launch->args.matmul;
    const int64_t tiles = matmul_tiles(args, cut), slots = int64_t(cut.slots) * launch->multiprocessors;
    return tiles == 0 ? 1 : std::max(int64_t(1), std::min(MOST_ROUNDS * slots / tiles, args.k / cut.least));
}

/* An upper bound of the planes' bytes that does not shrink when an extent grows: the last, smaller tiles of a run may
 * be split where its full ones are not. */
inline size_t matmul_planes(const struct launch *launch, const matmul_cut &cut, size_t element) {
    const matmul_args &args = launch->args.matmul;
    if (args.k < 2 * cut.least) return 0;
    const double wanted = double(args.k / cut.least) * double(args.batch) * double(args.m) * double(args.n);
    const double most = MOST_ROUNDS * double(cut.slots) * launch->multiprocessors * cut.tile * cut.tile;
    return size_t(wanted < most ? wanted : most) * element;
}

/* `pace`: the share of its speed that a kernel reaches on operands that lie as these do. */
inline double matmul_cut_seconds(const struct launch *launch, const matmul_cut &cut, int64_t splits, double pace = 1) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = splits * matmul_tiles(args, cut), busiest = ceil_div(blocks, launch->multiprocessors);
    const double together = double(std::min(busiest, int64_t(cut.slots)));
    const double share = cut.slots == 1 ? 1 : cut.alone + (1 - cut.alone) * (together - 1) / (cut.slots - 1);
    const double flops = double(busiest) * 2 * cut.tile * cut.tile * double(matmul_k_each(args, cut, splits));
    const double compute = flops / (cut.flops * share * pace) + double(ceil_div(busiest, cut.slots)) * 1.5e-6;
    const double element = double(dtype_size(launch->dtype)), c = double(args.batch) * double(args.m) * double(args.n);
    const double a = double(args.a_batch_stride ? args.batch : 1) * double(args.m) * double(args.k);
    const double b = double(args.b_batch_stride ? args.batch : 1) * double(args.n) * double(args.k);
    const double planes = splits > 1 ? 3e-6 + c * double(splits + 1) * (element > 4 ? 8 : 4) / 3e12 : 0;
    return 2.5e-6 + std::max(compute, (a + b + c) * element / 3e12) + planes;
}

/* `tile`: 0 for the best of both, 1 for large, 2 for small. */
inline matmul_choice matmul_choose(const struct launch *launch, const matmul_cut &large, const matmul_cut &small,
                                   int tile, double pace = 1) {
    matmul_choice best = {tile == 2, 1, INFINITY};
    for (int which = 0; which < 2; which++) {
        if (tile && tile != which + 1) continue;
        const matmul_cut &cut = which ? small : large;
        const int64_t most = matmul_most_splits(launch, cut);
        for (int64_t splits = 1; splits <= most; splits += std::max(int64_t(1), splits / 8)) {
            /* As many pieces as there are, when each is a whole number of steps. */
            const int64_t k_each = matmul_k_each(launch->args.matmul, cut, splits);
            const int64_t pieces = std::max(int64_t(1), ceil_div(launch->args.matmul.k, std::max(int64_t(1), k_each)));
            const double seconds = matmul_cut_seconds(launch, cut, pieces, pace);
            if (seconds < best.seconds) best = {which == 1, pieces, seconds};
        }
    }
    return best;
}

/* For kernel->way: an element's terms are added in the order of k, in each piece. */
inline uint64_t matmul_way(const struct launch *launch, const matmul_choice &choice, const matmul_cut &cut) {
    return choice.splits > 1 ? uint64_t(matmul_k_each(launch->args.matmul, cut, choice.splits)) : 0;
}

#endif
