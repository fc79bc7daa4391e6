/* stream_columns.cuh - reduces an axis that is not the last: neighbours in memory belong to neighbouring outputs.
 * Defines stream_columns_kernel, and stream_fold_kernel for glued rows; stream.cu explains both. */
#ifndef KERNELS_REDUCE_STREAM_COLUMNS_CUH
#define KERNELS_REDUCE_STREAM_COLUMNS_CUH

#include "stream.cuh"

/* How accumulators are stored in shared memory. One that is larger than its state is stored as its state, because eight
 * lanes of 24 bytes per thread would not fit. If all lanes of a block still exceed 40 KiB, half of them are stored at a
 * time. */
template <typename A> constexpr bool as_state = sizeof(A) > sizeof(state_of<A>);
template <typename A> using in_slot = std::conditional_t<as_state<A>, state_of<A>, A>;
template <typename A, int LANES>
constexpr int lanes_at_once = LANES *THREADS * sizeof(in_slot<A>) <= (40 << 10) ? LANES : LANES / 2;

template <typename A> __device__ inline in_slot<A> store_slot(const A &a) {
    if constexpr (as_state<A>)
        return a.save();
    else
        return a;
}
template <typename A> __device__ inline A load_slot(const in_slot<A> &slot) {
    if constexpr (as_state<A>)
        return A::load(slot);
    else
        return slot;
}

/* Merges the accumulators of a block's rows; row 0 has the result. A tree in shared memory: shuffles of LANES values
 * would take LANES times the code. */
template <typename A, int LANES> __device__ inline void combine_columns(A (&a)[LANES], int rows, int columns, int row) {
    if (rows == 1) return;
    constexpr int AT_ONCE = lanes_at_once<A, LANES>;
    __shared__ in_slot<A> slot[AT_ONCE][THREADS];
    const int thread = int(threadIdx.x);
#pragma unroll
    for (int from = 0; from < LANES; from += AT_ONCE) {
        if (from > 0) __syncthreads();
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) slot[j][thread] = store_slot(a[from + j]);
        for (int s = rows / 2; s > 0; s /= 2) {
            __syncthreads();
            if (row < s)
#pragma unroll
                for (int j = 0; j < AT_ONCE; j++) {
                    A both = load_slot<A>(slot[j][thread]);
                    both.merge(load_slot<A>(slot[j][thread + s * columns]));
                    slot[j][thread] = store_slot(both);
                }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) a[from + j] = load_slot<A>(slot[j][thread]);
    }
}

/* Adds a thread's elements to its lanes: LANES neighbouring columns from `x` on, of which `count` exist, in every
 * `step`th row from `first` to `end`. RAGGED: rows begin on any element; lanes beyond a row's end are never stored.
 * `safe`: the first row whose units might straddle the end of the array. */
template <typename L, int LANES, bool RAGGED>
__device__ inline void gather_columns(const typename L::element_type *x, int64_t inner, int count, int64_t first,
                                      int64_t step, int64_t end, int64_t safe, uint64_t mirror, L (&lane)[LANES]) {
    using T = typename L::element_type;
    constexpr int BATCH = batch_of<T>;
    unsigned added = 0;
    const T *from = x + first * inner;
    for (int64_t s = first; s < end; s += BATCH * step, added += BATCH, from += BATCH * step * inner) {
        unit_of<T, LANES> batch[BATCH];
        if (s + (BATCH - 1) * step < safe) {
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                if constexpr (RAGGED)
                    batch[i] = load_across<LANES>(from + i * step * inner);
                else
                    batch[i] = load_unit<LANES>(from + i * step * inner);
        } else {
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                batch[i] =
                    load_first<L, LANES, RAGGED>(from + i * step * inner, s + i * step < end ? count : 0, mirror);
        }
        mirror_units<L>(batch, mirror);
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            T column[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++) column[i] = batch[i].x[j];
            lane[j].add_batch(column, added);
        }
    }
}

/* Like store_results, for the first `count` of LANES neighbours. */
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

/* Do blocks draw pieces of the reduced axis (stream.cu)? Only if the result does not depend on the order and registers
 * suffice for another round. */
template <typename L> constexpr bool columns_in_pieces = false;
template <typename T> constexpr bool columns_in_pieces<total_of<T>> = any_order<total_of<T>>;
template <typename T, bool PRODUCT> constexpr bool columns_in_pieces<modular_lane<T, PRODUCT>> = true;
template <typename T> constexpr bool columns_in_pieces<extreme_lane<T>> = true;

