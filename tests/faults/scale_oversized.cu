/* scale_oversized.cu - a planted fault: a block has more threads than the device permits; the launch fails and says
 * so. */
#include "../core/launch.cuh"

__global__ void scale_oversized_kernel(const __grid_constant__ scale_args args) {
    if (int64_t(threadIdx.x) < args.count)
        static_cast<float *>(args.y)[threadIdx.x] = static_cast<const float *>(args.x)[threadIdx.x];
}

static int scale_oversized_launch(const struct launch *launch) {
    scale_oversized_kernel<<<1, 2048, 0, stream_of(launch)>>>(launch->args.scale);
    return cudaGetLastError();
}

KERNEL(scale_oversized) = {
    .name = "oversized",
    .op = OP_SCALE,
    .device = DEVICE_CUDA,
    .summary = "a planted fault: too many threads a block",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = scale_oversized_launch,
};
