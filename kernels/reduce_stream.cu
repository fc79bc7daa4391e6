/* reduce_stream.cu - wide loads, many in flight, and sums whose order does not matter: reduction at the memory's speed.
 *
 *     a lane for each element of 16 bytes             x[length][inner], one output a lane
 *     +----+----+----+----+                           (or inner 1: lanes of a thread merge at the end)
 *     | l0 | l1 | l2 | l3 |  step s
 *     +----+----+----+----+                           8 such loads are under way before the first is used:
 *     | l0 | l1 | l2 | l3 |  step s + rows            128 bytes a thread, 64 KiB a multiprocessor; 40 KiB would
 *     +----+----+----+----+                           hide the memory's latency at 4.8 TB/s
 *       :    :    :    :     8 steps: a batch
 *
 * reduce_shuffle.cu widens only contiguous rows, has 4 loads in flight, and converts every element to double before it
 * adds or compares. Here every shape is read 16 bytes at a time (8 of the 1-byte types, so that lanes fit in
 * registers), and a lane works in as narrow a type as is right: max of float32 compares float32. Sums are the
 * exception: they are kept in two doubles (reduce_lanes.cuh), so that their order does not matter. A fixed order would
 * have to fix tiles too, and those follow the memory budget; this way any tiles, splits and GPU give the same bits, and
 * offset and state need no granule. Adding each float32 to two doubles would cost 2 % at full speed (7 additions an
 * element, on a pipe half as wide as float32's); batches of 8 are added in one double first, exactly where their
 * exponents lie within 26 of each other, and cost nothing.
 *
 * A block is an array [groups][rows][columns] over (outer, length, inner), as in reduce.cuh, columns counting loads.
 * Each of several blocks that share outputs takes a chunk of the reduced axis: chunks are read 1 to 2 % faster than
 * interleaved steps, and 264 blocks (2 on each of 132 multiprocessors, all at once) faster than more. The last block
 * to finish merges what the others left. Three kinds of shape:
 *     inner 1, long rows         threads of a row side by side. Loads are aligned; the first and last of a row hold
 *                                elements of its neighbours, which are set to what changes nothing
 *     inner 1, up to 256 loads   a kernel of its own: a thread holds 8 loads of up to 8 rows. Of two threads that
 *                                hold the same rows each takes over half of them, so that 8 rows of 4 threads take 6
 *                                merges a thread, not 16. So short a row is summed in one double
 *     columns                    lanes are outputs; where a row is no whole number of loads, a unit is put together out
 *                                of the two aligned ones that it lies across, the second of which a neighbour reads too
 *
 * Few blocks in all, up to 8, are a cluster where the GPU has clusters: the first block reads what the others have
 * found out of their shared memory, without a ticket and a way through global memory, 0.9 us less.
 *
 * Loads are plain. Marked to leave the cache first (ld.global.cs) they run 6 % slower while the cache is full of what
 * somebody else wrote: the streaming data then has but a few ways of it.
 *
 * Measured on the H200, float32, TB/s of input and output, launched over and over (4 GiB are 70 times the cache):
 *     2^30       sum 4.53
 *     sum of     32768^2   2^26 x 16   16 x 2^26   1000003 x 1021
 *       rows      4.55      4.28        4.52        4.51
 *       columns   4.49      4.50        4.39        4.18
 *     2^16 in 4.6 us where an empty kernel takes 2.6, 2^20 in 5.8
 * with loads marked so, which is what the plain ones are yet to be measured against. What holds it back: with 16 inputs
 * to an output the memory turns between reading and writing; unaligned columns read each unit twice out of the first
 * cache. */
#include "reduce.cuh"
#include "reduce_lanes.cuh"
#include <cstring>

#define THREADS     256
#define BLOCKS      264          /* that fill a GPU: 2 on each multiprocessor */
#define TICKETS     (BLOCKS / 2) /* tiles that may be split */
#define LEAST_STEPS 32           /* of a split */
#define CLUSTER     8            /* blocks that can hand results to each other directly */

