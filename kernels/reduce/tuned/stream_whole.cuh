/* stream_whole.cuh - reduces rows of medium length: each row is loaded whole, by as many warps as that takes.
 *
 *     row of 1025 loads, 5 warps    thread 0:  |u|.159.|u|.159.|u|.159.|u|.159.|u|.159.|u|.159.|u|
 *                                   thread 64: one load fewer
 *
 * (u: a unit that thread 0 or 64 loads; the units of the 159 other threads lie between.)
 *
 * A thread has at most 8 loads, all on their way before the first is used, adds their elements, and is done; only rows
 * of 4-byte elements that 16 warps cannot hold take up to 4 such rounds. While a warp waits for memory, or its threads
 * merge at the end of a row, other blocks of the multiprocessor work. For a thread with few loads merging is a large
 * part of the time, so a row has as few warps as hold it, not a power of two of them: rows of 4097 float32 took 62 us
 * with 8 warps, and take 42 with 5 (rows of 4096: 42).
 *
 * The sum of so short a row is kept in one double, as in the short rows of stream_rows.cuh; smallest and largest
 * values merge in the element's own type.
 *
 * Measured on an H200, CUB's time over this one's, rows of 200 to 61,000 float32 (27 shapes): sum 1.31 (least 0.98),
 * max 1.24 (0.97); of 200 to 8192 float64 (20 shapes): 1.07 (0.93) and 1.02 (0.85). */
#ifndef KERNELS_REDUCE_STREAM_WHOLE_CUH
#define KERNELS_REDUCE_STREAM_WHOLE_CUH

#include "stream_rows.cuh"

#define WHOLE_WARPS 16 /* the most warps of a row */
#define WHOLE_BLOCK 8  /* warps of a block, if rows have fewer */

/* Are rows read whole by lanes of type L? Only if lanes become few and small once a row is read. */
template <typename L> constexpr bool in_one_go = plain_in_rows<L> || lanes_merge<L>;
template <> constexpr bool in_one_go<total_of<double>> = true;
template <typename T, bool PRODUCT> constexpr bool in_one_go<modular_lane<T, PRODUCT>> = true;
template <typename T> constexpr bool in_one_go<position_lane<T>> = sizeof(T) >= 4;
/* The loads of a thread in a round. */
template <typename L> constexpr int whole_loads = batch_of<typename L::element_type>;
/* The most rounds of a block. Two blocks of WHOLE_WARPS share a multiprocessor, with 64 registers per thread: elements
 * that are unpacked, or have 8 bytes, leave no register for the sum of an earlier round. */
template <typename L> constexpr int whole_rounds = sizeof(typename L::element_type) == 4 ? 4 : 1;
/* The most loads of a row in a round. */
template <typename L> constexpr int loads_per_round = WHOLE_WARPS * 32 * whole_loads<L>;

/* A block's threads are an array [groups][warps * 32] over (outer, length). Each group reads a row, in `rounds`
 * rounds. */
struct whole_layout {
    int groups, warps, rounds;
};

/* Merges the partial results of each group's threads; the group's first thread has the result. */
template <typename P> __device__ inline P combine_warps(P partial, int warps) {
    __shared__ P warp_results[WHOLE_WARPS];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) partial.merge(shuffle_xor(partial, lanes));
    if (warps == 1) return partial;
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, first = warp - warp % warps;
    if (lane == 0) warp_results[warp] = partial;
    __syncthreads();
    if (warp != first) return partial;
    partial = lane < warps ? warp_results[first + lane] : P::identity();
#pragma unroll
    for (int lanes = WHOLE_WARPS / 2; lanes > 0; lanes /= 2) partial.merge(shuffle_xor(partial, lanes));
    return partial;
}

/* Reduces a thread's loads to the cheapest type that merges. Load i begins at element first + i * step of the row. */
template <typename L, typename T, int LANES, int LOADS>
__device__ inline auto partial_of_loads(const unit_of<T, LANES> (&batch)[LOADS], int first, int step,
                                        const reduce_args &args) {
    if constexpr (plain_in_rows<L>) {
        auto partial = L::in_row(batch[0].x);
#pragma unroll
        for (int i = 1; i < LOADS; i++) partial.merge(L::in_row(batch[i].x));
        return partial;
    } else {
        L lane[LANES];
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            T column[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++) column[i] = batch[i].x[j];
            lane[j] = L::identity();
            lane[j].add_batch(column, 0);
        }
        if constexpr (lanes_merge<L>) {
#pragma unroll
            for (int j = 1; j < LANES; j++) lane[0].merge(lane[j]);
            return lane[0];
        } else {
            auto partial = accumulator_of<L>::identity();
            if (first < args.length)
#pragma unroll
                for (int j = 0; j < LANES; j++)
                    partial.merge(lane[j].finish(first + j, step, args.length, args.offset));
            return partial;
        }
    }
}

/* Reduces a row per group of threads, in rounds of LOADS loads per thread. The first load begins on a whole vector at
 * or before the row, so `at` may be negative; keep_elements replaces elements that are not the row's. `mirror`: bits to
 * flip in each element, so that the smallest is found as the largest. `divisor`: of a mean. */
template <typename L, int LANES>
__global__ void __launch_bounds__(WHOLE_WARPS * 32, 2)
    stream_whole_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ whole_layout layout,
                        double divisor, uint64_t mirror) {
    using T = typename L::element_type;
    constexpr int LOADS = whole_loads<L>;
    const int threads = layout.warps * 32, group = int(threadIdx.x) / threads, thread = int(threadIdx.x) % threads;
    const int64_t o = block_number() * layout.groups + group;
    const int64_t begin = o * args.length, remaining = args.outer * args.length - begin;
    const int length = o < args.outer ? int(args.length) : 0;
    const T *const x = static_cast<const T *>(args.x) + begin;
    const int step = threads * LANES; /* from one of a thread's loads to the next, in elements of its row */
    const auto read_round = [&](int first) {
        unit_of<T, LANES> batch[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int at = first + i * step;
            batch[i] = load_first<L, LANES>(x + at, at < length ? remaining - at : 0, mirror);
        }
        mirror_units<L>(batch, mirror);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            if (const int at = first + i * step; at < 0 || (at < length && at + LANES > length))
                keep_elements<L>(batch[i], -at, length - at);
        return partial_of_loads<L>(batch, first, step, args);
    };
    int first = thread * LANES - int(begin % LANES);
    auto partial = read_round(first);
    if constexpr (1 < whole_rounds<L>)
#pragma unroll 1
        for (int round = 1; round < layout.rounds; round++) partial.merge(read_round(first += LOADS * step));
    accumulator_of<L> a[1] = {accumulator_of_row(combine_warps(partial, layout.warps))};
    if (length > 0 && thread == 0) store_results<L>(args, o, a, divisor, mirror);
}

#endif
