/* transpose_lines.cuh - transpose_lines.cu's kernel, to which transpose_swizzled.cu hands what it cannot do. */
#ifndef KERNELS_TRANSPOSE_LINES_CUH
#define KERNELS_TRANSPOSE_LINES_CUH

#include "transpose.cuh"

#define LINES_THREADS 256
#define LINES_WARPS   (LINES_THREADS / 32)

/* A tile's sides in elements; and how many lie from one row of the shared tile to the next: an odd number of words
 * (8-byte elements: of elements), so that neither rows nor columns meet in a bank. */
template <typename T> constexpr int lines_width = sizeof(T) == 2 || sizeof(T) == 4 ? 128 : 64;
template <typename T> constexpr int lines_height = 64;
template <typename T> constexpr int lines_pitch = lines_width<T> + (sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1);

/* Turns the tile that begins at x and y, of which `rows` and `columns` are there. WHOLE: all of them. */
template <typename T, bool WHOLE>
__device__ inline void turn_tile(T (*shared)[lines_pitch<T>], const T *x, int64_t cols, T *y, int64_t rows, int height,
                                 int width) {
    constexpr int W = lines_width<T>, H = lines_height<T>;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;

    /* All loads before the first store: they overlap only if the compiler need not fear that a store changes them. */
    T element[H / LINES_WARPS][W / 32];
#pragma unroll
    for (int i = 0; i < H / LINES_WARPS; i++)
#pragma unroll
        for (int k = 0; k < W / 32; k++)
            if (const int r = warp + i * LINES_WARPS, c = lane + k * 32; WHOLE || (r < height && c < width))
                element[i][k] = x[r * cols + c];
#pragma unroll
    for (int i = 0; i < H / LINES_WARPS; i++)
#pragma unroll
        for (int k = 0; k < W / 32; k++) shared[warp + i * LINES_WARPS][lane + k * 32] = element[i][k];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W / LINES_WARPS; i++)
#pragma unroll
        for (int k = 0; k < H / 32; k++)
            if (const int c = warp + i * LINES_WARPS, r = lane + k * 32; WHOLE || (r < height && c < width))
                y[c * rows + r] = shared[r][c];
}

template <typename T>
__global__ void __launch_bounds__(LINES_THREADS) transpose_lines_kernel(const __grid_constant__ transpose_args args) {
    constexpr int W = lines_width<T>, H = lines_height<T>;
    __shared__ T shared[H][lines_pitch<T>];
    /* Down the columns of x: blocks that run together write neighbouring pieces of y's rows. */
    const tile_place of_y = tile_of_block((args.cols + W - 1) / W, (args.rows + H - 1) / H);
    if (of_y.batch >= args.batch) return;
    const int64_t matrix = of_y.batch * args.rows * args.cols, row = of_y.column * H, column = of_y.row * W;
    const T *const x = static_cast<const T *>(args.x) + matrix + row * args.cols + column;
    T *const y = static_cast<T *>(args.y) + matrix + column * args.rows + row;
    const int height = int(min(int64_t(H), args.rows - row)), width = int(min(int64_t(W), args.cols - column));
    if (height == H && width == W)
        turn_tile<T, true>(shared, x, args.cols, y, args.rows, height, width);
    else
        turn_tile<T, false>(shared, x, args.cols, y, args.rows, height, width);
}

template <typename T> int transpose_lines_of(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = args.batch * ceil_div(args.rows, lines_height<T>) * ceil_div(args.cols, lines_width<T>);
    if (blocks == 0) return 0;
    transpose_lines_kernel<T><<<grid_of(blocks), LINES_THREADS, 0, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

#endif
