/* cut.cuh - how a product is cut into tiles of C and pieces of k, and what that takes.
 *
 * A C of few tiles leaves most of the device idle, so k is cut into pieces. Piece s of every tile is summed into plane
 * s of the workspace; a second, small kernel adds the planes, always in the same order: no atomics, the same bits every
 * run. Tiles of shares.cuh add up to eight pieces in a cluster of blocks, before there is a plane. Large tiles read
 * least and multiply fastest if they fill the device; small ones waste less at the edges of C, and there are more of
 * them to share.
 *
 * So tile and pieces are chosen by a model: the time of the busiest multiprocessor,
 *
 *     blocks it takes * tile * k of a piece / speed + start of each round of blocks
 *
 * but no less than memory needs, and what the planes cost. Blocks of even.cuh do not wait for the busiest; they take
 * their share of all tiles. Speeds are an H200's, as measured; other GPUs' are in much the same proportion. */
#ifndef KERNELS_MATMUL_CUT_CUH
#define KERNELS_MATMUL_CUT_CUH

#include "../../core/cluster.cuh"
#include "../matmul.cuh"
#include <algorithm>
#include <cmath>

#define MAX_ROUNDS      2      /* of blocks, up to which k is cut */
#define MAX_EVEN_BLOCKS 1024   /* of even.cuh */
#define EVEN_STORE      2.1e12 /* bytes per second that these blocks store besides multiplying */
#define MAX_SHARES      8      /* blocks of a cluster */
#define SHORT_K         64     /* up to this k the stages hold all of it: each matrix of a stack waits for copies; */
#define SHORT_PACE      0.58   /* the share of the speed then: 2761 of 45^3 and 2000 of 64^3, float32 */
#define STACK_K         256    /* up to this k filling the first stages dominates in a stack; */
#define STACK_PACE      0.7    /* the share of the speed then: fitted to ten stacks of 66^3 to 253^3, float32 and 64 */
#define CLUSTER_SECONDS 1.6e-6 /* of an addition in a cluster of two blocks; */
#define SHARE_SECONDS   4e-7   /* more for each further block */
#define EARLY_SECONDS   9e-7   /* saved by a launch that begins early */
#define ROUND_SECONDS   2.5e-6 /* between the blocks of one round and the next: stores, first copies */
#define RAGGED          4.5e11 /* bytes per second of a C with unaligned rows: stored element by element; */
#define RAGGED_DOUBLES  6e11   /* of float64 */
#define RAGGED_SHOWS    0.5    /* the share of the shorter of storing and multiplying that is not hidden; 0 in stacks */

/* One shape of a kernel's tiles. */
struct matmul_cut {
    int rows, columns; /* of a tile */
    int slots;         /* blocks that share a multiprocessor */
    int step;          /* of k: pieces are multiples of it */
    int min_k;         /* k per piece for which a piece is worth its start */
    double flops;      /* per second, of a multiprocessor whose slots are taken */
    double alone;      /* the share of `flops` that a single block reaches */
    double start;      /* seconds that each round of blocks takes besides */
    int order;         /* equal for tiles that add a piece's terms in the same order; 12 bits */
    bool shares;       /* can blocks of a cluster share a tile? */
    double even;       /* flops if blocks continue each other's tiles (even.cuh); 0: they do not */
    bool waits;        /* in a stack too, a multiprocessor waits for the stores of its only block */
};

/* The division of a launch over a tiled kernel's blocks: each does one piece of k of one tile of one matrix. */
struct matmul_work {
    int64_t splits, k_each; /* number of planes; k per piece (the last may have less) */
    int64_t rows, columns;  /* numbers of tiles */
    void *planes;           /* [splits][batch][m][n], accumulator type; NULL if splits is 1 */
    unsigned shares;        /* pieces that a cluster adds: there are splits * shares */
    const uint32_t *wanted; /* as in struct launch */
};

/* One of a kernel's cuts, the number of pieces of k, and the predicted time. */
struct matmul_choice {
    int cut;
    int64_t splits, shares; /* planes, and pieces that a cluster adds */
    double seconds;
};

inline int64_t matmul_tiles(const matmul_args &args, const matmul_cut &cut) {
    return args.batch * ceil_div(args.m, cut.rows) * ceil_div(args.n, cut.columns);
}

/* The k of each of `pieces` pieces, a multiple of the step; rounded up, so that the last pieces may be short or
 * empty. */
inline int64_t matmul_k_each(const matmul_args &args, const matmul_cut &cut, int64_t pieces) {
    return ceil_div(ceil_div(args.k, pieces), cut.step) * cut.step;
}

/* Can blocks share the tiles evenly (even.cuh)? There must be a tile for each block, and steps are counted in 32
 * bits. */
inline bool matmul_even(const struct launch *launch, const matmul_cut &cut) {
    const int64_t tiles = matmul_tiles(launch->args.matmul, cut), steps = ceil_div(launch->args.matmul.k, cut.step);
    const int64_t blocks = int64_t(cut.slots) * launch->multiprocessors;
    return cut.even > 0 && steps > 0 && blocks <= MAX_EVEN_BLOCKS && tiles >= blocks &&
           tiles < (int64_t(1) << 31) / steps;
}

