/* transpose/lines.cuh - the kernel of transpose/lines.cu, which explains its tiles. A block reads the rows of a tile of
 * x into shared memory, and writes its columns as rows of y. tuned/swizzled.cu uses it for elements of 4 and 8 bytes.
 */
#ifndef KERNELS_TRANSPOSE_LINES_CUH
#define KERNELS_TRANSPOSE_LINES_CUH

#include "transpose.cuh"

#define LINES_THREADS 256
#define LINES_WARPS   (LINES_THREADS / 32)

/* Transposes one tile per block: WIDTH elements of x's rows by HEIGHT of y's. */
template <typename T, int WIDTH, int HEIGHT>
__global__ void __launch_bounds__(LINES_THREADS) transpose_lines_kernel(const __grid_constant__ transpose_args args) {
    /* The pitch is an odd number of words, or of 8-byte elements: no bank conflicts along rows or columns. */
    constexpr int PITCH = WIDTH + (sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1);
    /* A warp's stores of 4-byte elements begin where a memory line of 32 elements does; a row of y's tile may then need
     * one turn more. */
    constexpr int LINE = sizeof(T) == 4 ? 32 : 1, TURNS = HEIGHT / 32 + (LINE > 1);
    __shared__ T shared[HEIGHT][PITCH];
    /* The tile's position in y. Tiles are numbered along rows of y, so that blocks that run together write neighbouring
     * parts of these rows. */
    const tile_position of_y = tile_of_block((args.cols + WIDTH - 1) / WIDTH, (args.rows + HEIGHT - 1) / HEIGHT);
    if (of_y.batch >= args.batch) return;
    const int64_t matrix = of_y.batch * args.rows * args.cols, row = of_y.column * HEIGHT, column = of_y.row * WIDTH;
    const int height = int(min(int64_t(HEIGHT), args.rows - row)), width = int(min(int64_t(WIDTH), args.cols - column));
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const T *x = static_cast<const T *>(args.x) + matrix + (row + warp) * args.cols + column + lane;
    T *y = static_cast<T *>(args.y) + matrix + (column + warp) * args.rows + row;

    /* All loads come before the first store: the compiler overlaps loads only if no store between them might alias. */
    T element[HEIGHT / LINES_WARPS][WIDTH / 32];
#pragma unroll
    for (int i = 0; i < HEIGHT / LINES_WARPS; i++, x += args.cols * LINES_WARPS)
#pragma unroll
        for (int k = 0; k < WIDTH / 32; k++)
            if (warp + i * LINES_WARPS < height && lane + k * 32 < width) element[i][k] = x[k * 32];
#pragma unroll
    for (int i = 0; i < HEIGHT / LINES_WARPS; i++)
#pragma unroll
        for (int k = 0; k < WIDTH / 32; k++) shared[warp + i * LINES_WARPS][lane + k * 32] = element[i][k];
    __syncthreads();
#pragma unroll 4
    for (int c = warp; c < width; c += LINES_WARPS, y += args.rows * LINES_WARPS) {
        const int first = lane - int(uintptr_t(y) / sizeof(T) % LINE);
#pragma unroll
        for (int k = 0; k < TURNS; k++)
            if (const int r = first + k * 32; (LINE == 1 || r >= 0) && r < height) y[r] = shared[r][c];
    }
}

/* Starts the kernel with tiles of this size. Returns 0 or a cudaError_t. */
template <typename T, int WIDTH, int HEIGHT> int transpose_lines_in(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = args.batch * ceil_div(args.rows, HEIGHT) * ceil_div(args.cols, WIDTH);
    if (blocks == 0) return 0;
    transpose_lines_kernel<T, WIDTH, HEIGHT><<<grid_of(blocks), LINES_THREADS, 0, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

/* Chooses the tile, and starts the kernel: 128 wide and 64 high, or 64 x 64 for elements of 1 and 8 bytes; 64 wide and
 * 128 high for elements of 4 bytes if rows of x are longer than 128. */
template <typename T> int transpose_lines_of(const struct launch *launch) {
    constexpr int WIDTH = sizeof(T) == 2 || sizeof(T) == 4 ? 128 : 64;
    if constexpr (sizeof(T) == 4)
        if (launch->args.transpose.cols > WIDTH) return transpose_lines_in<T, 64, 128>(launch);
    return transpose_lines_in<T, WIDTH, 64>(launch);
}

#endif
