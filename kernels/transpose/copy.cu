/* transpose/copy.cu - measures the roof: copies the number of bytes that a transpose moves.
 *
 * This is not a transpose. Every element is read once and written once, in order, so no transpose can be faster. The
 * variants are measured against it. Its output has no use and is never taken for a result (`is_roof`). */
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
    .is_roof = true,
    .compute_capability = 80,
    .launch = transpose_copy_launch,
};