/* Elements of a load; loads in flight: up to 64 values in registers, 32 where they have to be unpacked. */
template <typename T> constexpr int lanes_of = sizeof(T) == 1 ? 8 : 16 / int(sizeof(T));
template <typename T> constexpr int batch_of = sizeof(T) <= 2 ? 4 : 8;
/* Blocks on a multiprocessor, as far as registers go round. */
template <typename T> constexpr int long_resident = 2;
template <typename T, bool RAGGED> constexpr int column_resident = sizeof(T) == 4 && !RAGGED ? 3 : 2;
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
template <typename L> constexpr int short_resident = 3;
#else
template <typename L> constexpr int short_resident = sizeof(typename L::element_type) == 4 ? 4 : 3;
#endif
template <typename T> constexpr int short_resident<position_lane<T>> = 3;

struct stream_layout {
    int groups, rows, columns; /* of a block; their product is THREADS */
    int splits;                /* blocks that share a tile */
    bool clustered;            /* these blocks are a cluster */
    int64_t chunk;             /* steps of a split */
    int64_t column_tiles, tiles;
};

/* What a block is to do. */
struct stream_place {
    int64_t tile, outer_tile, first_column;
    int split;
};

__device__ inline stream_place place_of_block(const stream_layout &layout) {
    const int64_t number = block_number();
    const int64_t tile = layout.splits == 1 ? number : quotient(number, layout.splits);
    const int64_t outer_tile = quotient(tile, layout.column_tiles);
    return {tile, outer_tile, (tile - outer_tile * layout.column_tiles) * layout.columns,
            int(number - tile * layout.splits)};
}

/* ---- loads --------------------------------------------------------------------------------------------------------
 */

template <typename T, int LANES> struct alignas(LANES * sizeof(T)) unit_of { T x[LANES]; };

/* A whole unit, mirrored where L wants that. */
template <typename L, int LANES, typename T = typename L::element_type>
__device__ inline unit_of<T, LANES> load_unit(const T *from, uint64_t mirror) {
    unit_of<T, LANES> unit;
    if constexpr (sizeof unit == 16) {
        uint4 bits = *reinterpret_cast<const uint4 *>(from);
        if constexpr (mirrors<L>) {
            const auto low = static_cast<unsigned>(mirror), high = static_cast<unsigned>(mirror >> 32);
            bits.x ^= low, bits.y ^= high, bits.z ^= low, bits.w ^= high;
        }
        memcpy(&unit, &bits, sizeof unit);
    } else {
        unit = *reinterpret_cast<const unit_of<T, LANES> *>(from);
        if constexpr (mirrors<L>)
#pragma unroll
            for (int j = 0; j < LANES; j++) unit.x[j] = mirrored(unit.x[j], mirror);
    }
    return unit;
}

/* A unit that begins on any element: out of the two whole ones that it lies across. Both must lie in the array. */
template <typename L, int LANES, typename T = typename L::element_type>
__device__ inline unit_of<T, LANES> load_across(const T *from, uint64_t mirror) {
    constexpr int WORDS = LANES * sizeof(T) / 4;
    const auto *const aligned =
        reinterpret_cast<const T *>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t(LANES * sizeof(T) - 1));
    const unit_of<T, LANES> first = load_unit<L, LANES>(aligned, mirror);
    const unit_of<T, LANES> second = load_unit<L, LANES>(aligned + LANES, mirror);
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

/* Sets the elements of a unit outside [low, high) to what changes nothing. */
template <typename L, typename T, int LANES, typename I>
__device__ inline void keep_part(unit_of<T, LANES> &unit, I low, I high) {
#pragma unroll
    for (int j = 0; j < LANES; j++)
        if (j < low || j >= high) unit.x[j] = L::neutral();
}

/* The first `count` elements of a unit; a whole one is read at once, unless it may begin on any element. */
template <typename L, int LANES, bool RAGGED = false, typename T = typename L::element_type>
__device__ inline unit_of<T, LANES> load_first(const T *from, int64_t count, uint64_t mirror) {
    if constexpr (!RAGGED)
        if (count >= LANES) return load_unit<L, LANES>(from, mirror);
    unit_of<T, LANES> unit;
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        unit.x[j] = L::neutral();
        if (j < count) unit.x[j] = mirrors<L> ? mirrored(from[j], mirror) : from[j];
    }
    return unit;
}

/* ---- results ------------------------------------------------------------------------------------------------------
 */

