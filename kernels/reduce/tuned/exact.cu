/* exact.cu - sums and means that are rounded once, correctly: the same bits whatever the tiles, the launches and the
 * device, also on a CPU (exact_cpu.c).
 *
 * Rounding is what makes a sum depend on its order, so here nothing is rounded before the end. An accumulator is an
 * integer as wide as the type's range of exponents (exact.h). To add every number to an accumulator would take 4 times
 * as long as memory takes to deliver it. So a thread adds its numbers to two float64 in registers, by additions that
 * are known to be without error (exact_bins.h), and empties these into its accumulator after 1024 numbers:
 *
 *     x -> bin 0 -> rest -> bin 1             registers of a thread: 4 additions per float32
 *             |               |               every 1024 numbers, and when the numbers move out of the window
 *             v               v
 *     limb 10 ... limb 1 limb 0 | flags       shared memory: an accumulator for each thread
 *             |
 *             v                               half of the rows to the other half, again and again
 *     the block's accumulator
 *             |
 *             v                               atomic additions of integers, which are exact in any order
 *     the output's accumulator                global memory, if several blocks or launches share the output
 *
 * Numbers outside the window go to the thread's accumulator at once. Word w of thread t's accumulator is words[w][t],
 * so there are no atomics and no bank conflicts.
 *
 * A block is an array [groups][rows][columns] over (outer, length, inner). Loads are 16 bytes if the reduced axis
 * is the last and its rows begin on 16 bytes, else one element.
 *
 * If an output has several blocks or launches, its accumulator is in the workspace, which the contract zeroes before
 * the first launch. The last block to arrive takes what all have added, rounds it and leaves zeros; between launches it
 * leaves the sum without carries. Within a launch nothing carries: a limb takes 2^31 additions, and a thread has fewer
 * numbers, because the operand of a launch has less than 2^38 bytes.
 *
 * Measured on an H200, a sum of 2^30 float32 in one job: 0.97 ms, 4.45 TB/s, beside 0.95 ms by CUB and 0.94 ms by
 * stream.cu.
 *
 * Limits: rows of a few elements take as long as their accumulator is cleared, merged and rounded, some 100
 * instructions, 10 times as many for float64; columns and rows that do not begin on 16 bytes load one element at a
 * time; numbers whose exponents lie further apart than a window go to the accumulators one by one. */
#include "../rung.cuh"
#include "exact_bins.h"

#define MAX_BLOCKS 1024 /* the most blocks of a launch whose blocks share outputs */
#define MIN_SHARE  4096 /* the fewest elements of an output that a block adds, if several share the output */

/* The data type of a C++ type. */
template <typename T>
constexpr auto dtype_of = std::is_same_v<T, double>   ? FLOAT64
                          : std::is_same_v<T, __half> ? FLOAT16
                          : std::is_same_v<T, float>  ? FLOAT32
                                                      : BFLOAT16;

/* Threads of a block, blocks of a multiprocessor: the accumulators take 24 KiB of shared memory per block (float16 10,
 * float64 34). */
template <typename T> constexpr int threads_of = sizeof(T) == 8 ? 64 : 256;
template <typename T> constexpr int resident_of = sizeof(T) == 8 ? 6 : 3;

/* The elements of a wide load, along rows. */
template <typename T> constexpr int wide_load = 16 / int(sizeof(T));
/* A thread's loads in flight: 128 bytes of rows, 64 if values must be unpacked; 16 loads of single elements. */
template <typename T, int ELEMENTS> constexpr int batch_of = ELEMENTS == 1 ? 16 : sizeof(T) == 2 ? 4 : 8;

template <typename T, int ELEMENTS> struct alignas(ELEMENTS * sizeof(T)) loaded { T x[ELEMENTS]; };

/* How a launch is divided among blocks and threads. */
struct exact_layout {
    int groups, rows, columns; /* of a block; their product is its number of threads */
    int splits;                /* blocks that share a tile */
    int64_t column_tiles, tiles;
};

