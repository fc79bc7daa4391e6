/* multicast.cuh - the blocks of matmul/multicast.cu: where a block stands in its cluster, and the ring of stages that
 * the blocks of a cluster fill for each other.
 *
 *     down = 2, across = 2          B 0         B 1          block (i, j) copies half of A i, for its row of blocks,
 *                           A 0   (0, 0)      (0, 1)         and half of B j, for its column of blocks
 *                           A 1   (1, 0)      (1, 1)
 *
 * A stage is full when all copies into it have arrived, whoever made them. It is empty when the consumers of every
 * block that gets this block's copies have said so: down + across - 1 blocks. */
#ifndef KERNELS_MATMUL_MULTICAST_CUH
#define KERNELS_MATMUL_MULTICAST_CUH

#include "multicast_choice.cuh"
#include "multicast_store.cuh"

/* A block's shape. Its threads: a warpgroup for each 64 rows, the consumers, and a warp whose first thread copies. */
template <size_t TILE> struct multicast_shape {
    static constexpr int ROWS = multicast_tiles[TILE].rows, COLUMNS = multicast_tiles[TILE].columns;
    static constexpr int BLOCKS = multicast_tiles[TILE].blocks; /* per multiprocessor, at most */
    static constexpr int PIECES = multicast_tiles[TILE].most_pieces();
    static constexpr int CONSUMERS = ROWS / 64, THREADS = CONSUMERS * WARPGROUP + 32;
    static constexpr int A_BYTES = ROWS * 128;
    template <bool B_MN> static constexpr int B_SLABS = B_MN ? (COLUMNS + 63) / 64 : 1; /* copied one by one */
    template <bool B_MN> static constexpr int B_BYTES = B_MN ? B_SLABS<true> *SLAB_BYTES : COLUMNS * 128;
};

/* How a launch is laid out. */
struct multicast_layout {
    int stages;
    int down, across, pieces; /* blocks of a cluster: down * across * pieces; powers of 2 */
    int rows, columns;        /* of C, in tiles of clusters */
    int clusters;             /* tiles of clusters in all */
    int a_lines, b_lines;     /* of an operand's tile, copied by one block: rows of 128 bytes */
    enum multicast_out out;
};

struct multicast_ring {
    uint64_t full[MULTICAST_STAGES], empty[MULTICAST_STAGES];
    uint64_t ready[MULTICAST_PIECES]; /* has the block of this piece read all its stages? */
    uint64_t landed[2];               /* have the other pieces' sums come, for a consumer? */
};

/* A thread's position in the ring, of `stages` (tma.cuh: ring_position, where their number is known to the compiler).
 */
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

/* x / y, where y is a power of 2. (A division takes a hundred cycles.) */
__device__ inline int shared_out(int x, int y) {
    return x >> (31 - __clz(y));
}

/* A block's place: in its cluster, and along k. */
struct multicast_place {
    int down = 0, across = 0, piece = 0;
    int first = 0;  /* rank of the first block of the same piece */
    int begin, end; /* of k, in steps */

    __device__ multicast_place(const multicast_layout &layout, int64_t k) {
        const int sharing = layout.down * layout.across, size = sharing * layout.pieces;
        if (size > 1) {
            const int rank = int(cluster_rank());
            piece = shared_out(rank, sharing);
            first = piece * sharing;
            across = shared_out(rank - first, layout.down);
            down = rank - first - across * layout.down;
        }
        const int steps = int((k + TILE_K - 1) / TILE_K), each = shared_out(steps + layout.pieces - 1, layout.pieces);
        begin = min(each * piece, steps);
        end = min(begin + each, steps);
    }
    __device__ int rank_at(const multicast_layout &layout, int at_down, int at_across) const {
        return first + at_across * layout.down + at_down;
    }
    /* Of the blocks that share A with this one, and of those that share B: a bit for each rank. */
    __device__ uint16_t row_of_blocks(const multicast_layout &layout) const {
        uint32_t bits = 0;
        for (int i = 0; i < layout.across; i++) bits |= 1u << rank_at(layout, down, i);
        return uint16_t(bits);
    }
    __device__ uint16_t column_of_blocks(const multicast_layout &layout) const {
        return uint16_t(((1u << layout.down) - 1) << rank_at(layout, 0, across));
    }
};

/* This block's part of the cluster's tile `number`. Clusters walk down bands of 8 tiles, so that clusters running at
 * the same time share operands in L2. */
