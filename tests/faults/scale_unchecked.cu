/* scale_unchecked.cu - a planted fault: the launch fails, but its error is never checked, so nothing is computed,
 * quickly. */
#include "../core/launch.cuh"

__global__ void scale_unchecked_kernel(const __grid_constant__ scale_args args) {
    if (int64_t(threadIdx.x) < args.count)
        static_cast<float *>(args.y)[threadIdx.x] = static_cast<const float *>(args.x)[threadIdx.x];
}

static int scale_unchecked_launch(const struct launch *launch) {
    scale_unchecked_kernel<<<1, 2048, 0, stream_of(launch)>>>(launch->args.scale);
    return 0;
}

KERNEL(scale_unchecked) = {
    .name = "unchecked",
    .op = OP_SCALE,
    .device = DEVICE_CUDA,
    .summary = "a planted fault: an unchecked launch",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = scale_unchecked_launch,
};
