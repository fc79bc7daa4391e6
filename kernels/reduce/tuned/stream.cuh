/* stream.cuh - what the kernels of stream.cu share: layouts, counters, loads of 16 bytes, and how results are stored.
 *
 * A unit is what one load brings, 16 bytes of neighbouring elements (8 of the 1-byte types). Each lane of a thread
 * takes one element of every unit. A batch is the units that a thread loads before it uses the first. A tile is what
 * one block, or several that are its splits, reduce. A step is a unit along the reduced axis or, in columns, a row. A
 * split takes a chunk of the steps; a block that finishes early takes pieces of the rest (stream.cu has a picture). */
#ifndef KERNELS_REDUCE_STREAM_CUH
#define KERNELS_REDUCE_STREAM_CUH

#include "lanes.cuh"
#include <cstring>

#define THREADS              256
#define BLOCKS               264          /* blocks that fill a GPU: 2 per multiprocessor */
#define MAX_SPLIT_TILES      (BLOCKS / 2) /* tiles that are split */
#define MIN_SPLIT_STEPS      32           /* the fewest steps of a split */
#define MAX_CLUSTER          8            /* blocks that can read each other's shared memory */
#define MIN_PIECE_BATCHES    4            /* the fewest batches of a thread in a piece */
#define MAX_PIECES_PER_BLOCK 8            /* the most pieces of a tile, divided by its splits */
#define MIN_CHUNK_BATCHES    32           /* a thread's batches in a chunk of which a part is cut into pieces */
#define MIN_GLUED_BYTES      (100 << 20)  /* input whose rows are glued: below 122 MB the second launch costs more */
#define MIN_PARTIAL_BYTES    4096 /* input per partial result of glued rows, which is 16 bytes, written and read */

/* The elements of a load. */
template <typename T> constexpr int lanes_of = sizeof(T) == 1 ? 8 : 16 / int(sizeof(T));
/* A thread's loads in flight: up to 64 values in registers, 32 if values must be unpacked. */
template <typename T> constexpr int batch_of = sizeof(T) <= 2 ? 4 : 8;
/* Blocks per multiprocessor, as registers permit: the compiler needs more registers for 8.0. */
template <typename L> constexpr int long_resident = 2;
template <typename L, bool RAGGED>
constexpr int column_resident = sizeof(typename L::element_type) == 4 && !RAGGED ? 3 : 2;
template <typename T> constexpr int column_resident<float_product_of<T>, false> = 2;
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
template <typename L> constexpr int short_resident = 3;
template <> constexpr int long_resident<float_product_of<__half>> = 1;
template <> constexpr int long_resident<float_product_of<__nv_bfloat16>> = 1;
#else
template <typename L> constexpr int short_resident = sizeof(typename L::element_type) == 4 ? 4 : 3;
#endif
template <typename T> constexpr int short_resident<position_lane<T>> = 3;
template <typename T> constexpr int short_resident<float_product_of<T>> = 2;
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
template <typename T> constexpr int short_resident<spread_lane<T>> = 1;
template <typename T> constexpr int short_resident<exact_spread_lane<T>> = 1;
template <typename T> constexpr int long_resident<spread_lane<T>> = 1;
template <typename T> constexpr int long_resident<exact_spread_lane<T>> = 1;
#else
template <typename T> constexpr int short_resident<spread_lane<T>> = 2;
template <typename T> constexpr int short_resident<exact_spread_lane<T>> = 2;
#endif
template <typename T> constexpr int short_resident<counted_total_lane<T>> = 2;
template <typename T> constexpr int short_resident<number_position_lane<T>> = 3;
template <typename T, bool RAGGED>
constexpr int column_resident<spread_lane<T>, RAGGED> = sizeof(T) == 2 || RAGGED ? 1 : long_resident<spread_lane<T>>;
template <typename T, bool RAGGED>
constexpr int column_resident<exact_spread_lane<T>, RAGGED> = RAGGED ? 1 : long_resident<exact_spread_lane<T>>;
template <typename T> constexpr int column_resident<counted_total_lane<T>, false> = 2;

/* How a launch is divided (stream_launch.cuh has an example). */
struct stream_layout {
    int groups, rows, columns; /* of a block; their product is THREADS */
    int splits;                /* blocks that share a tile */
    bool clustered;            /* these blocks are a cluster */
    int64_t chunk;             /* steps per split */
    int64_t piece;             /* steps per piece; 0: there are no pieces */
    int pieces;                /* number of pieces per tile */
    int64_t column_tiles, tiles;
};