/* Do the rows of both operands in memory consist of groups of `elements`? Whether the operands are aligned shows only
 * at the launch. */
inline bool matmul_in_groups(const matmul_args &args, int elements) {
    return (args.transpose_a ? args.m : args.k) % elements == 0 &&
           (args.transpose_b ? args.k : args.n) % elements == 0 && args.a_batch_stride % elements == 0 &&
           args.b_batch_stride % elements == 0;
}

/* The blocks that a cluster may have: 1 if this device, or this build, has no clusters. */
inline int matmul_cluster() {
    return launch_overlaps() ? MAX_SHARES : 1;
}

/* The division of the launch that was chosen. The planes are in the workspace. */
inline matmul_work matmul_divide(const struct launch *launch, const matmul_cut &cut, const matmul_choice &choice) {
    const matmul_args &args = launch->args.matmul;
    return {.splits = choice.splits,
            .k_each = matmul_k_each(args, cut, choice.splits * choice.shares),
            .rows = ceil_div(args.m, cut.rows),
            .columns = ceil_div(args.n, cut.columns),
            .planes = choice.splits > 1 ? launch->workspace : nullptr,
            .shares = unsigned(choice.shares),
            .wanted = launch->wanted};
}

/* The most pieces that k is worth cutting into: up to MAX_ROUNDS rounds of blocks, each of min_k or more. */
inline int64_t matmul_max_pieces(const struct launch *launch, const matmul_cut &cut) {
    const matmul_args &args = launch->args.matmul;
    const int64_t tiles = matmul_tiles(args, cut), slots = int64_t(cut.slots) * launch->multiprocessors;
    return tiles == 0 ? 1 : std::max(int64_t(1), std::min(MAX_ROUNDS * slots / tiles, args.k / cut.min_k));
}

/* May blocks of shares.cuh start while the previous launch still runs? Only if both launches find room at once: a
 * float64 product of 1000 x 1000 x 1000 by 256 blocks took 42 us, and 58 if they started early; presumably they come
 * one by one as others end, too many on some multiprocessors, and clusters late. */
inline bool matmul_early(const struct launch *launch, const matmul_cut &cut, int64_t blocks, int64_t shares) {
    if (!cut.shares) return false;
    return shares <= 2 ? blocks <= launch->multiprocessors : cut.slots > 1 && 2 * blocks <= launch->multiprocessors;
}

/* The share of all multiprocessors that clusters can occupy, by their number of blocks: clusters of three and more do
 * not fit everywhere. On an H200, with 132 multiprocessors, 36 clusters of 3 blocks ran at the same time but not 40, 25
 * of 4 but not 32, 16 of 6 but not 18, 10 of 8 but not 16, and not 16 of 7. For multicast.cu's clusters it was fitted
 * (multicast_choice.cuh). */
static const double matmul_cluster_share[MAX_SHARES] = {1, 1, 0.82, 0.79, 0.76, 0.73, 0.75, 0.73};

/* Predicts the seconds that the busiest multiprocessor takes to multiply `blocks` pieces of k. `pace`: the share of the
 * cut's speed (cut.flops) that the kernel reaches on operands of this layout. */
inline double matmul_multiply_seconds(const struct launch *launch, const matmul_cut &cut, int64_t splits,
                                      int64_t shares, double pace) {
    const matmul_args &args = launch->args.matmul;
    const int64_t pieces = splits * shares, blocks = pieces * matmul_tiles(args, cut);
    const int64_t clusters_at_once =
        shares > 2 ? std::max(int64_t(1), int64_t(launch->multiprocessors * matmul_cluster_share[shares - 1]) / shares)
                   : 0;
    const bool even = pieces == 1 && matmul_even(launch, cut);
    const int64_t busiest =
        clusters_at_once ? ceil_div(blocks / shares, clusters_at_once) : ceil_div(blocks, launch->multiprocessors);
    const double together = double(std::min(busiest, int64_t(cut.slots)));
    const double share = cut.slots == 1 ? 1 : cut.alone + (1 - cut.alone) * (together - 1) / (cut.slots - 1);
    const double tiles_each = even ? double(blocks) / launch->multiprocessors : double(busiest);
    const double flops = tiles_each * 2 * cut.rows * cut.columns * double(matmul_k_each(args, cut, pieces));
    const double rounds = even ? 1 : double(ceil_div(busiest, cut.slots));
    const double c_bytes = double(args.batch) * double(args.m) * double(args.n) * double(dtype_size(launch->dtype));
    const double idle = args.batch == 1 || args.k > STACK_K ? 1 : args.k > SHORT_K ? STACK_PACE : SHORT_PACE;
    return flops / ((even ? cut.even : cut.flops * share) * pace * idle) + rounds * cut.start +
           std::max(0.0, rounds - 1) * ROUND_SECONDS + (even ? c_bytes / EVEN_STORE : 0);
}

