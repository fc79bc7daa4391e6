/* reduce/rung.cuh - what the lessons ("rungs" of a ladder) share: accumulators for floats, and how any shape is divided
 * among blocks.
 *
 * x[outer][length][inner] -> y[outer][inner]. A block computes up to 32 neighbouring outputs, its columns. `rows`
 * threads share each column, so that the threads of a warp read neighbours in memory:
 *
 *       inner 4              inner 1, 4 rows
 *     | r0 r0 r0 r0
 *     | r1 r1 r1 r1          r0 r1 r2 r3 r0 r1 r2 r3 ...     A thread takes every rows-th element of its column.
 *     v r0 r0 r0 r0
 *  length ...
 *
 * Then the block combines its rows: reduce/tree.cu and reduce/shuffle.cu are two ways to do that. If few outputs
 * would leave the GPU idle, blocks share a tile: the last to arrive combines what all wrote to the workspace. Shape and
 * order are fixed, so every run on every GPU gives the same bits. */
#ifndef KERNELS_REDUCE_RUNG_CUH
#define KERNELS_REDUCE_RUNG_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"
#include <algorithm>

#define RUNG_THREADS 256
#define RUNG_BLOCKS  512 /* enough to fill a GPU: 4 on each of 128 multiprocessors */
#define RUNG_UNROLL  8   /* loads in flight per thread; blocks share a tile only if each thread has as many */

/* An accumulator has identity(), the value before any element; add() and merge(), which include an element or another
 * accumulator; shuffle_down(), another lane's value; and result(). It is a plain value, so that it may lie in shared
 * memory. This one is of sums and means. */
struct rung_sum {
    static constexpr bool POSITION = false; /* is the result an index? */
    double value;
    static __device__ rung_sum identity() { return {0}; }
    __device__ void add(double x, int64_t) { value += x; }
    __device__ void merge(const rung_sum &other) { value += other.value; }
    __device__ rung_sum shuffle_down(int lanes) const { return {__shfl_down_sync(~0u, value, lanes)}; }
    __device__ double result(double divisor) const { return value / divisor; }
};

/* The accumulator of min, max, argmin and argmax by NumPy's rules: a NaN displaces every number; of equal elements the
 * first has the position. For positions -0 equals +0, for values -0 is less. index -1: no element yet. */
template <bool MAX, bool POSITION_> struct rung_extreme {
    static constexpr bool POSITION = POSITION_;
    double value;
    int64_t index;
    static __device__ rung_extreme identity() { return {0, -1}; }
    /* Does element a displace element b, wherever they stand? */
    static __device__ bool displaces(double a, double b) {
        if (a != a) return b == b;
        if (a == b) return signbit(MAX ? b : a) && !signbit(MAX ? a : b);
        return MAX ? a > b : a < b;
    }
    __device__ void add(double x, int64_t at) { merge({POSITION ? x + 0.0 : x, at}); /* -0 + 0 is +0 */ }
    __device__ void merge(const rung_extreme &other) {
        const bool earlier = other.index < index && !displaces(value, other.value);
        if (other.index >= 0 && (index < 0 || earlier || displaces(other.value, value))) *this = other;
    }
    __device__ rung_extreme shuffle_down(int lanes) const {
        return {__shfl_down_sync(~0u, value, lanes), __shfl_down_sync(~0u, index, lanes)};
    }
    __device__ double result(double) const { return value; }
};

/* How a launch is divided among blocks. A tile is the columns of a block. */
struct rung_layout {
    int rows, columns;    /* of a block's threads, powers of two */
    int splits;           /* blocks that share a tile */
    int64_t column_tiles; /* tiles along `inner` */
    int64_t tiles;        /* in all */
};

/* Divides a launch. A warp is whole; blocks share tiles only if each thread has RUNG_UNROLL elements. */
inline rung_layout rung_lay_out(const reduce_args &args) {
    rung_layout layout;
    layout.columns = power_of_two_up_to(args.inner, 32);
    layout.rows = std::max(power_of_two_up_to(args.length, RUNG_THREADS / layout.columns), 32 / layout.columns);
    layout.column_tiles = ceil_div(args.inner, layout.columns);
    layout.tiles = args.outer * layout.column_tiles;
    const int64_t most = std::min(RUNG_BLOCKS / layout.tiles, args.length / (layout.rows * RUNG_UNROLL));
    layout.splits = int(std::max<int64_t>(most, 1));
    return layout;
}

/* The bytes of the workspace: unsigned tickets[RUNG_BLOCKS], zero before and after a launch, then accumulators
 * partial[splits][outputs]. A block that shares a tile has 8 rows or more, so at least 64 elements for each partial
 * result, and at most 32 columns. This bound suffices for every smaller launch too. */
inline size_t rung_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t most = args.outer * args.length * args.inner / (8 * RUNG_UNROLL);
    const int64_t partials = std::min<int64_t>(most, RUNG_BLOCKS * 32);
    return partials == 0 ? 0 : RUNG_BLOCKS * sizeof(unsigned) + size_t(partials) * sizeof(struct reduce_state);
}