/* The number of a block's tile and split, and where the tile begins. */
struct stream_block {
    int64_t tile, outer_tile, first_column;
    int split;
};

/* This block's; its tile is layout.tiles or more in blocks that have none (grid_of). */
__device__ inline stream_block this_block(const stream_layout &layout) {
    const int64_t number = block_number();
    const int64_t tile = layout.splits == 1 ? number : quotient(number, layout.splits);
    const int64_t outer_tile = quotient(tile, layout.column_tiles);
    return {tile, outer_tile, (tile - outer_tile * layout.column_tiles) * layout.columns,
            int(number - tile * layout.splits)};
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

/* The counters of a tile that several blocks share. All zero before and after every launch. */
struct stream_counters {
    unsigned finished; /* number of blocks that have finished */
    unsigned pieces;   /* number of pieces that were drawn */
};

/* Does a lane count its elements? It counts from the start of a chunk or piece, at whose end it must be finished. */
template <typename L> constexpr bool counts_elements = false;
template <typename T> constexpr bool counts_elements<position_lane<T>> = true;
template <typename T> constexpr bool counts_elements<number_position_lane<T>> = true;

/* Thread 0 draws the number of the next piece while the block reads the one before. */
__device__ inline unsigned draw_piece(const stream_layout &layout, stream_counters *counters) {
    return layout.piece > 0 && threadIdx.x == 0 ? atomicAdd(&counters->pieces, 1) : 0;
}

/* Returns in every thread the piece that thread 0 has drawn. */
__device__ inline int piece_drawn(unsigned drawn) {
    __shared__ int piece;
    __syncthreads();
    if (threadIdx.x == 0) piece = int(drawn);
    __syncthreads();
    return piece;
}

/* The first step of a piece. */
__device__ inline int64_t begin_of_piece(const stream_layout &layout, int piece) {
    return layout.splits * layout.chunk + piece * layout.piece;
}

/* Is this the last of a tile's blocks to finish? Resets the counters for the next launch if so. */
__device__ inline bool is_last_block(const stream_layout &layout, stream_counters *counters) {
    if (!last_block(&counters->finished, layout.splits)) return false;
    if (threadIdx.x == 0) counters->pieces = 0;
    return true;
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

/* What one load brings. */
template <typename T, int LANES> struct alignas(LANES * sizeof(T)) unit_of { T x[LANES]; };

/* Loads a unit, without mirroring its elements: a loop that mirrored each unit would wait for it before it loads the
 * next. */
template <int LANES, typename T> __device__ inline unit_of<T, LANES> load_unit(const T *from) {
    unit_of<T, LANES> unit;
    if constexpr (sizeof unit == 16) {
        const uint4 bits = *reinterpret_cast<const uint4 *>(from);
        memcpy(&unit, &bits, sizeof unit);
    } else {
        unit = *reinterpret_cast<const unit_of<T, LANES> *>(from);
    }
    return unit;
}

/* Mirrors the elements of a batch of loads, if lane type L searches for mirrored elements. */
template <typename L, typename T, int LANES, int BATCH>
__device__ inline void mirror_units(unit_of<T, LANES> (&batch)[BATCH], uint64_t mirror) {
    if constexpr (mirrors<L>)
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if constexpr (sizeof batch[i] == 16) {
                uint4 bits;
                memcpy(&bits, &batch[i], sizeof bits);
                const auto low = static_cast<unsigned>(mirror), high = static_cast<unsigned>(mirror >> 32);
                bits.x ^= low, bits.y ^= high, bits.z ^= low, bits.w ^= high;
                memcpy(&batch[i], &bits, sizeof bits);
            } else {
#pragma unroll
                for (int j = 0; j < LANES; j++) batch[i].x[j] = mirrored(batch[i].x[j], mirror);
            }
        }
}

/* A unit that begins on any element, assembled from the two aligned units that it straddles. Both must lie in the
 * array. */
template <int LANES, typename T> __device__ inline unit_of<T, LANES> load_across(const T *from) {
    constexpr int WORDS = LANES * sizeof(T) / 4;
    const auto *const aligned =
        reinterpret_cast<const T *>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t(LANES * sizeof(T) - 1));
    const unit_of<T, LANES> first = load_unit<LANES>(aligned);
    const unit_of<T, LANES> second = load_unit<LANES>(aligned + LANES);
    const unsigned shift = unsigned(reinterpret_cast<uintptr_t>(from)) % (LANES * sizeof(T));
    unsigned word[2 * WORDS];
    memcpy(word, &first, sizeof first);
    memcpy(word + WORDS, &second, sizeof second);
#pragma unroll
    for (int by = WORDS / 2; by > 0; by /= 2)
        if (shift & (4 * by))
#pragma unroll
            for (int i = 0; i + by < 2 * WORDS; i++) word[i] = word[i + by];
    if constexpr (sizeof(T) < 4)
#pragma unroll
        for (int i = 0; i < WORDS; i++) word[i] = __funnelshift_r(word[i], word[i + 1], shift % 4 * 8);
    unit_of<T, LANES> unit;
    memcpy(&unit, word, sizeof unit);
    return unit;
}

