/* multicast.cuh - the blocks of multicast.cu: where a block stands in its cluster, the ring of stages that the blocks
 * of a cluster fill for each other, and the addition of their sums if k is cut over them.
 *
 *     down = 2, across = 2          B 0         B 1          block (i, j) copies half of A i, for its row of blocks,
 *                           A 0   (0, 0)      (0, 1)         and half of B j, for its column of blocks
 *                           A 1   (1, 0)      (1, 1)
 *
 * A stage is full when all copies into it have arrived, whoever made them. It is empty when the consumers of every
 * block that gets this block's copies have released it: down + across - 1 blocks. */
#ifndef KERNELS_MATMUL_MULTICAST_CUH
#define KERNELS_MATMUL_MULTICAST_CUH

#include "multicast_choice.cuh"
#include "multicast_store.cuh"

/* A block's shape. Its threads are the consumers, a warpgroup for each 64 rows, and two more warps, one for each
 * operand: a thread of the warp copies the operand. Here and below A_MN, B_MN: is A, is B MN-major (core/wgmma.cuh)?
 * Templates for one operand have MN (is it MN-major?) and IS_B (is it B?). */
template <size_t TILE> struct multicast_shape {
    static constexpr int ROWS = multicast_tiles[TILE].rows, COLUMNS = multicast_tiles[TILE].columns;
    static constexpr int BLOCKS = multicast_tiles[TILE].blocks; /* per multiprocessor, at most */
    static constexpr int PIECES = multicast_tiles[TILE].max_pieces();
    static constexpr int CONSUMERS = ROWS / 64, THREADS = CONSUMERS * WARPGROUP + 64;
    static constexpr int A_BYTES = ROWS * 128;
    template <bool B_MN> static constexpr int B_SLABS = B_MN ? (COLUMNS + 63) / 64 : 1; /* copied one by one */
    template <bool B_MN> static constexpr int B_BYTES = B_MN ? B_SLABS<true> *SLAB_BYTES : COLUMNS * 128;
};

/* How a launch is laid out. */
struct multicast_layout {
    int stages;
    int down, across, pieces; /* blocks of a cluster: down * across * pieces */
    int rows, columns;        /* of C, in tiles of clusters */
    int clusters;             /* tiles of clusters in all */
    bool once;                /* each cluster does one tile */
    int a_lines, b_lines;     /* rows of 128 bytes of an operand's tile that one block copies */
    enum multicast_out out;
};

/* A block's barriers, at the begin of its shared memory. */
struct multicast_ring {
    uint64_t full[MULTICAST_STAGES], empty[MULTICAST_STAGES]; /* one for each stage */
    uint64_t landed[2]; /* have the other pieces' sums arrived, for each consumer? */
    uint64_t taken;     /* has every consumer of every piece taken the sums that this block left for it? */
};

/* A thread's position in the ring: ring_position (tma.cuh) for a number of stages that is known only at run time. */
struct multicast_position {
    int stage = 0;
    uint32_t phase = 0;

    __device__ void advance(int stages) {
        if (++stage == stages) {
            stage = 0;
            phase ^= 1;
        }
    }
};

/* Returns x / y of positive numbers. A division takes a hundred cycles; if y is a power of 2, a shift replaces it. */
__device__ inline int divide(int x, int y) {
    return y & (y - 1) ? int(unsigned(x) / unsigned(y)) : x >> (31 - __clz(y));
}

/* A block's position in its cluster and along k. */
struct multicast_block {
    int down = 0, across = 0, piece = 0;
    int first = 0;     /* rank of the first block of the same piece */
    uint32_t peer = 0; /* rank of the block that does the first piece of the same tile */
    int begin, end;    /* of k, in steps */

    /* Finds the position of the calling block. Blocks of one piece have consecutive ranks, down first. */
    __device__ multicast_block(const multicast_layout &layout, int64_t k) {
        const int sharing = layout.down * layout.across, size = sharing * layout.pieces;
        if (size > 1) {
            const int rank = int(cluster_rank());
            piece = divide(rank, sharing);
            first = piece * sharing;
            peer = uint32_t(rank - first);
            across = divide(rank - first, layout.down);
            down = rank - first - across * layout.down;
        }
        const int steps = int((k + TILE_K - 1) / TILE_K), each = divide(steps + layout.pieces - 1, layout.pieces);
        begin = min(each * piece, steps);
        end = min(begin + each, steps);
    }
    /* Returns the rank of the block at this position among the blocks of this block's piece. */
    __device__ int rank_at(const multicast_layout &layout, int at_down, int at_across) const {
        return first + at_across * layout.down + at_down;
    }
    /* The ranks of the blocks that share A with this one, and of those that share B, a bit each. */
    __device__ uint16_t row_of_blocks(const multicast_layout &layout) const {
        uint32_t bits = 0;
        for (int i = 0; i < layout.across; i++) bits |= 1u << rank_at(layout, down, i);
        return uint16_t(bits);
    }
    __device__ uint16_t column_of_blocks(const multicast_layout &layout) const {
        return uint16_t(((1u << layout.down) - 1) << rank_at(layout, 0, across));
    }
};