template <typename L, typename A> __device__ inline auto result_of(const A &a, double divisor, uint64_t mirror) {
    const typename A::result_type result = a.result(divisor);
    if constexpr (std::is_same_v<L, extreme_lane<typename L::element_type>>)
        return mirrored(result, mirror);
    else
        return result;
}

/* Results are written once and read by nobody here: they leave the cache first, so that writes come in runs. */
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

/* Of LANES neighbours, or of one of them alone: merged with what earlier launches found, saved or finished. */
template <typename L, typename A, int LANES>
__device__ inline void store_results(const reduce_args &args, int64_t output, A (&a)[LANES], double divisor,
                                     uint64_t mirror) {
    using R = typename A::result_type;
    if (!args.first)
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            A before = A::load(args.state[output + j]);
            before.merge(a[j]);
            a[j] = before;
        }
    if (!args.last) {
#pragma unroll
        for (int j = 0; j < LANES; j++) args.state[output + j] = a[j].save();
        return;
    }
    R result[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) result[j] = result_of<L>(a[j], divisor, mirror);
    store_once(static_cast<R *>(args.y) + output, result);
}

/* ---- long rows ----------------------------------------------------------------------------------------------------
 */

/* What the threads of each of a block's groups hold, at their first. No branches, so that the next level's shuffle
 * overtakes this level's error terms: neutral values stand in for those not wanted. */
template <typename A> __device__ inline A combine_rows(A a, int rows) {
    constexpr int WARPS = THREADS / 32;
    __shared__ A of_warp[WARPS];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) a.merge(a.shuffle_down(lanes));
    if (rows == 32) return a;

    const int warp = int(threadIdx.x) / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[warp] = a;
    __syncthreads();
    if (threadIdx.x % 32 != 0) return a;
#pragma unroll
    for (int i = 1; i < WARPS; i++) a.merge(i < rows / 32 ? of_warp[(warp + i) % WARPS] : A::identity());
    return a;
}

#if __CUDA_ARCH__ >= 900
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Where a variable in shared memory lies in block `rank` of the cluster. */
template <typename A> __device__ inline const A *in_block(const A *mine, int rank) {
    const A *its;
    asm("mapa.u64 %0, %1, %2;" : "=l"(its) : "l"(mine), "r"(rank));
    return its;
}
#endif

/* What the blocks of a cluster hold, at the first threads of the first block. */
template <typename A> __device__ inline A combine_cluster(A a, const stream_layout &layout, int split) {
#if __CUDA_ARCH__ >= 900
    __shared__ A of_group[THREADS / 32];
    const int row = int(threadIdx.x) % layout.rows, group = int(threadIdx.x) / layout.rows;
    if (row == 0) of_group[group] = a;
    cluster_barrier();
    a = A::identity();
    if (split == 0 && row < layout.splits) a = *in_block(&of_group[group], row);
    cluster_barrier(); /* no block may go before it has been read */
#pragma unroll
    for (int lanes = CLUSTER / 2; lanes > 0; lanes /= 2) a.merge(a.shuffle_down(lanes));
#endif
    return a;
}

/* A thread's own elements of a long row. */
template <typename L, int LANES>
__device__ inline accumulator_of<L> gather_row(const reduce_args &args, const stream_layout &layout, int64_t o,
                                               int64_t first, int64_t end, uint64_t mirror) {
    using T = typename L::element_type;
    using A = accumulator_of<L>;
    constexpr int BATCH = batch_of<T>;
    /* Unit s holds elements s * LANES - before and on of the row, neighbours' beyond its ends. */
    const int64_t begin = o * args.length, before = begin % LANES, step = layout.rows;
    const int64_t whole_from = before > 0, whole_to = (before + args.length) / LANES;
    const int64_t elements = args.outer * args.length - (begin - before);
    const T *const x = static_cast<const T *>(args.x) + begin - before;

    L lane[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) lane[j] = L::identity();
    unsigned count = 0;
    for (int64_t s = first; s < end; s += BATCH * step, count += BATCH) {
        const T *const from = x + s * LANES;
        const int64_t last = s + (BATCH - 1) * step;
        unit_of<T, LANES> batch[BATCH];
        if (last < end && s >= whole_from && last < whole_to) {
#pragma unroll
            for (int i = 0; i < BATCH; i++) batch[i] = load_unit<L, LANES>(from + i * step * LANES, mirror);
        } else {
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int64_t at = s + i * step;
                batch[i] = load_first<L, LANES>(from + i * step * LANES, at < end ? elements - at * LANES : 0, mirror);
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int64_t low = before - (s + i * step) * LANES;
                keep_part<L>(batch[i], low, low + args.length);
            }
        }
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            T taken[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++) taken[i] = batch[i].x[j];
            lane[j].take(taken, count);
        }
    }
    A a = lane[0].finish(first * LANES - before, step * LANES, args.length, args.offset);
