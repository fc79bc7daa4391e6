/* matmul/registers.cu - a tile of C in every thread's registers: each element fetched from shared memory is used eight
 * times.
 *
 *              B   | 128 columns |         A block of 16 x 16 threads computes 128 x 128 elements of C, a thread 8 x 8
 *              8 k |:::::::::::::|         of them. For each k it fetches 8 elements of A and 8 of B from shared memory
 *      A  8 k      |             |         and does 64 multiply-adds with them:
 *     |:::|        +--x---x---x--+
 *     |:::| 128    x             |             sums[i][j] += rows[i] * columns[j],   i, j = 0 .. 7
 *     |:::| rows   x      C      |
 *     +---+        x             |         matmul/tiled.cu fetches 2 elements for each multiply-add, 8 times as many:
 *                  +-------------+         that is its limit.
 *
 * A thread's rows and columns lie 16 apart (the x in the picture). So the threads of a warp, 2 x 16, fetch neighbours
 * of B (from different banks) and two elements of A (broadcast), and store neighbours of C.
 *
 * Both operands are lines (rows of A, columns of B) of k elements. In memory either k or the lines are adjacent; in a
 * tile k comes first, then the line. Threads fetch along memory. A row of the tile has four elements of padding, which
 * spreads 8 k of 4 lines over the banks if k is adjacent. Elements beyond an edge are fetched as zeros, which add
 * nothing.
 *
 * Global traffic as modelled: 2k/128 elements for each element of C, a quarter of matmul/tiled.cu's with TILE 32.
 *
 * Measured on an H200, float32, at 4096: 28.7 TFLOP/s (matmul/tiled.cu about 9), 0.56 of cuBLAS's speed. The limit: a
 * fifth of the instructions load single elements from shared memory, and between two tiles the block waits for global
 * memory. */
#include "matmul.cuh"

#define SIDE    16  /* of the block of threads */
#define EACH    8   /* rows and columns of C per thread */
#define TILE    128 /* rows and columns of C per block */
#define STEP    8   /* of k per tile */
#define THREADS (SIDE * SIDE)
#define COPIES  (TILE * STEP / THREADS) /* elements of an operand's tile that a thread copies */

/* A thread's part of copying an operand, tile by tile: COPIES elements of each tile of TILE lines by STEP of k. Threads
 * are numbered along memory: along k if k_adjacent, else along the lines. */
template <typename T> struct carrier {
    const T *from;              /* the thread's first element of the next tile */
    int64_t tile, next;         /* in elements: from tile to tile; between two of the thread's elements in a tile */
    int64_t k_left, lines_left; /* how many exist from the thread's first element on */
    int line, l;                /* position of the thread's first element in a tile */
    int line_step, l_step;      /* distance to the thread's next element */

    /* Begins with the first tile of a block whose lines begin at `first_line`; the matrix is of `lines` lines and k. */
    __device__ carrier(const T *matrix, int64_t first_line, int64_t lines, int64_t k, bool k_adjacent) {
        const int t = int(threadIdx.x);
        line = k_adjacent ? t / STEP : t % TILE;
        l = k_adjacent ? t % STEP : t / TILE;
        line_step = k_adjacent ? THREADS / STEP : 0;
        l_step = k_adjacent ? 0 : THREADS / TILE;
        const int64_t over_lines = k_adjacent ? k : 1, over_k = k_adjacent ? 1 : lines;
        from = matrix + (first_line + line) * over_lines + l * over_k;
        next = line_step * over_lines + l_step * over_k;
        tile = STEP * over_k;
        k_left = k - l;
        lines_left = lines - first_line - line;
    }

    /* Copies the elements of the next tile. */
    __device__ void bring(accumulator<T> (*to)[TILE + 4]) {
#pragma unroll
        for (int i = 0; i < COPIES; i++)
            to[l + i * l_step][line + i * line_step] =
                i * l_step < k_left && i * line_step < lines_left ? widen(from[i * next]) : 0;
        from += tile;
        k_left -= STEP;
    }
};

/* Computes one tile of C per block. */
template <typename T>
__global__ void __launch_bounds__(THREADS) matmul_registers_kernel(const __grid_constant__ matmul_args args) {
    __shared__ accumulator<T> a_tile[STEP][TILE + 4], b_tile[STEP][TILE + 4];

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    carrier<T> a(static_cast<const T *>(args.a) + tile.batch * args.a_batch_stride, row, args.m, args.k,
                 !args.transpose_a);
    carrier<T> b(static_cast<const T *>(args.b) + tile.batch * args.b_batch_stride, column, args.n, args.k,
                 args.transpose_b);
    const int y = int(threadIdx.x) / SIDE, x = int(threadIdx.x) % SIDE;

    accumulator<T> sums[EACH][EACH] = {};
    for (int64_t k = 0; k < args.k; k += STEP) {
        a.bring(a_tile);
        b.bring(b_tile);
        __syncthreads();
#pragma unroll
        for (int l = 0; l < STEP; l++) {
            accumulator<T> rows[EACH], columns[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) rows[i] = a_tile[l][y + i * SIDE], columns[i] = b_tile[l][x + i * SIDE];
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++) sums[i][j] += rows[i] * columns[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int64_t r = row + y + i * SIDE, c = column + x + j * SIDE;
            if (r < args.m && c < args.n) matmul_store<T>(args, (tile.batch * args.m + r) * args.n + c, sums[i][j]);
        }
}

static int matmul_registers_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        matmul_registers_kernel<T><<<grid_of(blocks), THREADS, 0, stream_of(launch)>>>(args);
        return cudaGetLastError();
    });
}

KERNEL(matmul_registers) = {
    .name = "registers",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "128x128 tiles in shared memory, 8x8 elements of C in each thread's registers",
    .dtypes = DTYPES_FLOAT,
    .edges = {{TILE}, {TILE}, {STEP}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = matmul_registers_launch,
};
