/* reduce.cuh - one launch reduces any shape: how x[outer][length][inner] is divided among blocks, and how several
 * blocks finish one output. reduce/tree.cu and reduce/shuffle.cu use it.
 *
 * A block of 256 threads is an array [groups][rows][columns] over (outer, length, inner), powers of two, columns
 * fastest. So neighbouring threads read neighbouring memory whether the reduced axis is the last (columns 1, rows 256),
 * a middle one (columns 32, rows 8) or short (several groups in a block). A thread walks down the reduced axis `rows`
 * elements at a time. Then the block combines the results of its rows; variants differ in how they do that.
 *
 * Where that makes too few blocks to fill the GPU, `splits` blocks share a tile. Each writes partial results to the
 * workspace and increments an atomic counter. The block that comes last combines all partial results in a fixed order,
 * so every run gives the same bits. Splits depend on the shape alone, so every GPU gives the same bits, too.
 *
 *     workspace:  unsigned tickets[512]                       counters; zero before and after every launch
 *                 struct reduce_state (or reduce_moments) partial[splits][outputs]
 *
 * A variant is a Strategy, passed to the kernel by value:
 *     template <typename A, typename T> A gather(const T *x, const reduce_walk &walk) const    a thread's own elements
 *     template <typename A> A combine(A a, const reduce_layout &, int row) const               a block's, at row 0 */
#ifndef KERNELS_REDUCE_CUH
#define KERNELS_REDUCE_CUH

#include "../core/launch.cuh"
#include "operators.cuh"
#include <algorithm>

#define REDUCE_THREADS  256
#define REDUCE_RESIDENT 4    /* blocks per multiprocessor: 64 registers per thread, which no operator spills */
#define REDUCE_BLOCKS   512  /* enough to fill a GPU: REDUCE_RESIDENT on each of 128 multiprocessors */
#define REDUCE_UNROLL   8    /* elements in flight per thread; a split must have as many for each thread */
#define REDUCE_PARTIALS 2048 /* partial results that any launch may have (32 KiB), plus 16 per output */

struct reduce_layout {
    int groups, rows, columns; /* of a block; their product is REDUCE_THREADS */
    int splits;                /* blocks that share a tile */
    int64_t column_tiles;      /* tiles along inner */
    int64_t tiles;
};

/* The elements start, start + step, ... below `end` of the reduced axis; neighbours on it lie `stride` elements apart
 * in memory. */
struct reduce_walk {
    int64_t start, step, end, stride;
    int64_t offset; /* position of element 0 along the whole axis */
};

inline int power_of_two_up_to(int64_t count, int limit) {
    int power = 1;
    while (power < count && power < limit) power *= 2;
    return power;
}

inline reduce_layout reduce_lay_out(const reduce_args &args) {
    reduce_layout layout;
    layout.columns = power_of_two_up_to(args.inner, 32);
    layout.rows = power_of_two_up_to(args.length, REDUCE_THREADS / layout.columns);
    layout.groups = REDUCE_THREADS / (layout.columns * layout.rows);
    layout.column_tiles = ceil_div(args.inner, layout.columns);
    layout.tiles = ceil_div(args.outer, layout.groups) * layout.column_tiles;
    layout.splits = 1;
    const int64_t outputs = args.outer * args.inner;
    if (outputs > 0)
        layout.splits = int(
            std::max<int64_t>(1, std::min({REDUCE_BLOCKS / layout.tiles, args.length / (layout.rows * REDUCE_UNROLL),
                                           REDUCE_PARTIALS / outputs + 16})));
    return layout;
}

/* Enough for this launch and for any smaller one of the same run: none of the three bounds falls as a dimension grows.
 * Two or more splits imply rows * columns = 256 (at least 64 elements per partial result) and at most 512 blocks. */
inline size_t reduce_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner;
    const int64_t partials = std::min(
        {outputs * args.length / (8 * REDUCE_UNROLL), REDUCE_PARTIALS + 16 * outputs, int64_t(REDUCE_BLOCKS) * 32});
    const size_t size = reduce_state_size(args.operator_, args.skip_nan);
    return partials == 0 ? 0 : REDUCE_BLOCKS * sizeof(unsigned) + size_t(partials) * size;
}