/* Divides a reduction among blocks and threads. `elements`: of a load; a thread has 4 loads of several or 16 of 1. */
static exact_layout lay_out(const reduce_args &args, int threads, int elements, int blocks) {
    exact_layout layout = {};
    const int64_t steps = ceil_div(args.length, elements);
    layout.rows =
        power_of_two_up_to(ceil_div(steps, elements > 1 ? 4 : 16), threads / power_of_two_up_to(args.inner, 32));
    layout.columns = power_of_two_up_to(args.inner, threads / layout.rows);
    layout.groups = threads / (layout.rows * layout.columns);
    layout.column_tiles = ceil_div(args.inner, layout.columns);
    layout.tiles = ceil_div(args.outer, layout.groups) * layout.column_tiles;
    layout.splits = int(std::max<int64_t>(1, std::min(blocks / layout.tiles, args.length / MIN_SHARE)));
    return layout;
}

/* ---- a thread's numbers ------------------------------------------------------------------------------------------ */

/* Adds the elements of loads start, start + step, ... below `end`; load i is at from + i * stride. exact_bins_fit says
 * why 1 is subtracted from the smallest key. */
template <typename T, int ELEMENTS>
__device__ inline void gather(exact_bins &bins, int64_t *limbs, const T *from, int64_t start, int64_t step, int64_t end,
                              int64_t stride) {
    constexpr exact_type type = exact_type_of(dtype_of<T>);
    constexpr int threads = threads_of<T>, batch = batch_of<T, ELEMENTS>;
    using load = loaded<T, ELEMENTS>;
    for (int64_t at = start; at < end; at += batch * step) {
        load x[batch];
#pragma unroll
        for (int b = 0; b < batch; b++) {
            x[b] = load{};
            if (at + b * step < end) x[b] = *reinterpret_cast<const load *>(from + (at + b * step) * stride);
        }
        bool fit = true;
        if constexpr (type.bins > 1) {
            uint32_t largest = 0, smallest_minus_1 = ~0u;
#pragma unroll
            for (int b = 0; b < batch; b++)
#pragma unroll
                for (int l = 0; l < ELEMENTS; l++) {
                    const uint32_t key = exact_key(type, widen(x[b].x[l]));
                    largest = max(largest, key);
                    smallest_minus_1 = min(smallest_minus_1, key - 1);
                }
            fit = exact_bins_fit(&bins, largest, smallest_minus_1);
            if (!fit) {
                exact_bins_move(type, &bins, limbs, threads, largest);
                fit = exact_bins_fit(&bins, largest, smallest_minus_1);
            }
        }
        exact_bins_reserve(type, &bins, limbs, threads, batch * ELEMENTS);
        if (fit) {
#pragma unroll
            for (int b = 0; b < batch; b++)
#pragma unroll
                for (int l = 0; l < ELEMENTS; l++) exact_bins_add(type, &bins, widen(x[b].x[l]));
        } else { /* reads them from memory again: registers have no index */
#pragma unroll 1
            for (int64_t again = at; again < end && again < at + batch * step; again += step)
#pragma unroll 1
                for (int l = 0; l < ELEMENTS; l++)
                    exact_bins_add_any(type, &bins, limbs, threads, widen(from[again * stride + l]));
        }
    }
}

/* ---- a block's accumulators -------------------------------------------------------------------------------------- */

/* Returns the thread that has accumulator `number`, counted over the rows below `rows` of all groups and columns. */
__device__ inline int thread_of(const exact_layout &layout, int number, int rows) {
    const int group = number / (rows * layout.columns);
    return group * layout.rows * layout.columns + number - group * rows * layout.columns;
}

