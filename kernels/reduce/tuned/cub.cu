/* cub.cu - the baseline: CUB from the toolkit's headers, called as its users call it.
 *
 * DeviceReduce reduces a whole array, DeviceSegmentedReduce rows of equal length. Floats accumulate in their own type,
 * in CUB's order: a running sum may overflow where NumPy's does not. In min, max, argmin and argmax a NaN has no
 * defined rank, and either zero may be the result. Products and norms are left out, as CUB has no function for them.
 * Of integers only int64 is offered, for which CUB's accumulator is NumPy's result type. CUB can reduce neither in
 * several launches nor along columns.
 *
 * CUB compiles slowly, so only the types worth comparing are here. */
#include "../../core/dtype.cuh"
#include "../../core/launch.cuh"
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#define EXTREME_BYTES       256                     /* of the workspace: the extreme value, beside its position */
#define CUB_FINDS_POSITIONS (CUB_VERSION >= 200800) /* as 64-bit numbers, beside the extreme value */
#define WORKSPACE_BYTES     (256 << 10) /* a partial result per block of CUB's largest grid, on any device */

/* Is the result an index? */
static bool wants_position(const reduce_args &args) {
    return args.operator_ == REDUCE_ARGMIN || args.operator_ == REDUCE_ARGMAX;
}

/* The bytes of workspace, also for runs of several rows: they may end with a tile of one row, which is reduced as a
 * whole. */
static size_t reduce_cub_workspace(const struct launch *) {
    return WORKSPACE_BYTES;
}

static const char *reduce_cub_refuses(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.skip_nan) return "CUB does not skip NaNs";
    if (!args.first || !args.last) return "CUB reduces in one launch: the array does not fit into the memory";
    if (args.inner != 1) return "CUB reduces rows (the last axis) or everything";
    if (!CUB_FINDS_POSITIONS && wants_position(args)) return "CUB before 2.8 has 32-bit positions";
    if (args.outer != 1 && wants_position(args)) return "CUB's argmin and argmax of rows have 32-bit positions";
    if (args.outer != 1 && args.length > INT32_MAX) return "CUB's rows have at most 2^31 - 1 elements";
    return NULL;
}

/* Finds the position of the extreme value of all elements, with 64 bits. */
template <typename T> static cudaError_t find_position(const struct launch *launch, const T *x) {
#if CUB_FINDS_POSITIONS
    const reduce_args &args = launch->args.reduce;
    auto *extreme = static_cast<T *>(launch->workspace);
    void *temporary = static_cast<char *>(launch->workspace) + EXTREME_BYTES;
    size_t bytes = WORKSPACE_BYTES - EXTREME_BYTES;
    auto *y = static_cast<int64_t *>(args.y);
    return args.operator_ == REDUCE_ARGMIN
               ? cub::DeviceReduce::ArgMin(temporary, bytes, x, extreme, y, args.length, stream_of(launch))
               : cub::DeviceReduce::ArgMax(temporary, bytes, x, extreme, y, args.length, stream_of(launch));
#else
    return cudaErrorNotSupported;
#endif
}

/* Reduces all elements to one result. */
template <typename T> static cudaError_t reduce_everything(const struct launch *launch, const T *x) {
    const reduce_args &args = launch->args.reduce;
    void *temporary = launch->workspace;
    size_t bytes = WORKSPACE_BYTES;
    const cudaStream_t stream = stream_of(launch);
    auto *y = static_cast<T *>(args.y);
    switch (args.operator_) {
    case REDUCE_SUM: return cub::DeviceReduce::Sum(temporary, bytes, x, y, args.length, stream);
    case REDUCE_MIN: return cub::DeviceReduce::Min(temporary, bytes, x, y, args.length, stream);
    case REDUCE_MAX: return cub::DeviceReduce::Max(temporary, bytes, x, y, args.length, stream);
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX: return find_position(launch, x);
    default: return cudaErrorInvalidValue;
    }
}

/* The number of the element with which row number `row` begins. */
struct row_begin {
    int64_t length;
    __host__ __device__ int64_t operator()(int64_t row) const { return row * length; }
};

/* Reduces each row to a result. */
template <typename T> static cudaError_t reduce_rows(const struct launch *launch, const T *x) {
    const reduce_args &args = launch->args.reduce;
    const auto begin =
        thrust::make_transform_iterator(thrust::make_counting_iterator(int64_t(0)), row_begin{args.length});
    void *temporary = launch->workspace;
    size_t bytes = WORKSPACE_BYTES;
    const cudaStream_t stream = stream_of(launch);
    auto *y = static_cast<T *>(args.y);
    switch (args.operator_) {
    case REDUCE_SUM:
        return cub::DeviceSegmentedReduce::Sum(temporary, bytes, x, y, args.outer, begin, begin + 1, stream);
    case REDUCE_MIN:
        return cub::DeviceSegmentedReduce::Min(temporary, bytes, x, y, args.outer, begin, begin + 1, stream);
    case REDUCE_MAX:
        return cub::DeviceSegmentedReduce::Max(temporary, bytes, x, y, args.outer, begin, begin + 1, stream);
    default: return cudaErrorInvalidValue;
    }
}

/* Does the launch for elements of type T. */
template <typename T> static int reduce_of_type(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const T *x = static_cast<const T *>(args.x);
    if (args.outer == 0) return 0;
    return args.outer == 1 ? reduce_everything(launch, x) : reduce_rows(launch, x);
}

static int reduce_cub_launch(const struct launch *launch) {
    switch (launch->dtype) {
    case FLOAT32: return reduce_of_type<float>(launch);
    case FLOAT64: return reduce_of_type<double>(launch);
    case INT64: return reduce_of_type<int64_t>(launch);
    default: return cudaErrorInvalidValue;
    }
}

KERNEL(reduce_cub) = {
    .name = "cub",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "CUB's device-wide and segmented reductions, with float32 sums in float32; a baseline",
    .dtypes = DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT64) | DTYPE_BIT(INT64),
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MIN) | REDUCE_BIT(REDUCE_MAX) | REDUCE_BIT(REDUCE_ARGMIN) |
                 REDUCE_BIT(REDUCE_ARGMAX),
    .edges = {{1}, {1}, {1}}, /* unknown: the library does not report its tiles */
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .workspace = reduce_cub_workspace,
    .refuses = reduce_cub_refuses,
    .launch = reduce_cub_launch,
};