/* This block's part of the cluster's tile `number`. Tiles are numbered down bands of 8, so that clusters running at the
 * same time share operands in L2. A small product has one matrix and one band: it is too short for the divisions. */
template <typename SHAPE>
__device__ inline multicast_tile multicast_tile_of(const multicast_layout &layout, const multicast_block &block,
                                                   int number) {
    const int per_matrix = layout.rows * layout.columns, batch = number < per_matrix ? 0 : number / per_matrix,
              band = 8;
    const int in_matrix = number - batch * per_matrix;
    const int first = in_matrix < band * layout.columns ? 0 : in_matrix / (band * layout.columns) * band;
    const int tall = min(band, layout.rows - first), in_band = in_matrix - first * layout.columns;
    const int column = tall == band ? in_band / band
                       : tall == 1  ? in_band
                                    : in_band / tall,
              row = first + in_band - column * tall;
    return {batch, (row * layout.down + block.down) * SHAPE::ROWS,
            (column * layout.across + block.across) * SHAPE::COLUMNS};
}

/* The number of boxes of an operand's tile to copy, if `remaining` lines of m or n exist from its first one on. Boxes
 * beyond the operand's end are not copied: the copy engine seems to take several times as long for a line of zeros as
 * for one that it reads. What the stage holds instead multiplies into sums that are not stored. */
template <int BOXES, bool MN> __device__ inline int multicast_boxes(int remaining) {
    return remaining <= 0 ? 0 : MN ? min(BOXES, (remaining + 63) / 64) : 1;
}

/* Is one of the cluster's rows of blocks beyond C? If a column of blocks is too, the block beyond both would wait for
 * no copy: it would run ahead, and release a stage twice before another block has released it once. So a box of B is
 * copied for that column all the same. */
template <typename SHAPE>
__device__ inline bool multicast_corner(const matmul_args &args, const multicast_layout &layout,
                                        const multicast_block &block, const multicast_tile &tile) {
    return tile.row + (layout.down - 1 - block.down) * SHAPE::ROWS >= args.m;
}

/* Copies `boxes` boxes, a slab apart in shared memory, 64 elements apart along x in the operand; to this block alone,
 * or to the blocks whose bits are set. */
template <int BOXES>
__device__ inline void multicast_copy(const CUtensorMap *map, uint8_t *to, uint64_t *full, int x, int y, int matrix,
                                      int boxes, bool shared, uint16_t blocks) {
#pragma unroll
    for (int i = 0; i < BOXES; i++) {
        if (i >= boxes) break;
        if (shared)
            tma_load(map, to + i * SLAB_BYTES, full, x + i * 64, y, matrix, blocks);
        else
            tma_load(map, to + i * SLAB_BYTES, full, x + i * 64, y, matrix);
    }
}

/* What is copied of an operand for a tile of C: the first line (of m or n), the number of boxes, the matrix. */
struct multicast_source {
    int begin, boxes, matrix;
};

/* The number of boxes of an operand's tile. */
template <typename SHAPE, bool IS_B, bool MN>
constexpr int multicast_boxes_most = !MN    ? 1
                                     : IS_B ? SHAPE::template B_SLABS<true>
                                            : SHAPE::CONSUMERS;

/* What is copied for the cluster's tile `number`. */
template <typename SHAPE, bool IS_B, bool MN>
__device__ inline multicast_source multicast_source_of(const matmul_args &args, const multicast_layout &layout,
                                                       const multicast_block &block, int number) {
    const multicast_tile tile = multicast_tile_of<SHAPE>(layout, block, number);
    const int begin = IS_B ? tile.column : tile.row;
    int boxes = multicast_boxes<multicast_boxes_most<SHAPE, IS_B, MN>, MN>(int(IS_B ? args.n : args.m) - begin);
    if (IS_B && boxes == 0 && multicast_corner<SHAPE>(args, layout, block, tile)) boxes = 1;
    return {begin, boxes, (IS_B ? args.b_batch_stride : args.a_batch_stride) ? tile.batch : 0};
}