/* Takes the elements of a walk one by one, with REDUCE_UNROLL loads in flight. */
template <typename A, typename T> __device__ inline A reduce_gather(const T *x, const reduce_walk &walk) {
    A a = A::identity();
    const int64_t stride = walk.step * walk.stride;
    const T *from = x + walk.start * walk.stride;
    int64_t at = walk.start;
    for (; at + (REDUCE_UNROLL - 1) * walk.step < walk.end; at += REDUCE_UNROLL * walk.step) {
        T element[REDUCE_UNROLL];
#pragma unroll
        for (int i = 0; i < REDUCE_UNROLL; i++) element[i] = from[i * stride];
#pragma unroll
        for (int i = 0; i < REDUCE_UNROLL; i++) a.take(element[i], walk.offset + at + i * walk.step);
        from += REDUCE_UNROLL * stride;
    }
    for (; at < walk.end; at += walk.step, from += stride) a.take(*from, walk.offset + at);
    return a;
}

/* Is this the last of a tile's blocks to arrive? If so, its threads see what the other blocks wrote before. */
__device__ inline bool reduce_is_last(unsigned *ticket, int splits) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        /* One instruction counts, releases this block's writes and acquires the others': half the time of separate
         * fences. */
        unsigned drawn;
        asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(drawn) : "l"(ticket) : "memory");
        is_last = drawn == unsigned(splits - 1);
        if (is_last) *ticket = 0;
    }
    __syncthreads();
    return is_last;
}

/* Blocks per multiprocessor: accumulators of more than 16 bytes, or that count, need more registers. */
template <typename A> constexpr int reduce_resident = REDUCE_RESIDENT;
template <typename T> constexpr int reduce_resident<spread_of<T>> = 2;
template <typename T> constexpr int reduce_resident<exact_spread_of<T>> = 2;
template <typename T> constexpr int reduce_resident<counted_sum_of<T>> = 2;

template <typename T, typename A, typename Strategy>
__global__ void __launch_bounds__(REDUCE_THREADS, reduce_resident<A>)
    reduce_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ reduce_layout layout,
                  void *workspace, double divisor, const Strategy strategy) {
    const int64_t number = block_number();
    const int64_t tile = layout.splits == 1 ? number : quotient(number, layout.splits);
    if (tile >= layout.tiles) return;
    const int split = int(number - tile * layout.splits);
    const int64_t outer_tile = quotient(tile, layout.column_tiles);

    const int thread = int(threadIdx.x);
    const int column = thread % layout.columns, row = thread / layout.columns % layout.rows;
    const int64_t o = outer_tile * layout.groups + thread / (layout.columns * layout.rows);
    const int64_t i = (tile - outer_tile * layout.column_tiles) * layout.columns + column;
    const bool inside = o < args.outer && i < args.inner;
    const int64_t output = o * args.inner + i;

    A a = A::identity();
    if (inside) {
        const reduce_walk walk = {.start = int64_t(split) * layout.rows + row,
                                  .step = int64_t(layout.splits) * layout.rows,
                                  .end = args.length,
                                  .stride = args.inner,
                                  .offset = args.offset};
        a = strategy.template gather<A>(static_cast<const T *>(args.x) + o * args.length * args.inner + i, walk);
    }
    a = strategy.combine(a, layout, row);

    if (layout.splits > 1) {
        auto *tickets = static_cast<unsigned *>(workspace);
        auto *partial = states_of<A>(tickets + REDUCE_BLOCKS);
        const int64_t outputs = args.outer * args.inner;
        if (inside && row == 0) partial[split * outputs + output] = a.save();
        if (!reduce_is_last(&tickets[tile], layout.splits)) return;
        a = A::identity();
        if (inside)
            for (int s = row; s < layout.splits; s += layout.rows) a.merge(A::load(partial[s * outputs + output]));
        a = strategy.combine(a, layout, row);
    }

    if (!inside || row != 0) return;
    if (!args.first) {
        A before = A::load(states_of<A>(args.state)[output]);
        before.merge(a);
        a = before;
    }
    if (args.last)
        static_cast<typename A::result_type *>(args.y)[output] = result_for(a, args, divisor);
    else
        states_of<A>(args.state)[output] = a.save();
}

template <typename Strategy> int reduce_launch(const struct launch *launch, const Strategy &strategy) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    if (reduce_has_no_nans(launch)) return reduce_no_nans(launch);
    const reduce_layout layout = reduce_lay_out(args);
    return dispatch_reduce(launch->dtype, args.operator_, args.skip_nan, [&](auto type, auto accumulator) -> int {
        using T = typename decltype(type)::type;
        using A = typename decltype(accumulator)::type;
        reduce_kernel<T, A><<<grid_of(layout.tiles * layout.splits), REDUCE_THREADS, 0, stream_of(launch)>>>(
            args, layout, launch->workspace, reduce_divisor(args), strategy);
        return cudaGetLastError();
    });
}

#endif