#pragma unroll
    for (int j = 1; j < LANES; j++)
        a.merge(lane[j].finish(first * LANES + j - before, step * LANES, args.length, args.offset));
    return a;
}

template <typename L, int LANES>
__global__ void __launch_bounds__(THREADS, long_resident<typename L::element_type>)
    stream_long_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ stream_layout layout,
                       void *workspace, double divisor, uint64_t mirror) {
    using A = accumulator_of<L>;
    const stream_place place = place_of_block(layout);
    if (place.tile >= layout.tiles) return;
    const int row = int(threadIdx.x) % layout.rows;
    const int64_t o = place.outer_tile * layout.groups + int(threadIdx.x) / layout.rows;
    const bool inside = o < args.outer;
    const int64_t steps = (o * args.length % LANES + args.length + LANES - 1) / LANES;
    const int64_t first = place.split * layout.chunk + row, end = min(steps, (place.split + 1) * layout.chunk);

    A a[1] = {A::identity()};
    if (inside && first < end) a[0] = gather_row<L, LANES>(args, layout, o, first, end, mirror);
    a[0] = combine_rows(a[0], layout.rows);
    if (layout.clustered) {
        a[0] = combine_cluster(a[0], layout, place.split);
        if (place.split != 0) return;
    } else if (layout.splits > 1) {
        auto *tickets = static_cast<unsigned *>(workspace);
        auto *partial = reinterpret_cast<struct reduce_state *>(tickets + TICKETS);
        if (inside && row == 0) partial[place.split * args.outer + o] = a[0].save();
        if (!reduce_is_last(&tickets[place.tile], layout.splits)) return;
        a[0] = A::identity();
        if (inside)
            for (int s = row; s < layout.splits; s += layout.rows) a[0].merge(A::load(partial[s * args.outer + o]));
        a[0] = combine_rows(a[0], layout.rows);
    }
    if (inside && row == 0) store_results<L>(args, o, a, divisor, mirror);
}

/* ---- columns ------------------------------------------------------------------------------------------------------
 */

/* What the rows of a block hold, at row 0: a tree in shared memory, since shuffles of LANES values would be as many
 * times the code. */
template <typename A, int LANES> __device__ inline void combine_columns(A (&a)[LANES], int rows, int columns, int row) {
    if (rows == 1) return;
    __shared__ A slot[LANES][THREADS];
    const int thread = int(threadIdx.x);
#pragma unroll
    for (int j = 0; j < LANES; j++) slot[j][thread] = a[j];
    for (int s = rows / 2; s > 0; s /= 2) {
        __syncthreads();
        if (row < s)
#pragma unroll
            for (int j = 0; j < LANES; j++) slot[j][thread].merge(slot[j][thread + s * columns]);
    }
#pragma unroll
    for (int j = 0; j < LANES; j++) a[j] = slot[j][thread];
}

/* A thread's own elements of LANES neighbouring columns, from `x` on, of which `count` are there. RAGGED: rows begin on
 * any element; what is read beyond a row's end is never stored. `safe`: the first row whose units might lie across the
 * end of the array. */
template <typename L, int LANES, bool RAGGED>
__device__ inline void gather_columns(const typename L::element_type *x, int64_t inner, int count, int64_t first,
                                      int64_t step, int64_t end, int64_t safe, uint64_t mirror, L (&lane)[LANES]) {
    using T = typename L::element_type;
    constexpr int BATCH = batch_of<T>;
    unsigned taken = 0;
    const T *from = x + first * inner;
    for (int64_t s = first; s < end; s += BATCH * step, taken += BATCH, from += BATCH * step * inner) {
        unit_of<T, LANES> batch[BATCH];
        if (s + (BATCH - 1) * step < safe) {
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                if constexpr (RAGGED)
                    batch[i] = load_across<L, LANES>(from + i * step * inner, mirror);
                else
                    batch[i] = load_unit<L, LANES>(from + i * step * inner, mirror);
        } else {
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                batch[i] =
                    load_first<L, LANES, RAGGED>(from + i * step * inner, s + i * step < end ? count : 0, mirror);
        }
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            T column[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++) column[i] = batch[i].x[j];
            lane[j].take(column, taken);
        }
    }
}

