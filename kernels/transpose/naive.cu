/* transpose/naive.cu - one thread per element: y[c][r] = x[r][c].
 *
 *     x  . . . . . . . .        y  . . # . . .      A warp reads 32 neighbours in a row of x, one coalesced access. It
 *        . . . . . . . .           . . # . . .      writes them down a column of y: 32 accesses to 32 different memory
 *        # # # # # # # #    ->     . . # . . .      lines, and each fills one element of its line.
 *        . . . . . . . .           . . # . . .
 *
 * Each element must be read once and written once. The limit: the writes. 32 warps complete a line of y at different
 * times, so the memory system writes every sector many times in part. With coalesced writes the reads would be strided
 * instead (see the example in README.md). transpose/tiled.cu transposes in shared memory, where access in either
 * direction is cheap. Measured on an H200, float32, 16384 x 16384: 0.47 TB/s. */
#include "transpose.cuh"

/* Moves one element per thread. */
template <typename T>
__global__ void __launch_bounds__(TRANSPOSE_TILE *TRANSPOSE_TILE)
    transpose_naive_kernel(const __grid_constant__ transpose_args args) {
    const tile_position tile = transpose_tile(args);
    const int64_t row = tile.row * TRANSPOSE_TILE + threadIdx.y, column = tile.column * TRANSPOSE_TILE + threadIdx.x;
    if (tile.batch >= args.batch || row >= args.rows || column >= args.cols) return;
    const int64_t matrix = tile.batch * args.rows * args.cols;
    static_cast<T *>(args.y)[matrix + column * args.rows + row] =
        static_cast<const T *>(args.x)[matrix + row * args.cols + column];
}

static int transpose_naive_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = transpose_blocks(args);
    if (blocks == 0) return 0;
    return dispatch_size(launch->dtype, [&](auto element) -> int {
        transpose_naive_kernel<decltype(element)>
            <<<grid_of(blocks), dim3(TRANSPOSE_TILE, TRANSPOSE_TILE), 0, stream_of(launch)>>>(args);
        return cudaGetLastError();
    });
}

KERNEL(transpose_naive) = {
    .name = "naive",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "one thread per element: coalesced reads, strided writes",
    .dtypes = DTYPES_ALL,
    .edges = {{TRANSPOSE_TILE}, {TRANSPOSE_TILE}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_naive_launch,
};