/* Reduces columns: each thread adds LANES neighbouring columns, in every rows-th row of its split. */
template <typename L, int LANES, bool RAGGED>
__global__ void __launch_bounds__(THREADS, column_resident<L, RAGGED>)
    stream_columns_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ stream_layout layout,
                          void *workspace, double divisor, uint64_t mirror) {
    using T = typename L::element_type;
    using A = accumulator_of<L>;
    constexpr bool IN_PIECES = columns_in_pieces<L> && !RAGGED;
    constexpr int AHEAD = LANES >= 8 ? 1 : 8 / LANES; /* partial results of other splits in flight */
    const stream_block block = this_block(layout);
    if (block.tile >= layout.tiles) return;
    const int thread = int(threadIdx.x);
    const int column = thread % layout.columns, row = thread / layout.columns % layout.rows;
    const int64_t o = block.outer_tile * layout.groups + thread / (layout.columns * layout.rows);
    const int64_t c = (block.first_column + column) * LANES, output = o * args.inner + c;
    const bool inside = o < args.outer && c < args.inner;
    const int count = RAGGED ? int(min(int64_t(LANES), args.inner - c)) : LANES;
    const int64_t first_of_chunk = block.split * layout.chunk + row;
    /* The first row whose units might straddle the end of the array; rows are counted on through the later slices. */
    const int64_t safe = RAGGED ? (args.outer - o) * args.length - 2 * LANES / args.inner - 1 : args.length;
    stream_counters *const counters = static_cast<stream_counters *>(workspace) + block.tile;

    L lane[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) lane[j] = L::identity();
    const T *const x = static_cast<const T *>(args.x) + o * args.length * args.inner + c;
    for (int64_t begin = block.split * layout.chunk, steps = layout.chunk;; steps = layout.piece) {
        const unsigned drawn = IN_PIECES ? draw_piece(layout, counters) : 0;
        const int64_t first = begin + row, end = min(begin + steps, args.length);
        if (inside)
            gather_columns<L, LANES, RAGGED>(x, args.inner, count, first, layout.rows, end, min(end, safe), mirror,
                                             lane);
        if (!IN_PIECES || layout.piece == 0) break;
        begin = begin_of_piece(layout, piece_drawn(drawn));
        if (begin >= args.length) break;
    }
    A a[LANES];
    const bool any = inside && first_of_chunk < min(args.length, (block.split + 1) * layout.chunk);
#pragma unroll
    for (int j = 0; j < LANES; j++)
        a[j] = any ? lane[j].finish(first_of_chunk, layout.rows, args.length, args.offset) : A::identity();
    combine_columns(a, layout.rows, layout.columns, row);

    if (layout.splits > 1) {
        auto *partial = states_of<A>(static_cast<stream_counters *>(workspace) + MAX_SPLIT_TILES);
        const int64_t outputs = args.outer * args.inner;
        if (inside && row == 0)
#pragma unroll
            for (int j = 0; j < LANES; j++)
                if (j < count) partial[block.split * outputs + output + j] = a[j].save();
        if (!is_last_block(layout, counters)) return;
#pragma unroll
        for (int j = 0; j < LANES; j++) a[j] = A::identity();
        if (inside)
            for (int s = row; s < layout.splits; s += AHEAD * layout.rows) {
                state_of<A> loaded[AHEAD][LANES];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
#pragma unroll
                    for (int j = 0; j < LANES; j++)
                        if (j < count)
                            loaded[i][j] = partial[min(s + i * layout.rows, layout.splits - 1) * outputs + output + j];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
#pragma unroll
                    for (int j = 0; j < LANES; j++)
                        if (j < count && s + i * layout.rows < layout.splits) a[j].merge(A::load(loaded[i][j]));
            }
        combine_columns(a, layout.rows, layout.columns, row);
    }
    if (inside && row == 0) store_columns<RAGGED, L>(args, output, a, count, divisor, mirror);
}

/* ---- glued rows -------------------------------------------------------------------------------------------------- */

/* How rows of ragged columns are glued. Fewer than `rows` rows remain. */
struct stream_glue {
    int64_t rows;    /* rows that are one glued row of whole loads; 0: nothing is glued */
    int64_t steps;   /* number of glued rows */
    int max_columns; /* of a block */
};

/* Converts the position in a partial result from glued rows to the original rows; the partial result is of row number
 * `row` of each glued row. Results without a position do not change. */
template <typename A> __device__ inline void unglue(A &, int64_t, int64_t, int64_t) {}
template <typename T, bool MAX>
__device__ inline void unglue(position_of<T, MAX> &a, int64_t row, int64_t rows, int64_t offset) {
    if (a.index >= 0) a.index = offset + a.index * rows + row;
}

/* Loads in flight of the remaining rows: a batch, but half a batch for nan_lane<double>, because sm_80 lacks the
 * registers. */
template <typename L> constexpr int fold_batch = batch_of<typename L::element_type>;
template <> constexpr int fold_batch<nan_lane<double>> = batch_of<double> / 2;

/* Computes one output per thread, from the partial results of stream_columns_kernel, states[outer][rows][inner], and
 * the remaining rows. */
template <typename L>
__global__ void __launch_bounds__(THREADS)
    stream_fold_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ stream_glue glue, void *states,
                       double divisor, uint64_t mirror) {
    using T = typename L::element_type;
    using A = accumulator_of<L>;
    constexpr int FOLD = 8, BATCH = fold_batch<L>; /* loads in flight */
    const int64_t output = block_number() * THREADS + threadIdx.x;
    if (output >= args.outer * args.inner) return;
    const int64_t o = quotient(output, args.inner), c = output - o * args.inner;

    A a[1] = {A::identity()};
    const state_of<A> *const partials = states_of<A>(states) + o * glue.rows * args.inner + c;
    for (int64_t row = 0; row < glue.rows; row += FOLD) {
        state_of<A> batch[FOLD];
#pragma unroll
        for (int i = 0; i < FOLD; i++) batch[i] = partials[min(row + i, glue.rows - 1) * args.inner];
#pragma unroll
        for (int i = 0; i < FOLD; i++) {
            A one = A::load(batch[i]);
            unglue(one, row + i, glue.rows, args.offset);
            if (row + i < glue.rows) a[0].merge(one);
        }
    }
    const int64_t first = glue.steps * glue.rows, remaining = args.length - first;
    const T *from = static_cast<const T *>(args.x) + (o * args.length + first) * args.inner + c;
    L lane = L::identity();
    for (int64_t i = 0; i < remaining; i += BATCH, from += BATCH * args.inner) {
        unit_of<T, 1> batch[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) batch[k] = load_first<L, 1>(from + k * args.inner, remaining - i - k, mirror);
        mirror_units<L>(batch, mirror);
        T column[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) column[k] = batch[k].x[0];
        lane.add_batch(column, unsigned(i));
    }
    a[0].merge(lane.finish(first, 1, args.length, args.offset));
    store_results<L>(args, output, a, divisor, mirror);
}

#endif