template <typename SHAPE>
__device__ inline multicast_tile multicast_tile_of(const multicast_layout &layout, const multicast_place &place,
                                                   int number) {
    const int each = layout.rows * layout.columns, batch = number < each ? 0 : number / each, band = 8;
    const int in_matrix = number - batch * each;
    const int first = in_matrix < band * layout.columns ? 0 : in_matrix / (band * layout.columns) * band;
    const int tall = min(band, layout.rows - first), in_band = in_matrix - first * layout.columns;
    const int column = tall == band ? in_band / band
                       : tall == 1  ? in_band
                                    : in_band / tall,
              row = first + in_band - column * tall;
    return {batch, int64_t(row * layout.down + place.down) * SHAPE::ROWS,
            int64_t(column * layout.across + place.across) * SHAPE::COLUMNS};
}

/* How many boxes of an operand's tile are copied, where `left` of m or n are left from its first line on. Tiles that
 * lie largely beyond the operand's end were slower than their bytes explain: it seems that a line that the copy engine
 * makes of zeros takes it several times as long as another. So boxes of nothing but zeros are left out, and what is
 * then in the stage multiplies into sums that are not stored. */
template <int BOXES, bool MN> __device__ inline int multicast_boxes(int left) {
    return left <= 0 ? 0 : MN ? min(BOXES, (left + 63) / 64) : 1;
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

/* What is copied for a tile of C. */
template <typename SHAPE, bool A_MN, bool B_MN> struct multicast_source {
    static constexpr int A_BOXES = A_MN ? SHAPE::CONSUMERS : 1, B_BOXES = SHAPE::template B_SLABS<B_MN>;
    int row, column, a_matrix, b_matrix, a_boxes, b_boxes;

    __device__ multicast_source(const matmul_args &args, const multicast_layout &layout, const multicast_place &place,
                                int number) {
        const multicast_tile tile = multicast_tile_of<SHAPE>(layout, place, number);
        row = int(tile.row), column = int(tile.column);
        a_matrix = args.a_batch_stride ? int(tile.batch) : 0;
        b_matrix = args.b_batch_stride ? int(tile.batch) : 0;
        a_boxes = multicast_boxes<A_BOXES, A_MN>(int(args.m) - row);
        b_boxes = multicast_boxes<B_BOXES, B_MN>(int(args.n) - column);
    }
};

/* The copying thread keeps the ring full. Of each operand it copies a share of the tile's lines: rows of 128 bytes, of
 * m or n where the operand lies along k, else of k. */
template <typename SHAPE, bool A_MN, bool B_MN>
__device__ inline void multicast_produce(const matmul_args &args, const multicast_layout &layout,
                                         const multicast_place &place, const CUtensorMap *a_map,
                                         const CUtensorMap *b_map, multicast_ring &ring, uint8_t *stages, int first,
                                         int clusters) {
    constexpr int BYTES = SHAPE::A_BYTES + SHAPE::template B_BYTES<B_MN>;
    using source = multicast_source<SHAPE, A_MN, B_MN>;
    uint32_t a_blocks = place.row_of_blocks(layout), b_blocks = place.column_of_blocks(layout);
    int a_line = layout.a_lines * place.across, a_box = layout.a_lines * layout.across * 128;
    int b_line = layout.b_lines * place.down, b_box = layout.b_lines * layout.down * 128;
    source of(args, layout, place, first);
    computed(a_blocks, b_blocks, a_line, a_box, b_line, b_box, of.row, of.column, of.a_matrix, of.b_matrix, of.a_boxes,
             of.b_boxes);
    launch_wait();
    launch_next();
    multicast_position at;
    bool again = false; /* has the ring been round once? before that, stages are empty */
    for (int number = first; number < layout.clusters; number += clusters) {
        if (number > first) of = source(args, layout, place, number);
        for (int step = place.begin; step < place.end; step++) {
            uint8_t *const a = stages + at.stage * BYTES, *const b = a + SHAPE::A_BYTES;
            uint64_t *const full = &ring.full[at.stage];
            const int k = step * TILE_K;
            if (again) mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);
            mbarrier_expect(full, of.a_boxes * a_box + of.b_boxes * b_box);
            multicast_copy<source::A_BOXES>(a_map, a + a_line * 128, full, A_MN ? of.row : k,
                                            A_MN ? k + a_line : of.row + a_line, of.a_matrix, of.a_boxes,
                                            layout.across > 1, uint16_t(a_blocks));
            multicast_copy<source::B_BOXES>(b_map, b + b_line * 128, full, B_MN ? of.column : k,
                                            B_MN ? k + b_line : of.column + b_line, of.b_matrix, of.b_boxes,
                                            layout.down > 1, uint16_t(b_blocks));
            at.advance(layout.stages);
            again = again || at.stage == 0;
        }
    }
}

