/* transpose/copy.cu - the speed of light: as many bytes copied as a transpose moves, in the order they lie in.
 *
 * This is not a transpose. It says how fast one could be: every element read once and written once, nothing turned. The
 * others are measured against it; its own output is of no use and is never taken for a result (`limit`). */
#include "transpose.cuh"

static int transpose_copy_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const size_t bytes = size_t(args.batch * args.rows * args.cols) * dtype_size(launch->dtype);
    return bytes == 0 ? 0 : cudaMemcpyAsync(args.y, args.x, bytes, cudaMemcpyDeviceToDevice, stream_of(launch));
}

KERNEL(transpose_copy) = {
    .name = "copy",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "a plain copy of the same bytes: not a transpose, but the speed limit of one",
    .dtypes = DTYPES_ALL,
    .edges = {{1}, {1}},
    .accuracy = ACCURACY_FULL,
    .limit = true,
    .compute_capability = 80,
    .launch = transpose_copy_launch,
};