/* Replaces the elements of a unit outside [low, high) by the neutral element. */
template <typename L, typename T, int LANES, typename I>
__device__ inline void keep_elements(unit_of<T, LANES> &unit, I low, I high) {
#pragma unroll
    for (int j = 0; j < LANES; j++)
        if (j < low || j >= high) unit.x[j] = L::neutral();
}

/* A unit of the first `count` elements from `from` on, filled up with elements that are neutral once they are mirrored.
 * A full unit is one load, unless it may begin on any element (RAGGED). */
template <typename L, int LANES, bool RAGGED = false, typename T = typename L::element_type>
__device__ inline unit_of<T, LANES> load_first(const T *from, int64_t count, uint64_t mirror) {
    if constexpr (!RAGGED)
        if (count >= LANES) return load_unit<LANES>(from);
    unit_of<T, LANES> unit;
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        unit.x[j] = mirrors<L> ? mirrored(L::neutral(), mirror) : L::neutral();
        if (j < count) unit.x[j] = from[j];
    }
    return unit;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* The result of an accumulator, mirrored back if it is a mirrored element. */
template <typename L, typename A>
__device__ inline auto result_of(const A &a, const reduce_args &args, double divisor, uint64_t mirror) {
    const typename A::result_type result = result_for(a, args, divisor);
    if constexpr (result_is_mirrored<L>)
        return quiet(mirrored(result, mirror));
    else
        return result;
}

/* Stores a thread's results evict-first: they are not read here, and memory is written in long bursts. */
template <typename R, int COUNT> __device__ inline void store_once(R *to, const R (&result)[COUNT]) {
    constexpr int BYTES = COUNT * int(sizeof(R));
    if constexpr (BYTES % 16 == 0) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            uint4 bits;
            memcpy(&bits, result + i * (COUNT * 16 / BYTES), sizeof bits);
            __stcs(reinterpret_cast<uint4 *>(to) + i, bits);
        }
    } else if constexpr (BYTES == 8) {
        unsigned long long bits;
        memcpy(&bits, result, sizeof bits);
        __stcs(reinterpret_cast<unsigned long long *>(to), bits);
    } else if constexpr (BYTES == 4) {
        unsigned bits;
        memcpy(&bits, result, sizeof bits);
        __stcs(reinterpret_cast<unsigned *>(to), bits);
    } else {
        static_assert(COUNT == 1, "a lane's results fill words");
        *to = result[0];
    }
}

/* Finishes LANES neighbours (or a single output): merges the states of earlier launches, then stores the results or, if
 * this is not the last launch, the states. */
template <typename L, typename A, int LANES>
__device__ inline void store_results(const reduce_args &args, int64_t output, A (&a)[LANES], double divisor,
                                     uint64_t mirror) {
    using R = typename A::result_type;
    if (!args.first)
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            A before = A::load(states_of<A>(args.state)[output + j]);
            before.merge(a[j]);
            a[j] = before;
        }
    if (!args.last) {
#pragma unroll
        for (int j = 0; j < LANES; j++) states_of<A>(args.state)[output + j] = a[j].save();
        return;
    }
    R result[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) result[j] = result_of<L>(a[j], args, divisor, mirror);
    store_once(static_cast<R *>(args.y) + output, result);
}

#endif