/* A consumer's word to those who copy into a stage: it has been read. Nobody says so of a stage that will not be filled
 * again. So all that is said to a block is waited for by its copying thread, and a block may end without waiting for
 * the others of its cluster. */
struct multicast_release {
    bool tells;
    uint32_t whom;
    int64_t left; /* stages of this block that are still to be filled when the ring is full for the first time */

    __device__ multicast_release(const multicast_layout &layout, const multicast_place &place, int64_t total)
        : left(total - layout.stages) {
        const int thread = int(threadIdx.x) % WARPGROUP, beside = thread - layout.down;
        tells = beside < layout.across - 1;
        whom = uint32_t(beside < 0 ? place.rank_at(layout, thread, place.across)
                                   : place.rank_at(layout, place.down, beside + (beside >= place.across)));
    }
    __device__ void operator()(uint64_t *empty) {
        if (left-- > 0 && tells) mbarrier_arrive(empty, whom);
    }
};

/* ---- k cut over the blocks of a cluster -------------------------------------------------------------------------- */

/* Where the sums of others land that a block adds up: [its units of 16 columns][other pieces][consumers][2][thread of a
 * consumer]. */
template <typename SHAPE> struct multicast_landing {
    static constexpr int UNITS = SHAPE::COLUMNS / 16, EACH = 2 * WARPGROUP;

    __host__ __device__ static constexpr int owned(int pieces, int piece) {
        return (UNITS - piece + pieces - 1) / pieces;
    }
    /* What a consumer of this piece gets. */
    __host__ __device__ static constexpr int bytes(int pieces, int piece) {
        return owned(pieces, piece) * (pieces - 1) * EACH * int(sizeof(float4));
    }
};

/* Adds up a tile whose k was cut. A block sends the units that belong to others into their stages, once they have said
 * that these are read, and adds what it gets to its own: pieces in order, the same bits every run. Each thread sends to
 * the one in its place. */
template <typename SHAPE>
__device__ inline void multicast_exchange(const multicast_owner &owns, multicast_ring &ring, uint8_t *stages,
                                          float (&sum)[SHAPE::COLUMNS / 2]) {
    constexpr int UNITS = multicast_landing<SHAPE>::UNITS, EACH = multicast_landing<SHAPE>::EACH;
    const int thread = int(threadIdx.x) % WARPGROUP, consumer = int(threadIdx.x) / WARPGROUP;
    const int pieces = owns.pieces, piece = owns.piece;
    float4 *const landing = reinterpret_cast<float4 *>(stages) + consumer * EACH + thread;
    const auto place = [&](int unit, int from, int owner) {
        return landing + (unit / pieces * (pieces - 1) + from - (from > owner)) * SHAPE::CONSUMERS * EACH;
    };
    if (piece < UNITS && thread < pieces && thread != piece) mbarrier_arrive(&ring.ready[piece], uint32_t(thread));
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        if (owns(unit)) continue;
        const int owner = unit & (pieces - 1);
        mbarrier_wait(&ring.ready[owner], 0);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float *const at = &sum[unit * 8 + j * 4];
            shared_store(place(unit, piece, owner) + j * WARPGROUP, make_float4(at[0], at[1], at[2], at[3]),
                         &ring.landed[consumer], uint32_t(owner));
        }
    }
    if (piece < UNITS) mbarrier_wait_stores(&ring.landed[consumer], 0);
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        if (!owns(unit)) continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float *const at = &sum[unit * 8 + j * 4];
            float4 all = make_float4(0, 0, 0, 0);
#pragma unroll 1
            for (int from = 0; from < pieces; from++) {
                const float4 add =
                    from == piece ? make_float4(at[0], at[1], at[2], at[3]) : place(unit, from, piece)[j * WARPGROUP];
                all = make_float4(all.x + add.x, all.y + add.y, all.z + add.z, all.w + add.w);
            }
            at[0] = all.x, at[1] = all.y, at[2] = all.z, at[3] = all.w;
        }
    }
}

#endif