/* As store_results, of the first `count` of LANES neighbours. */
template <bool RAGGED, typename L, typename A, int LANES>
__device__ inline void store_columns(const reduce_args &args, int64_t output, A (&a)[LANES], int count, double divisor,
                                     uint64_t mirror) {
    if constexpr (RAGGED) {
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            A one[1] = {a[j]};
            if (j < count) store_results<L>(args, output + j, one, divisor, mirror);
        }
    } else {
        store_results<L>(args, output, a, divisor, mirror);
    }
}

template <typename L, int LANES, bool RAGGED>
__global__ void __launch_bounds__(THREADS, column_resident<typename L::element_type, RAGGED>)
    stream_columns_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ stream_layout layout,
                          void *workspace, double divisor, uint64_t mirror) {
    using T = typename L::element_type;
    using A = accumulator_of<L>;
    const stream_place place = place_of_block(layout);
    if (place.tile >= layout.tiles) return;
    const int thread = int(threadIdx.x);
    const int column = thread % layout.columns, row = thread / layout.columns % layout.rows;
    const int64_t o = place.outer_tile * layout.groups + thread / (layout.columns * layout.rows);
    const int64_t c = (place.first_column + column) * LANES, output = o * args.inner + c;
    const bool inside = o < args.outer && c < args.inner;
    const int count = RAGGED ? int(min(int64_t(LANES), args.inner - c)) : LANES;
    const int64_t first = place.split * layout.chunk + row, end = min(args.length, (place.split + 1) * layout.chunk);
    /* The rows whose units cannot lie across the array's end; counted on, through the slices that follow. */
    const int64_t safe = RAGGED ? (args.outer - o) * args.length - 2 * LANES / args.inner - 1 : end;

    L lane[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) lane[j] = L::identity();
    const T *const x = static_cast<const T *>(args.x) + o * args.length * args.inner + c;
    if (inside)
        gather_columns<L, LANES, RAGGED>(x, args.inner, count, first, layout.rows, end, min(end, safe), mirror, lane);
    A a[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++)
        a[j] = inside && first < end ? lane[j].finish(first, layout.rows, args.length, args.offset) : A::identity();
    combine_columns(a, layout.rows, layout.columns, row);

    if (layout.splits > 1) {
        auto *tickets = static_cast<unsigned *>(workspace);
        auto *partial = reinterpret_cast<struct reduce_state *>(tickets + TICKETS);
        const int64_t outputs = args.outer * args.inner;
        if (inside && row == 0)
#pragma unroll
            for (int j = 0; j < LANES; j++)
                if (j < count) partial[place.split * outputs + output + j] = a[j].save();
        if (!reduce_is_last(&tickets[place.tile], layout.splits)) return;
#pragma unroll
        for (int j = 0; j < LANES; j++) a[j] = A::identity();
        if (inside)
            for (int s = row; s < layout.splits; s += layout.rows)
#pragma unroll
                for (int j = 0; j < LANES; j++)
                    if (j < count) a[j].merge(A::load(partial[s * outputs + output + j]));
        combine_columns(a, layout.rows, layout.columns, row);
    }
    if (inside && row == 0) store_columns<RAGGED, L>(args, output, a, count, divisor, mirror);
}

/* ---- short rows ---------------------------------------------------------------------------------------------------
 */

/* Threads to a row, and a thread's loads of one row, as a power of two. */
struct short_layout {
    int threads, loads_log;
};