/* What a copying thread computes before its first copy. The blocks that share an operand's tile divide its lines: rows
 * of 128 bytes, each along k for one m or n if the operand is K-major, else along m or n for one k. */
struct multicast_share_of {
    int line;        /* the first line that this block copies */
    int box;         /* bytes of a box, the other blocks' shares included */
    uint32_t blocks; /* the blocks that get the copies, a bit for each rank */
    multicast_source of;
};

/* This block's share of an operand, for the first of its tiles, number `number`. */
template <typename SHAPE, bool IS_B, bool MN>
__device__ inline multicast_share_of multicast_first(const matmul_args &args, const multicast_layout &layout,
                                                     const multicast_block &block, int number) {
    const int lines = IS_B ? layout.b_lines : layout.a_lines, beside = IS_B ? layout.down : layout.across;
    return {lines * (IS_B ? block.down : block.across), lines * beside * 128,
            IS_B ? block.column_of_blocks(layout) : block.row_of_blocks(layout),
            multicast_source_of<SHAPE, IS_B, MN>(args, layout, block, number)};
}

/* Copies an operand's share of all the block's tiles, stage by stage, as stages become empty. SHARED: other blocks get
 * the copies too; BYTES: of a stage. A step takes few instructions, because a small tile waits for nothing else. */
template <typename SHAPE, bool IS_B, bool MN, bool SHARED, int BYTES>
__device__ inline void multicast_fill(const matmul_args &args, const multicast_layout &layout,
                                      const multicast_block &block, const CUtensorMap *map, multicast_ring &ring,
                                      uint8_t *stages, int first, int clusters, const multicast_share_of &share) {
    multicast_source of = share.of;
    uint8_t *const to = stages + (IS_B ? SHAPE::A_BYTES : 0) + share.line * 128;
    multicast_position at;
    for (int number = first; number < layout.clusters; number += clusters) {
        if (number > first) of = multicast_source_of<SHAPE, IS_B, MN>(args, layout, block, number);
        const int bytes = of.boxes * share.box, along = of.begin + (MN ? 0 : share.line);
        int k = block.begin * TILE_K + (MN ? share.line : 0);
#pragma unroll 1
        for (int step = block.begin; step < block.end; step++, k += TILE_K, at.advance(layout.stages)) {
            uint64_t *const full = &ring.full[at.stage];
            mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);
            mbarrier_expect(full, uint32_t(bytes));
            multicast_copy<multicast_boxes_most<SHAPE, IS_B, MN>>(map, to + at.stage * BYTES, full, MN ? along : k,
                                                                  MN ? k : along, of.matrix, of.boxes, SHARED,
                                                                  uint16_t(share.blocks));
        }
    }
}

/* Lets one thread of a copying warp copy one operand, B if `is_b`. */
template <typename SHAPE, bool A_MN, bool B_MN>
__device__ inline void multicast_produce(const matmul_args &args, const multicast_layout &layout,
                                         const multicast_block &block, const CUtensorMap *map, bool is_b,
                                         multicast_ring &ring, uint8_t *stages, int first, int clusters,
                                         const multicast_share_of &share) {
    constexpr int BYTES = SHAPE::A_BYTES + SHAPE::template B_BYTES<B_MN>;
    if (!elect_one()) return;
    launch_wait();
    launch_next();
    if (!is_b && layout.across > 1)
        multicast_fill<SHAPE, false, A_MN, true, BYTES>(args, layout, block, map, ring, stages, first, clusters, share);
    else if (!is_b)
        multicast_fill<SHAPE, false, A_MN, false, BYTES>(args, layout, block, map, ring, stages, first, clusters,
                                                         share);
    else if (layout.down > 1)
        multicast_fill<SHAPE, true, B_MN, true, BYTES>(args, layout, block, map, ring, stages, first, clusters, share);
    else
        multicast_fill<SHAPE, true, B_MN, false, BYTES>(args, layout, block, map, ring, stages, first, clusters, share);
}

/* A consumer signals the threads that copy into a stage that it has read it, unless the stage will not be filled again.
 * So a block's copying thread waits for every signal to the block, and a block may end without waiting for the others
 * of its cluster. */
struct multicast_release {
    bool signals;    /* does this thread signal? */
    uint32_t target; /* rank of the block that it signals */
    int tiles;       /* tiles that this block has still to begin */
    int in_tile = 0; /* stages that this tile empties and that will be filled again */

