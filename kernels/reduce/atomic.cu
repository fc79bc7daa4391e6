/* reduce/atomic.cu - one thread and one atomic addition per element: right, and slow.
 *
 *     x     # # # # # # # # ...        one thread per element
 *            \ \ \|/ / / /
 *     state      [ ]                   one cell per output; additions to it queue up
 *
 * An atomic addition is a read-modify-write, and the memory system does those on one cell one after another. The order
 * of the additions is not fixed, so the last bits of results vary. Global traffic, as modelled: each element is read
 * once, and for each a cell is read and written in the L2 cache.
 *
 * Measured on an H100: 2^20 floats with one output take 1.85 ms, with reduce/tree.cu 6.0 us. The limit is the queue at
 * the cell; with many outputs the queues are shorter. reduce/tree.cu adds without a queue. */
#include "../core/dtype.cuh"
#include "../core/launch.cuh"

#define THREADS 256

/* Adds one element per thread to the cell of its output. */
template <typename T>
__global__ void __launch_bounds__(THREADS) reduce_atomic_add(const __grid_constant__ reduce_args args) {
    const int64_t element = block_number() * THREADS + threadIdx.x; /* index of x[o][l][i] in memory */
    const int64_t line = quotient(element, args.inner), o = quotient(line, args.length);
    if (o >= args.outer) return;
    const int64_t output = o * args.inner + element - line * args.inner;
    atomicAdd(static_cast<double *>(args.state) + output, double(widen(static_cast<const T *>(args.x)[element])));
}

/* Turns one cell per thread into a result. */
template <typename T>
__global__ void __launch_bounds__(THREADS) reduce_atomic_finish(const __grid_constant__ reduce_args args) {
    const int64_t output = block_number() * THREADS + threadIdx.x;
    if (output >= args.outer * args.inner) return;
    const double divisor = args.operator_ == REDUCE_MEAN ? double(args.total) : 1.0;
    static_cast<T *>(args.y)[output] = quiet(narrow<T>(static_cast<const double *>(args.state)[output] / divisor));
}

/* The first launch clears the cells, and the last turns them into results. */
static int reduce_atomic_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, elements = outputs * args.length;
    if (outputs == 0) return 0;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        const cudaStream_t stream = stream_of(launch);
        if (args.first) {
            const int code = cudaMemsetAsync(args.state, 0, size_t(outputs) * sizeof(double), stream);
            if (code != cudaSuccess) return code;
        }
        if (elements > 0) reduce_atomic_add<T><<<grid_of(ceil_div(elements, THREADS)), THREADS, 0, stream>>>(args);
        if (args.last) reduce_atomic_finish<T><<<grid_of(ceil_div(outputs, THREADS)), THREADS, 0, stream>>>(args);
        return cudaGetLastError();
    });
}

/* The bytes that a launch moves: for every element read, a cell of 8 bytes is read and written. */
static double reduce_atomic_bytes(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const double outputs = double(args.outer) * args.inner, elements = outputs * args.length;
    return (elements + outputs) * dtype_size(launch->dtype) + 16.0 * elements;
}

static const char *reduce_atomic_refuses(const struct launch *launch) {
    return launch->args.reduce.skip_nan ? "this variant does not skip NaNs" : NULL;
}

KERNEL(reduce_atomic) = {
    .name = "atomic",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "one atomic addition per element (sum, mean)",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN),
    .edges = {{THREADS}, {THREADS}, {THREADS}},
    .accuracy = ACCURACY_FULL,
    .atomic_order = true,
    .compute_capability = 80,
    .traffic = "each element read once, and for each a cell of 8 bytes read and written",
    .traffic_bytes = reduce_atomic_bytes,
    .refuses = reduce_atomic_refuses,
    .launch = reduce_atomic_launch,
};
