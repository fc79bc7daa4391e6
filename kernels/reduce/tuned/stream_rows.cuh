/* stream_rows.cuh - reduces the last axis, whose rows are contiguous in memory. Defines stream_long_kernel and
 * stream_short_kernel, for long rows and for rows of up to 256 loads; stream.cu explains both. */
#ifndef KERNELS_REDUCE_STREAM_ROWS_CUH
#define KERNELS_REDUCE_STREAM_ROWS_CUH

#include "../../core/cluster.cuh"
#include "stream.cuh"

/* ---- long rows --------------------------------------------------------------------------------------------------- */

/* Merges the accumulators of each group's threads; the group's first thread has the result. There are no branches, so
 * that the shuffle of the next level overtakes the error terms of this level: neutral values stand in for absent
 * ones. */
template <typename A> __device__ inline A combine_rows(A a, int rows) {
    constexpr int WARPS = THREADS / 32;
    __shared__ A warp_results[WARPS];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) a.merge(shuffle_down(a, lanes));
    if (rows == 32) return a;

    const int warp = int(threadIdx.x) / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp_results[warp] = a;
    __syncthreads();
    if (threadIdx.x % 32 != 0) return a;
#pragma unroll
    for (int i = 1; i < WARPS; i++) a.merge(i < rows / 32 ? warp_results[(warp + i) % WARPS] : A::identity());
    return a;
}

/* Merges the accumulators of a cluster's blocks; the first threads of the first block have the results. */
template <typename A> __device__ inline A combine_cluster(A a, const stream_layout &layout, int split) {
#if __CUDA_ARCH__ >= 900
    __shared__ A group_results[THREADS / 32];
    const int row = int(threadIdx.x) % layout.rows, group = int(threadIdx.x) / layout.rows;
    if (row == 0) group_results[group] = a;
    cluster_sync();
    a = A::identity();
    if (split == 0 && row < layout.splits) a = *cluster_shared(&group_results[group], unsigned(row));
    cluster_sync(); /* no block may end before it has been read */
#pragma unroll
    for (int lanes = MAX_CLUSTER / 2; lanes > 0; lanes /= 2) a.merge(shuffle_down(a, lanes));
#endif
    return a;
}

/* Adds a thread's elements of a long row to its lanes. Lanes that count elements are finished and merged into `a`. */
template <typename L, int LANES>
__device__ inline void gather_row(const reduce_args &args, const stream_layout &layout, int64_t o, int64_t first,
                                  int64_t end, uint64_t mirror, L (&lane)[LANES], accumulator_of<L> &a) {
    using T = typename L::element_type;
    constexpr int BATCH = batch_of<T>;
    /* Unit s begins at element s * LANES - before of the row; elements beyond the row's ends belong to its
     * neighbours. */
    const int64_t begin = o * args.length, before = begin % LANES, step = layout.rows;
    const int64_t whole_from = before > 0, whole_to = (before + args.length) / LANES;
    const int64_t elements = args.outer * args.length - (begin - before);
    const T *const x = static_cast<const T *>(args.x) + begin - before;

    unsigned count = 0;
    for (int64_t s = first; s < end; s += BATCH * step, count += BATCH) {
        const T *const from = x + s * LANES;
        const int64_t last = s + (BATCH - 1) * step;
        unit_of<T, LANES> batch[BATCH];
        if (last < end && s >= whole_from && last < whole_to) {
#pragma unroll
            for (int i = 0; i < BATCH; i++) batch[i] = load_unit<LANES>(from + i * step * LANES);
            mirror_units<L>(batch, mirror);
        } else {
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int64_t at = s + i * step;
                batch[i] = load_first<L, LANES>(from + i * step * LANES, at < end ? elements - at * LANES : 0, mirror);
            }
            mirror_units<L>(batch, mirror);
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int64_t low = before - (s + i * step) * LANES;
                keep_elements<L>(batch[i], low, low + args.length);
            }
        }
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            T column[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++) column[i] = batch[i].x[j];
            lane[j].add_batch(column, count);
        }
    }
    if constexpr (counts_elements<L>)
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            a.merge(lane[j].finish(first * LANES + j - before, step * LANES, args.length, args.offset));
            lane[j] = L::identity();
        }
}