template <typename L, int LANES>
__global__ void __launch_bounds__(THREADS, short_resident<L>)
    stream_short_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ short_layout layout,
                        double divisor, uint64_t mirror) {
    using T = typename L::element_type;
    using A = accumulator_of<L>;
    constexpr int BATCH = batch_of<T>;
    const int thread = int(threadIdx.x), column = thread % layout.threads;
    const int rows_per_pass = THREADS / layout.threads;
    const int loads = 1 << layout.loads_log, rows_each = BATCH >> layout.loads_log;
    const int64_t o0 = block_number() * rows_each * rows_per_pass + thread / layout.threads;
    const int length = int(args.length);
    const T *const x = static_cast<const T *>(args.x) + o0 * length;
    const int64_t apart = int64_t(rows_per_pass) * length, elements = (args.outer - o0) * length;
    const int phase = int(o0 * length % LANES), turn = int(apart % LANES);

    /* Units are read whole, neighbours' elements and all, unless they end beyond the array. */
    unit_of<T, LANES> batch[BATCH];
    int at[BATCH]; /* of a unit's first element in its row */
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        const int number = i >> layout.loads_log;
        at[i] = ((i & (loads - 1)) * layout.threads + column) * LANES - (phase + number * turn) % LANES;
        const int64_t start = number * apart + at[i];
        batch[i] = load_first<L, LANES>(x + start, at[i] < length ? elements - start : 0, mirror);
    }
    using part = decltype(part_of_row<L>(batch[0].x, 0, 0, 0));
    part a[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (at[i] < 0 || at[i] + LANES > length) keep_part<L>(batch[i], -at[i], length - at[i]);
        a[i] = part_of_row<L>(batch[i].x, at[i], length, args.offset);
    }
    /* A thread's units of a row; then a[0], a[1] ... are of different rows. */
#pragma unroll
    for (int rows = BATCH / 2; rows > 0; rows /= 2)
        if (rows >= rows_each)
#pragma unroll
            for (int i = 0; i < rows; i++) {
                a[i] = a[2 * i];
                a[i].merge(a[2 * i + 1]);
            }
    /* Of two threads with many rows each takes over half of them. */
    int lanes = layout.threads, row = 0;
#pragma unroll
    for (int rows = BATCH / 2; rows > 0; rows /= 2)
        if (rows < rows_each && lanes > 1) {
            lanes /= 2;
            const bool upper = column & lanes;
            row += upper ? rows : 0;
#pragma unroll
            for (int i = 0; i < rows; i++) {
                part kept = a[i], given = a[i + rows];
                if (upper) kept = a[i + rows], given = a[i];
                kept.merge(given.shuffle_xor(lanes));
                a[i] = kept;
            }
        }
    const int rows_left = max(rows_each / layout.threads, 1);
    for (int others = lanes / 2; others > 0; others /= 2) a[0].merge(a[0].shuffle_xor(others));
    if (column % lanes != 0) return;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        const int64_t o = o0 + (row + i) * rows_per_pass;
        if (i < rows_left && o < args.outer) {
            A one[1] = {whole_row(a[i])};
            store_results<L>(args, o, one, divisor, mirror);
        }
    }
}

/* ---- launches -----------------------------------------------------------------------------------------------------
 */

static stream_layout lay_out(const reduce_args &args, int lanes, int batch) {
    stream_layout layout = {};
    const bool along = args.inner == 1;
    const int64_t width = along ? 1 : ceil_div(args.inner, lanes);
    const int64_t steps = along ? ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes) : args.length;

    /* 1 KiB of a row where threads below take the next rows, else as much as there is; whole warps if that fits better.
     */
    layout.columns = power_of_two_up_to(width, steps <= 8 * batch ? THREADS : 64);
    if (ceil_div(width, 32) * 32 * 8 < ceil_div(width, layout.columns) * layout.columns * 7) layout.columns = 32;
    layout.column_tiles = ceil_div(width, layout.columns);

    /* 8 batches a thread, unless that leaves multiprocessors or threads idle. */
    const int most_rows = THREADS / layout.columns;
    const auto outer_tiles = [&] { return ceil_div(args.outer, most_rows / layout.rows); };
    layout.rows = std::max(power_of_two_up_to(ceil_div(steps, 8 * batch), most_rows), along ? 32 : 1);
    while (layout.rows < most_rows && layout.rows < steps &&
           (outer_tiles() * layout.column_tiles < BLOCKS || most_rows / layout.rows > args.outer))
        layout.rows *= 2;
    layout.groups = most_rows / layout.rows;
    layout.tiles = outer_tiles() * layout.column_tiles;

    layout.splits = 1;
    layout.chunk = std::max<int64_t>(steps, 1);
    const int64_t splits = std::min(BLOCKS / layout.tiles, steps / std::max(8 * layout.rows, LEAST_STEPS));
    if (splits > 1) {
        const int64_t grain = layout.rows * (steps / splits >= 4 * batch * layout.rows ? batch : 1);
        layout.chunk = ceil_div(ceil_div(steps, splits), grain) * grain;
        layout.splits = int(ceil_div(steps, layout.chunk));
    }
    return layout;
}