/* Adds the accumulators of all rows to those of row 0. */
template <int WORDS, int THREADS>
__device__ inline void merge_rows(int64_t (&words)[WORDS][THREADS], const exact_layout &layout) {
    for (int rows = layout.rows / 2; rows > 0; rows /= 2) {
        const int count = layout.groups * rows * layout.columns;
        __syncthreads();
        for (int i = int(threadIdx.x); i < count * WORDS; i += THREADS) {
            const int word = i / count, to = thread_of(layout, i - word * count, rows);
            const int64_t other = words[word][to + rows * layout.columns];
            words[word][to] = word == WORDS - 1 ? words[word][to] | other : words[word][to] + other;
        }
    }
    __syncthreads();
}

/* The number of the output that a thread's group and column belong to; -1: none. */
__device__ inline int64_t output_of(const reduce_args &args, const exact_layout &layout, int64_t tile, int thread) {
    const int64_t outer_tile = quotient(tile, layout.column_tiles);
    const int64_t o = outer_tile * layout.groups + thread / (layout.columns * layout.rows);
    const int64_t i = (tile - outer_tile * layout.column_tiles) * layout.columns + thread % layout.columns;
    return o < args.outer && i < args.inner ? o * args.inner + i : -1;
}

/* Adds the accumulators of row 0 to the accumulators of the outputs. The last block to arrive reads the sums of all
 * blocks back into `words`, and returns true. Word w of output number n is sums[w * outputs + n]. */
template <int WORDS, int THREADS>
__device__ inline bool merge_blocks(int64_t (&words)[WORDS][THREADS], const reduce_args &args,
                                    const exact_layout &layout, int64_t tile, unsigned *tickets, int64_t *sums) {
    const int64_t outputs = args.outer * args.inner;
    const int count = layout.groups * layout.columns;
    for (int i = int(threadIdx.x); i < count * WORDS; i += THREADS) {
        const int word = i / count, from = thread_of(layout, i - word * count, 1);
        const int64_t output = output_of(args, layout, tile, from), value = words[word][from];
        if (output < 0 || value == 0) continue;
        auto *sum = reinterpret_cast<unsigned long long *>(&sums[word * outputs + output]);
        if (word == WORDS - 1)
            atomicOr(sum, static_cast<unsigned long long>(value));
        else
            atomicAdd(sum, static_cast<unsigned long long>(value));
    }
    if (layout.splits > 1 && !last_block(&tickets[tile], layout.splits)) return false;
    for (int i = int(threadIdx.x); i < count * WORDS; i += THREADS) {
        const int word = i / count, to = thread_of(layout, i - word * count, 1);
        const int64_t output = output_of(args, layout, tile, to);
        if (output < 0) continue;
        int64_t *sum = &sums[word * outputs + output];
        words[word][to] = __ldcg(reinterpret_cast<const long long *>(sum));
        if (args.last) *sum = 0;
    }
    __syncthreads();
    return true;
}

/* ---- a launch ---------------------------------------------------------------------------------------------------- */

/* Sums a share of one tile per block. The last block of a tile rounds and stores the results or, if this is not the
 * last launch, keeps the sums in the workspace. ELEMENTS: of a load. */
