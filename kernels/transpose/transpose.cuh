/* transpose.cuh - what the transposes share: a type for each element size, and the kernel that transposes a tile in
 * shared memory, whose variants differ only in the pitch. */
#ifndef KERNELS_TRANSPOSE_CUH
#define KERNELS_TRANSPOSE_CUH

#include "../core/launch.cuh"

/* Calls f with a 0 of the unsigned type that has the size of `dtype`: only bits move, so it serves all types of a
 * size. */
template <typename F> int dispatch_size(enum dtype dtype, F &&f) {
    switch (dtype_size(dtype)) {
    case 1: return f(uint8_t());
    case 2: return f(uint16_t());
    case 4: return f(uint32_t());
    case 8: return f(uint64_t());
    default: return cudaErrorInvalidValue;
    }
}

#define TRANSPOSE_TILE 32 /* side of a tile: a warp reads a row of it, and writes a row of the transposed one */
#define TRANSPOSE_STEP 8  /* rows that a block of 32 x 8 threads moves at once: 4 loads in flight per thread */

/* The number of tiles, one for each block. */
inline int64_t transpose_blocks(const transpose_args &args) {
    return args.batch * ceil_div(args.rows, TRANSPOSE_TILE) * ceil_div(args.cols, TRANSPOSE_TILE);
}

/* The tile of a block. Tiles are numbered down the columns of x: blocks that run together then write neighbouring
 * pieces of y's rows, and scattered reads cost less than scattered writes. */
__device__ inline tile_position transpose_tile(const transpose_args &args) {
    const tile_position of_y = tile_of_block((args.cols + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE,
                                             (args.rows + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE);
    return {of_y.batch, of_y.column, of_y.row};
}

/* Transposes one tile per block. PITCH: elements from one row of the shared tile to the next. */
template <typename T, int PITCH>
__global__ void __launch_bounds__(TRANSPOSE_TILE *TRANSPOSE_STEP)
    transpose_tile_kernel(const __grid_constant__ transpose_args args) {
    __shared__ T shared[TRANSPOSE_TILE][PITCH];

    const tile_position tile = transpose_tile(args);
    if (tile.batch >= args.batch) return;
    const int x = int(threadIdx.x), y = int(threadIdx.y);
    const int64_t matrix = tile.batch * args.rows * args.cols;
    const int64_t row = tile.row * TRANSPOSE_TILE, column = tile.column * TRANSPOSE_TILE; /* the tile's corner in x */

    /* All loads come before the first store: the compiler overlaps loads only if no store between them might alias. */
    const T *from = static_cast<const T *>(args.x) + matrix + (row + y) * args.cols + column + x;
    T element[TRANSPOSE_TILE / TRANSPOSE_STEP];
#pragma unroll
    for (int i = 0; i < TRANSPOSE_TILE; i += TRANSPOSE_STEP)
        if (row + y + i < args.rows && column + x < args.cols) element[i / TRANSPOSE_STEP] = from[i * args.cols];
#pragma unroll
    for (int i = 0; i < TRANSPOSE_TILE; i += TRANSPOSE_STEP) shared[y + i][x] = element[i / TRANSPOSE_STEP];
    __syncthreads();

    T *to = static_cast<T *>(args.y) + matrix + (column + y) * args.rows + row + x;
#pragma unroll
    for (int i = 0; i < TRANSPOSE_TILE; i += TRANSPOSE_STEP)
        if (column + y + i < args.cols && row + x < args.rows) to[i * args.rows] = shared[x][y + i];
}

/* Starts the kernel with this pitch. Returns 0 or a cudaError_t. */
template <int PITCH> int transpose_tile_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = transpose_blocks(args);
    if (blocks == 0) return 0;
    return dispatch_size(launch->dtype, [&](auto element) -> int {
        transpose_tile_kernel<decltype(element), PITCH>
            <<<grid_of(blocks), dim3(TRANSPOSE_TILE, TRANSPOSE_STEP), 0, stream_of(launch)>>>(args);
        return cudaGetLastError();
    });
}

#endif
