/* transpose_boundless.cu - a planted fault: no bounds check, so the last blocks read and write beyond the matrix. */
#include "transpose.cuh"

#define TILE 32

__global__ void transpose_boundless_kernel(const __grid_constant__ transpose_args args) {
    const tile_position tile = transpose_tile(args);
    const int64_t row = tile.row * TILE + threadIdx.y, column = tile.column * TILE + threadIdx.x;
    static_cast<uint32_t *>(args.y)[column * args.rows + row] =
        static_cast<const uint32_t *>(args.x)[row * args.cols + column];
}

static int transpose_boundless_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const dim3 block(TILE, TILE);
    transpose_boundless_kernel<<<grid_of(transpose_blocks(args)), block, 0, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

KERNEL(transpose_boundless) = {
    .name = "boundless",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "a planted fault: out of bounds at the edge",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = transpose_boundless_launch,
};