template <typename T, int ELEMENTS>
__global__ void __launch_bounds__(threads_of<T>, resident_of<T>)
    exact_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ exact_layout layout,
                 void *workspace) {
    constexpr exact_type type = exact_type_of(dtype_of<T>);
    constexpr int threads = threads_of<T>, count = exact_words(dtype_of<T>);
    __shared__ int64_t words[count][threads];
    const int64_t number = block_number(), tile = quotient(number, layout.splits);
    if (tile >= layout.tiles) return;
    const int split = int(number - tile * layout.splits);
    const int thread = int(threadIdx.x), row = thread / layout.columns % layout.rows;
    const int64_t output = output_of(args, layout, tile, thread);
    int64_t *const limbs = &words[0][thread];

#pragma unroll 1
    for (int word = 0; word < count; word++) words[word][thread] = 0;
    if (output >= 0) {
        exact_bins bins;
        exact_bins_begin(type, &bins);
        const int64_t o = quotient(output, args.inner), loads = args.length / ELEMENTS;
        const T *const from = static_cast<const T *>(args.x) + o * args.length * args.inner + (output - o * args.inner);
        const int64_t start = int64_t(split) * layout.rows + row, step = int64_t(layout.splits) * layout.rows;
        gather<T, ELEMENTS>(bins, limbs, from, start, step, loads, ELEMENTS == 1 ? args.inner : ELEMENTS);
        /* The elements after the last whole load, if there is only one row. */
        for (int64_t i = loads * ELEMENTS + start; i < args.length && ELEMENTS > 1; i += step)
            exact_add_number(type, limbs, threads, widen(from[i]));
        exact_bins_empty(type, &bins, limbs, threads);
        exact_carry(type, limbs, threads);
    }
    merge_rows(words, layout);

    auto *const tickets = static_cast<unsigned *>(workspace);
    auto *const sums = reinterpret_cast<int64_t *>(tickets + MAX_BLOCKS);
    const bool alone = layout.splits == 1 && args.first && args.last;
    if (!alone && !merge_blocks(words, args, layout, tile, tickets, sums)) return;
    if (output < 0 || row != 0) return;
    if (args.last) {
        using bits =
            std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
        const int64_t divisor = args.operator_ == REDUCE_MEAN ? args.total : 1;
        static_cast<bits *>(args.y)[output] = bits(exact_round(type, limbs, threads, divisor));
    } else {
        exact_carry(type, limbs, threads);
#pragma unroll 1
        for (int word = 0; word < count; word++) sums[word * args.outer * args.inner + output] = words[word][thread];
    }
}

/* Launches the kernel with loads of 16 bytes, or of 1 element. */
template <typename T, int ELEMENTS> static int launch_with(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int blocks = std::min(launch->multiprocessors * resident_of<T>, MAX_BLOCKS);
    const exact_layout layout = lay_out(args, threads_of<T>, ELEMENTS, blocks);
    exact_kernel<T, ELEMENTS><<<grid_of(layout.tiles * layout.splits), threads_of<T>, 0, stream_of(launch)>>>(
        args, layout, launch->workspace);
    return cudaGetLastError();
}

static int reduce_exact_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    return dispatch_float(launch->dtype, [&](auto element) -> int {
        using T = typename decltype(element)::type;
        const bool wide = args.inner == 1 && (args.outer == 1 || args.length % wide_load<T> == 0);
        return wide ? launch_with<T, wide_load<T>>(launch) : launch_with<T, 1>(launch);
    });
}

/* The bytes of tickets[MAX_BLOCKS], and of accumulators for outputs that several launches or several blocks share.
 * Blocks share outputs only if there are at most half as many tiles as blocks. Either all launches of a run cover the
 * whole reduced axis, or none does. */
static size_t reduce_exact_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t threads = launch->dtype == FLOAT64 ? threads_of<double> : threads_of<float>;
    int64_t outputs = args.outer * args.inner;
    if (args.length >= args.total)
        outputs = args.length >= 2 * MIN_SHARE ? std::min(outputs, MAX_BLOCKS / 2 * threads) : 0;
    if (outputs == 0) return 0;
    return MAX_BLOCKS * sizeof(unsigned) + size_t(outputs) * size_t(exact_words(launch->dtype)) * sizeof(int64_t);
}

KERNEL(reduce_exact) = {
    .name = "exact",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "sums and means of floats rounded once: the same bits on any device, in any tiles",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN),
    .edges = {{1, 64, 256}, {8, 128, 1024, MIN_SHARE, 2 * MIN_SHARE}, {32, 64, 256}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .workspace = reduce_exact_workspace,
    .refuses = reduce_skips_no_nan,
    .launch = reduce_exact_launch,
};
