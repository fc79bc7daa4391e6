/* transpose_divergent.cu - a planted fault: a barrier that only the threads inside the matrix reach. */
#include "transpose.cuh"

#define TILE 32

__global__ void transpose_divergent_kernel(const __grid_constant__ transpose_args args) {
    __shared__ uint32_t shared[TILE][TILE + 1];
    const tile_position tile = transpose_tile(args);
    const int x = int(threadIdx.x), y = int(threadIdx.y);
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    if (row + y < args.rows && column + x < args.cols) {
        shared[y][x] = static_cast<const uint32_t *>(args.x)[(row + y) * args.cols + column + x];
        __syncthreads();
    }
    if (column + y < args.cols && row + x < args.rows)
        static_cast<uint32_t *>(args.y)[(column + y) * args.rows + row + x] = shared[x][y];
}

static int transpose_divergent_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const dim3 block(TILE, TILE);
    transpose_divergent_kernel<<<grid_of(transpose_blocks(args)), block, 0, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

KERNEL(transpose_divergent) = {
    .name = "divergent",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "a planted fault: a barrier in a divergent branch",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = transpose_divergent_launch,
};