/* The accumulator of elements start, start + step ... of the column that begins at x. */
template <typename A, typename T>
__device__ inline A rung_gather(const reduce_args &args, const T *x, int64_t start, int64_t step) {
    A a = A::identity();
    for (int64_t at = start; at < args.length; at += RUNG_UNROLL * step) {
        T element[RUNG_UNROLL];
#pragma unroll
        for (int i = 0; i < RUNG_UNROLL; i++)
            if (at + i * step < args.length) element[i] = x[(at + i * step) * args.inner];
#pragma unroll
        for (int i = 0; i < RUNG_UNROLL && at + i * step < args.length; i++)
            a.add(widen(element[i]), args.offset + at + i * step);
    }
    return a;
}

/* Reduces a share of one tile per block; the last block of a tile merges all shares and stores the results. T is the
 * element type, A the accumulator: rung_sum or rung_extreme. A RUNG, a lesson, has combine(a, layout, row), which
 * merges the accumulators of a block's rows and returns the result in row 0. */
template <typename T, typename A, typename RUNG>
__global__ void __launch_bounds__(RUNG_THREADS, 3)
    rung_kernel(const __grid_constant__ reduce_args args, const __grid_constant__ rung_layout layout, void *workspace,
                const RUNG rung) {
    const int64_t number = block_number(), tile = quotient(number, layout.splits);
    if (tile >= layout.tiles) return;
    const int split = int(number - tile * layout.splits), row = int(threadIdx.x) / layout.columns;
    const int64_t o = quotient(tile, layout.column_tiles);
    const int64_t i = (tile - o * layout.column_tiles) * layout.columns + threadIdx.x % layout.columns;
    const int64_t output = o * args.inner + i, outputs = args.outer * args.inner;
    const bool inside = i < args.inner;

    A a = A::identity();
    if (inside)
        a = rung_gather<A>(args, static_cast<const T *>(args.x) + o * args.length * args.inner + i,
                           int64_t(split) * layout.rows + row, int64_t(layout.splits) * layout.rows);
    a = rung.combine(a, layout, row);

    if (layout.splits > 1) {
        auto *tickets = static_cast<unsigned *>(workspace);
        auto *partial = reinterpret_cast<A *>(tickets + RUNG_BLOCKS);
        if (inside && row == 0) partial[split * outputs + output] = a;
        if (!last_block(&tickets[tile], layout.splits)) return;
        a = A::identity();
        for (int s = row; s < layout.splits && inside; s += layout.rows) a.merge(partial[s * outputs + output]);
        a = rung.combine(a, layout, row);
    }

    if (!inside || row != 0) return;
    A *const state = static_cast<A *>(args.state) + output; /* left by earlier launches, and for later ones */
    if (!args.first) a.merge(*state);
    if (!args.last)
        *state = a;
    else if constexpr (A::POSITION)
        static_cast<int64_t *>(args.y)[output] = a.index;
    else
        static_cast<T *>(args.y)[output] =
            quiet(narrow<T>(a.result(args.operator_ == REDUCE_MEAN ? double(args.total) : 1.0)));
}

/* Starts the kernel. Returns 0 or a cudaError_t. */
template <typename T, typename A, typename RUNG> int rung_start(const struct launch *launch, const RUNG &rung) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    const rung_layout layout = rung_lay_out(args);
    rung_kernel<T, A><<<grid_of(layout.tiles * layout.splits), layout.rows * layout.columns, 0, stream_of(launch)>>>(
        args, layout, launch->workspace, rung);
    return cudaGetLastError();
}

/* Starts the kernel for the launch's type and operator. Returns 0 or a cudaError_t. */
template <typename RUNG> int rung_launch(const struct launch *launch, const RUNG &rung) {
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        switch (launch->args.reduce.operator_) {
        case REDUCE_SUM:
        case REDUCE_MEAN: return rung_start<T, rung_sum>(launch, rung);
        case REDUCE_MIN: return rung_start<T, rung_extreme<false, false>>(launch, rung);
        case REDUCE_MAX: return rung_start<T, rung_extreme<true, false>>(launch, rung);
        case REDUCE_ARGMIN: return rung_start<T, rung_extreme<false, true>>(launch, rung);
        case REDUCE_ARGMAX: return rung_start<T, rung_extreme<true, true>>(launch, rung);
        default: return cudaErrorInvalidValue;
        }
    });
}

/* kernel->traffic and kernel->traffic_bytes of the lessons. */
#define REDUCE_TRAFFIC "each element read once"
inline double reduce_bytes(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    return double(args.outer) * args.inner * (double(args.length) + 1) * dtype_size(launch->dtype);
}

/* kernel->refuses of the lessons. */
inline const char *reduce_skips_no_nan(const struct launch *launch) {
    return launch->args.reduce.skip_nan ? "this variant does not skip NaNs" : NULL;
}

#endif