/* Was the kernel compiled for an architecture that has clusters, and is that what runs here? */
static bool has_clusters(const void *kernel) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

template <typename L, int LANES> static int launch_long(const struct launch *launch, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    const auto kernel = stream_long_kernel<L, LANES>;
    stream_layout layout = lay_out(args, LANES, batch_of<typename L::element_type>);
    layout.clustered = layout.splits > 1 && layout.splits <= CLUSTER && has_clusters((const void *)kernel);
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {unsigned(layout.splits), 1, 1};
    const cudaLaunchConfig_t config = {.gridDim = grid_of(layout.tiles * layout.splits),
                                       .blockDim = THREADS,
                                       .stream = stream_of(launch),
                                       .attrs = &cluster,
                                       .numAttrs = layout.clustered};
    return cudaLaunchKernelEx(&config, kernel, args, layout, launch->workspace, reduce_divisor(args), mirror);
}

template <typename L, int LANES, bool RAGGED> static int launch_columns(const struct launch *launch, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    const stream_layout layout = lay_out(args, LANES, batch_of<typename L::element_type>);
    stream_columns_kernel<L, LANES, RAGGED><<<grid_of(layout.tiles * layout.splits), THREADS, 0, stream_of(launch)>>>(
        args, layout, launch->workspace, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

template <typename L, int LANES>
static int launch_short(const struct launch *launch, int64_t loads_of_row, uint64_t mirror) {
    constexpr int BATCH = batch_of<typename L::element_type>;
    const reduce_args &args = launch->args.reduce;
    int threads = power_of_two_up_to(loads_of_row, 4);
    const int loads = power_of_two_up_to(ceil_div(loads_of_row, threads), BATCH);
    threads = std::max(threads, power_of_two_up_to(ceil_div(loads_of_row, loads), 32));
    const short_layout layout = {.threads = threads, .loads_log = loads == 8 ? 3 : loads / 2};
    const int64_t rows_of_block = THREADS / threads * (BATCH / loads);
    stream_short_kernel<L, LANES><<<grid_of(ceil_div(args.outer, rows_of_block)), THREADS, 0, stream_of(launch)>>>(
        args, layout, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* Enough for this launch and any smaller one: a partial result stands for LEAST_STEPS elements or more, and there are
 * BLOCKS times THREADS loads of them at most. */
static size_t reduce_stream_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t elements = args.outer * args.inner * args.length, lanes = 16 / int64_t(dtype_size(launch->dtype));
    const int64_t partials = std::min(elements / LEAST_STEPS, BLOCKS * THREADS * lanes);
    return partials == 0 ? 0 : TICKETS * sizeof(unsigned) + size_t(partials) * sizeof(struct reduce_state);
}

static int reduce_stream_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    const uint64_t mirror = reduce_mirror(launch->dtype, args.operator_);
    return dispatch_lanes(launch->dtype, args.operator_, [&](auto lane) -> int {
        using L = typename decltype(lane)::type;
        using T = typename L::element_type;
        constexpr int LANES = lanes_of<T>;
        if (args.inner != 1)
            return args.inner % LANES == 0 ? launch_columns<L, LANES, false>(launch, mirror)
                                           : launch_columns<L, LANES, true>(launch, mirror);
        /* A row that begins anywhere touches one more unit than one that begins on one. */
        const int64_t loads_of_row = ceil_div(args.length + (args.length % LANES ? LANES - 1 : 0), LANES);
        return loads_of_row <= 32 * batch_of<T> ? launch_short<L, LANES>(launch, loads_of_row, mirror)
                                                : launch_long<L, LANES>(launch, mirror);
    });
}

const struct kernel reduce_stream = {
    .name = "stream",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "16-byte loads, sums that do not depend on their order, one launch",
    .dtypes = DTYPES_ALL,
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .workspace = reduce_stream_workspace,
    .launch = reduce_stream_launch,
};