    __device__ multicast_release(const multicast_layout &layout, const multicast_block &block, int count)
        : tiles(count) {
        const int thread = int(threadIdx.x) % WARPGROUP, beside = thread - layout.down;
        signals = beside < layout.across - 1;
        target = uint32_t(beside < 0 ? block.rank_at(layout, thread, block.across)
                                     : block.rank_at(layout, block.down, beside + (beside >= block.across)));
        compute_here(target);
    }
    /* Begins a tile of `steps` steps. */
    __device__ void begin(int steps, int stages) {
        const int64_t remaining = int64_t(tiles--) * steps - stages;
        in_tile = signals ? int(max(int64_t(0), min(remaining, int64_t(steps)))) : 0;
    }
    /* Releases the stage whose barrier is `empty`. */
    __device__ void operator()(uint64_t *empty) {
        if (in_tile-- > 0) mbarrier_arrive(empty, target);
    }
};

/* ---- k cut over the blocks of a cluster -------------------------------------------------------------------------- */

/* The shared memory in which sums of the other pieces arrive: [units][other pieces][consumers][2][threads of a
 * consumer]. The columns of a tile are dealt to the pieces in groups of 16 (multicast_columns); a block adds its
 * own. */
template <typename SHAPE> struct multicast_landing {
    static constexpr int UNITS = SHAPE::COLUMNS / 16, EACH = 2 * WARPGROUP, BYTES = EACH * int(sizeof(float4));
    float4 *at;
    int pieces;

    __device__ float4 *address(const multicast_columns &columns16, int from) const {
        return at + (columns16.index * (pieces - 1) + from - (from > columns16.owner)) * SHAPE::CONSUMERS * EACH;
    }
    /* The bytes that arrive for one consumer of piece number `piece`. */
    __device__ static int bytes(int pieces, int piece) {
        return (UNITS - piece + pieces - 1) / pieces * (pieces - 1) * BYTES;
    }
};

/* Adds up a tile whose k was cut. A block stores the sums of columns that belong to other pieces in its own shared
 * memory, in `staging`, and copies them into the `landings` of the blocks that do these pieces. It adds the sums of its
 * own columns in the order of the pieces, so that every run gives the same bits. */
template <typename SHAPE>
__device__ inline void multicast_exchange(const multicast_owner &owns, uint32_t peer, uint32_t sharing,
                                          multicast_ring &ring, const multicast_staging &staging, uint8_t *landings,
                                          float (&sum)[SHAPE::COLUMNS / 2]) {
    using landing = multicast_landing<SHAPE>;
    const int thread = int(threadIdx.x) % WARPGROUP, consumer = int(threadIdx.x) / WARPGROUP;
    const landing land = {reinterpret_cast<float4 *>(landings) + consumer * landing::EACH, owns.pieces};
    const auto outgoing = [&](int i) {
        return reinterpret_cast<float4 *>(staging.slab + i / 2 * staging.stride + i % 2 * landing::BYTES);
    };
    multicast_columns columns16;
#pragma unroll
    for (int i = 0; i < landing::UNITS; i++, columns16.advance(owns.pieces)) {
        if (columns16.owner == owns.piece) continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float *const at = &sum[i * 8 + j * 4];
            outgoing(i)[j * WARPGROUP + thread] = make_float4(at[0], at[1], at[2], at[3]);
        }
    }
    tma_store_fence();
    warpgroup_sync(1 + consumer);
    if (thread < 32 && elect_one()) {
        columns16 = {};
#pragma unroll 1
        for (int i = 0; i < landing::UNITS; i++, columns16.advance(owns.pieces))
            if (columns16.owner != owns.piece)
                shared_copy(land.address(columns16, owns.piece), outgoing(i), landing::BYTES, &ring.landed[consumer],
                            peer + uint32_t(columns16.owner) * sharing);
    }
    __syncwarp();
    if (owns.piece < landing::UNITS) mbarrier_wait(&ring.landed[consumer], 0);
    if (thread < owns.pieces) mbarrier_arrive(&ring.taken, peer + uint32_t(thread) * sharing);
    columns16 = {};
#pragma unroll
    for (int i = 0; i < landing::UNITS; i++, columns16.advance(owns.pieces)) {
        if (columns16.owner != owns.piece) continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float *const at = &sum[i * 8 + j * 4];
            float4 all = make_float4(0, 0, 0, 0);
#pragma unroll 1
            for (int from = 0; from < owns.pieces; from++) {
                const float4 add = from == owns.piece ? make_float4(at[0], at[1], at[2], at[3])
                                                      : land.address(columns16, from)[j * WARPGROUP + thread];
                all = make_float4(all.x + add.x, all.y + add.y, all.z + add.z, all.w + add.w);
            }
            at[0] = all.x, at[1] = all.y, at[2] = all.z, at[3] = all.w;
        }
    }
}

#endif
