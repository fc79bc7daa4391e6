/* reduce/atomic.cu - one thread and one atomic addition per element: right, and slow.
 *
 *     x     # # # # # # # # ...        one thread per element
 *            \ \ \|/ / / /
 *     state      [ ]                   one cell per output; additions to it queue up
 *
 * An atomic addition is a read-modify-write, and the memory system does those on one cell one after another. 2^20
 * elements with one output are 2^20 additions to one cell: 1.86 ms on an H200, where reduce/tree.cu takes 12 us. With
 * many outputs the queues are shorter. Global traffic, as modelled: each element is read once, and for each a cell is
 * read and written in the L2 cache. The order of the additions is not fixed, so the last bits of float results vary.
 *
 * Kernels of their own, one thread per output, clear the cells before the first launch and turn them into results after
 * the last. Squares of float64 elements may leave the range: such an output has three cells, one for each level of size
 * (reduce/scaled.cuh), which are joined after each launch. reduce/tree.cu adds without a queue. */
#include "../core/launch.cuh"
#include "operators.cuh"

#define THREADS 256

__device__ inline void atomic_add(reduce_state *state, double value) {
    atomicAdd(&state->value.f, value);
}
__device__ inline void atomic_add(reduce_state *state, uint64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long *>(&state->value.u), static_cast<unsigned long long>(value));
}

/* Does an output have a cell for each level? */
template <typename A> constexpr bool has_levels = std::is_same_v<A, squares_of<double>>;
#define LEVELS 3

template <typename A>
__global__ void __launch_bounds__(THREADS) reduce_atomic_clear(int64_t outputs, reduce_state *state) {
    const int64_t output = block_number() * THREADS + threadIdx.x;
    if (output < outputs) state[output] = A::identity().save();
}

template <typename T, typename A>
__global__ void __launch_bounds__(THREADS) reduce_atomic_add(const __grid_constant__ reduce_args args, double *levels) {
    const int64_t element = block_number() * THREADS + threadIdx.x; /* index of x[o][l][i] in memory */
    const int64_t line = quotient(element, args.inner), o = quotient(line, args.length);
    if (o >= args.outer) return;
    A a = A::identity();
    a.take(static_cast<const T *>(args.x)[element], 0);
    const int64_t output = o * args.inner + element - line * args.inner;
    if constexpr (has_levels<A>)
        atomicAdd(&levels[output * LEVELS + a.index + 1], a.value);
    else
        atomic_add(&static_cast<reduce_state *>(args.state)[output], a.value);
}

/* Merges the levels with the results of earlier launches, and sets them to zero. */
template <typename A>
__global__ void __launch_bounds__(THREADS) reduce_atomic_join(int64_t outputs, reduce_state *state, double *levels) {
    const int64_t output = block_number() * THREADS + threadIdx.x;
    if (output >= outputs) return;
    A a = A::load(state[output]);
    for (int level = 0; level < LEVELS; level++) {
        double &cell = levels[output * LEVELS + level];
        if (cell != 0) a.merge({{cell, level - 1}});
        cell = 0;
    }
    state[output] = a.save();
}

template <typename A>
__global__ void __launch_bounds__(THREADS)
    reduce_atomic_finish(int64_t outputs, const reduce_state *state, double divisor, typename A::result_type *y) {
    const int64_t output = block_number() * THREADS + threadIdx.x;
    if (output < outputs) y[output] = A::load(state[output]).result(divisor);
}

static int reduce_atomic_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, elements = outputs * args.length;
    if (outputs == 0) return 0;
    return dispatch_sum(launch->dtype, args.operator_, [&](auto type, auto accumulator) -> int {
        using T = typename decltype(type)::type;
        using A = typename decltype(accumulator)::type;
        const cudaStream_t stream = stream_of(launch);
        auto *const state = static_cast<reduce_state *>(args.state);
        const dim3 output_grid = grid_of(ceil_div(outputs, THREADS)),
                   element_grid = grid_of(ceil_div(elements, THREADS));
        if (args.first) reduce_atomic_clear<A><<<output_grid, THREADS, 0, stream>>>(outputs, state);
        auto *const levels = static_cast<double *>(launch->workspace);
        if (elements > 0) reduce_atomic_add<T, A><<<element_grid, THREADS, 0, stream>>>(args, levels);
        if constexpr (has_levels<A>) reduce_atomic_join<A><<<output_grid, THREADS, 0, stream>>>(outputs, state, levels);
        if (args.last)
            reduce_atomic_finish<A><<<output_grid, THREADS, 0, stream>>>(
                outputs, state, reduce_divisor(args), static_cast<typename A::result_type *>(args.y));
        return cudaGetLastError();
    });
}

static size_t reduce_atomic_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const bool levels = args.operator_ == REDUCE_NORM2 && launch->dtype == FLOAT64;
    return levels ? size_t(args.outer * args.inner) * LEVELS * sizeof(double) : 0;
}

/* For every element read, a cell of 8 bytes is read and written. */
static double reduce_atomic_bytes(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    return reduce_bytes(launch) + 16.0 * args.outer * args.inner * args.length;
}

KERNEL(reduce_atomic) = {
    .name = "atomic",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "one atomic addition an element (sum, mean, norm2)",
    .dtypes = DTYPES_ALL,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN) | REDUCE_BIT(REDUCE_NORM2),
    .edges = {{THREADS}, {THREADS}, {THREADS}},
    .accuracy = ACCURACY_FULL,
    .atomic_order = true,
    .compute_capability = 80,
    .traffic = "each element read once, and for each a cell of 8 bytes read and written",
    .traffic_bytes = reduce_atomic_bytes,
    .workspace = reduce_atomic_workspace,
    .refuses = reduce_skips_no_nan,
    .launch = reduce_atomic_launch,
};
