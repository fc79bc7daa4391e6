/* transpose_napping.cu - a planted slowness: right, but each launch takes NAP_NS nanoseconds longer than it must. */
#include "transpose.cuh"

#include <stdlib.h>

__global__ void transpose_napping_kernel(const __grid_constant__ transpose_args args) {
    const tile_position tile = transpose_tile(args);
    const int64_t row = tile.row * TRANSPOSE_TILE + threadIdx.y, column = tile.column * TRANSPOSE_TILE + threadIdx.x;
    if (tile.batch >= args.batch || row >= args.rows || column >= args.cols) return;
    const int64_t matrix = tile.batch * args.rows * args.cols;
    static_cast<float *>(args.y)[matrix + column * args.rows + row] =
        static_cast<const float *>(args.x)[matrix + row * args.cols + column];
}

__device__ unsigned long long nanoseconds() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

__global__ void nap(unsigned long long duration) {
    const unsigned long long begin = nanoseconds();
    while (nanoseconds() - begin < duration) continue;
}

static int transpose_napping_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const dim3 block(TRANSPOSE_TILE, TRANSPOSE_TILE);
    transpose_napping_kernel<<<grid_of(transpose_blocks(args)), block, 0, stream_of(launch)>>>(args);
    if (const char *duration = getenv("NAP_NS")) nap<<<1, 1, 0, stream_of(launch)>>>(strtoull(duration, NULL, 10));
    return cudaGetLastError();
}

KERNEL(transpose_napping) = {
    .name = "napping",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "a planted slowness: sleeps after each launch",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = transpose_napping_launch,
};