/* Reduces long rows: `groups` rows per tile, each by `rows` threads and `splits` blocks. */
template <typename L, int LANES>
__global__ void __launch_bounds__(THREADS, long_resident<L>)
    stream_long_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ stream_layout layout,
                       void *workspace, double divisor, uint64_t mirror) {
    using A = accumulator_of<L>;
    const stream_block block = this_block(layout);
    if (block.tile >= layout.tiles) return;
    const int row = int(threadIdx.x) % layout.rows;
    const int64_t o = block.outer_tile * layout.groups + int(threadIdx.x) / layout.rows;
    const bool inside = o < args.outer;
    const int64_t steps = (o * args.length % LANES + args.length + LANES - 1) / LANES;
    stream_counters *const counters = static_cast<stream_counters *>(workspace) + block.tile;

    auto *const partial = states_of<A>(static_cast<stream_counters *>(workspace) + MAX_SPLIT_TILES);
    const bool leaves_partial = layout.splits > 1 && !layout.clustered;
    A a[1] = {A::identity()};
    L lane[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) lane[j] = L::identity();
    int share = block.split; /* number of the chunk, or number of chunks + number of the piece */
    for (int64_t begin = block.split * layout.chunk, count = layout.chunk;; count = layout.piece) {
        const unsigned drawn = draw_piece(layout, counters);
        const int64_t first = begin + row, end = min(begin + count, steps);
        if (inside && first < end) gather_row(args, layout, o, first, end, mirror, lane, a[0]);
        const int piece = layout.piece > 0 ? piece_drawn(drawn) : 0;
        const bool done = layout.piece == 0 || piece >= layout.pieces;
        if (done || !any_order<L>) {
            if constexpr (!counts_elements<L>)
#pragma unroll
                for (int j = 0; j < LANES; j++) a[0].merge(lane[j].finish(0, 0, 0, 0));
            a[0] = combine_rows(a[0], layout.rows);
            if (leaves_partial && inside && row == 0) partial[share * args.outer + o] = a[0].save();
        }
        if (done) break;
        if constexpr (!any_order<L>) {
            a[0] = A::identity();
#pragma unroll
            for (int j = 0; j < LANES; j++) lane[j] = L::identity();
            share = layout.splits + piece;
        }
        begin = begin_of_piece(layout, piece);
    }
    if (layout.clustered) {
        a[0] = combine_cluster(a[0], layout, block.split);
        if (block.split != 0) return;
    } else if (layout.splits > 1) {
        if (!is_last_block(layout, counters)) return;
        constexpr int AHEAD = 4; /* partial results in flight */
        const int shares = layout.splits + (any_order<L> ? 0 : layout.pieces);
        a[0] = A::identity();
        if (inside)
            for (int p = row; p < shares; p += AHEAD * layout.rows) {
                state_of<A> loaded[AHEAD];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
                    loaded[i] = partial[min(p + i * layout.rows, shares - 1) * args.outer + o];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
                    if (p + i * layout.rows < shares) a[0].merge(A::load(loaded[i]));
            }
        a[0] = combine_rows(a[0], layout.rows);
    }
    if (inside && row == 0) store_results<L>(args, o, a, divisor, mirror);
}

/* ---- short rows -------------------------------------------------------------------------------------------------- */

struct short_layout {
    int threads;   /* per row */
    int loads_log; /* a thread has 2^loads_log loads of each row */
};

/* Reduces short rows: a thread has BATCH loads, of one or several rows, and shares each row with other threads. */
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
    const int phase = int(o0 * length % LANES), phase_step = int(apart % LANES);

    /* Units are read whole, with elements of neighbouring rows, unless they end beyond the array. */
    unit_of<T, LANES> batch[BATCH];
    int at[BATCH]; /* position of a unit's first element in its row */
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        const int number = i >> layout.loads_log;
        at[i] = ((i & (loads - 1)) * layout.threads + column) * LANES - (phase + number * phase_step) % LANES;
        const int64_t start = number * apart + at[i];
        batch[i] = load_first<L, LANES>(x + start, at[i] < length ? elements - start : 0, mirror);
    }
    mirror_units<L>(batch, mirror);
    using partial = decltype(partial_of_row<L>(batch[0].x, 0, 0, 0));
    partial a[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (at[i] < 0 || at[i] + LANES > length) keep_elements<L>(batch[i], -at[i], length - at[i]);
        a[i] = partial_of_row<L>(batch[i].x, at[i], length, args.offset);
    }
    /* Merges a thread's units of the same row; afterwards a[0], a[1] ... belong to different rows. */
#pragma unroll
    for (int rows = BATCH / 2; rows > 0; rows /= 2)
        if (rows >= rows_each)
#pragma unroll
            for (int i = 0; i < rows; i++) {
                a[i] = a[2 * i];
                a[i].merge(a[2 * i + 1]);
            }
    /* Two threads with several rows in common: each keeps half of the rows, and merges the other's values for them. */
    int sharing_threads = layout.threads, row = 0;
#pragma unroll
    for (int rows = BATCH / 2; rows > 0; rows /= 2)
        if (rows < rows_each && sharing_threads > 1) {
            sharing_threads /= 2;
            const bool upper = column & sharing_threads;
            row += upper ? rows : 0;
#pragma unroll
            for (int i = 0; i < rows; i++) {
                partial kept = a[i], given = a[i + rows];
                if (upper) kept = a[i + rows], given = a[i];
                kept.merge(shuffle_xor(given, sharing_threads));
                a[i] = kept;
            }
        }
    const int rows_left = max(rows_each / layout.threads, 1);
    for (int others = sharing_threads / 2; others > 0; others /= 2) a[0].merge(shuffle_xor(a[0], others));
    if (column % sharing_threads != 0) return;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        const int64_t o = o0 + (row + i) * rows_per_pass;
        if (i < rows_left && o < args.outer) {
            A one[1] = {accumulator_of_row(a[i])};
            store_results<L>(args, o, one, divisor, mirror);
        }
    }
}

#endif