#define CUT_LAUNCH_SECONDS 2.2e-6
#define CUT_PLANES_SECONDS 3e-6   /* for the launch that adds the planes */
#define CUT_MEMORY         3.6e12 /* bytes per second */
#define CUT_PLANES         3e12   /* bytes of planes and C per second, if rows of C are stored in vectors; */
#define CUT_PLANES_SINGLY  1e12   /* else */

/* Predicts the seconds of a launch with this cut: the longest of multiplying, storing C and reading memory, and what
 * does not overlap with these. `pace` as above. */
inline double matmul_cut_seconds(const struct launch *launch, const matmul_cut &cut, int64_t splits, int64_t shares,
                                 double pace) {
    const matmul_args &args = launch->args.matmul;
    const double compute = matmul_multiply_seconds(launch, cut, splits, shares, pace);
    const double element = double(dtype_size(launch->dtype)), c = double(args.batch) * double(args.m) * double(args.n);
    const double a = double(args.a_batch_stride ? args.batch : 1) * double(args.m) * double(args.k);
    const double b = double(args.b_batch_stride ? args.batch : 1) * double(args.n) * double(args.k);
    const double cluster = shares > 1 ? CLUSTER_SECONDS + SHARE_SECONDS * double(shares - 2) : 0;
    const bool vectors = args.n * dtype_size(launch->dtype) % 16 == 0; /* rows of C are stored in vectors */
    const double ragged = vectors ? 0 : c * element / (element > 4 ? RAGGED_DOUBLES : RAGGED);
    const double planes_bytes = c * double(splits + 1) * (element > 4 ? 8 : 4);
    const double planes =
        splits > 1 ? CUT_PLANES_SECONDS + planes_bytes / (vectors ? CUT_PLANES : CUT_PLANES_SINGLY) : 0;
    const int64_t blocks = splits * shares * matmul_tiles(args, cut);
    const double early = matmul_early(launch, cut, blocks, shares) ? EARLY_SECONDS : 0;
    return CUT_LAUNCH_SECONDS + std::max({compute, ragged, (a + b + c) * element / CUT_MEMORY}) +
           (args.batch == 1 || cut.waits ? RAGGED_SHOWS : 0) * std::min(compute, ragged) + cluster + planes - early;
}

/* The cuts among which a kernel chooses. */
struct matmul_cuts {
    const matmul_cut *cut;
    int count;
};

/* Chooses a cut and the number of pieces of k with the shortest predicted time. `tile`: 1 + the index of the cut to
 * use; 0: any. `pace` as in matmul_cut_seconds. */
inline matmul_choice matmul_choose(const struct launch *launch, const matmul_cuts &cuts, int tile, double pace = 1) {
    const int begin = tile ? tile - 1 : 0, end = tile ? tile : cuts.count;
    matmul_choice best = {begin, 1, 1, INFINITY};
    for (int i = begin; i < end; i++) {
        const matmul_cut &cut = cuts.cut[i];
        const int64_t max_pieces = matmul_max_pieces(launch, cut), cluster = cut.shares ? matmul_cluster() : 1;
        for (int64_t wanted = 1; wanted <= max_pieces; wanted += std::max(int64_t(1), wanted / 8)) {
            /* The number of pieces if each is a whole number of steps. */
            const int64_t k_each = matmul_k_each(launch->args.matmul, cut, wanted);
            const int64_t pieces = std::max(int64_t(1), ceil_div(launch->args.matmul.k, std::max(int64_t(1), k_each)));
            const int64_t splits = ceil_div(pieces, cluster), shares = ceil_div(pieces, splits);
            const double seconds = matmul_cut_seconds(launch, cut, splits, shares, pace);
            if (seconds < best.seconds) best = {i, splits, shares, seconds};
        }
    }
    return best;
}

/* An upper bound of the bytes of all planes, of elements of `element` bytes. It does not shrink when an extent grows:
 * the last, smaller launches of a run may split k although the first do not. */
inline size_t matmul_planes(const struct launch *launch, const matmul_cuts &cuts, size_t element) {
    const matmul_args &args = launch->args.matmul;
    double bytes = 0;
    for (int i = 0; i < cuts.count; i++) {
        const matmul_cut &cut = cuts.cut[i];
        if (args.k < 2 * cut.min_k) continue;
        const double sums_of_all_pieces =
            double(args.k / cut.min_k) * double(args.batch) * double(args.m) * double(args.n);
        const double sums_of_all_blocks =
            MAX_ROUNDS * double(cut.slots) * launch->multiprocessors * cut.rows * cut.columns;
        bytes = std::max(bytes, std::min(sums_of_all_pieces, sums_of_all_blocks) * double(element));
    }
    return size_t(bytes);
}

/* For kernel->way: an element's terms are added in the cut's order in each piece, then the pieces. */
inline uint64_t matmul_way(const struct launch *launch, const matmul_choice &choice, const matmul_cut &cut) {
    const int64_t pieces = choice.splits * choice.shares;
    const uint64_t k_each = pieces > 1 ? uint64_t(matmul_k_each(launch->args.matmul, cut, pieces)) : 0;
    return k_each << 16 | uint64_t(choice.shares - 1) << 12 | uint64_t(cut.order);
}

#endif
