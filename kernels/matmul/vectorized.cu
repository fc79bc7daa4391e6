/* matmul/vectorized.cu - four elements at a time, and the next tile fetched while this one is multiplied.
 *
 * matmul/registers.cu spends a fifth of its instructions on loads of single elements from shared memory, and waits for
 * global memory between two tiles. This variant removes both:
 *
 *   - A thread's 8 rows and 8 columns are groups of four, 64 apart: rows 4y + {0..3, 64..67}, columns 4x + {0..3,
 *     64..67}. The operands of 64 multiply-adds take four 16-byte loads instead of sixteen of 4 bytes. Global memory is
 *     read 16 bytes at a time too, if the operand's alignment permits.
 *   - Shared memory holds two tiles. While one is multiplied, the next is fetched into registers, a whole tile earlier
 *     than it is needed. A tile takes one barrier instead of two.
 *
 *         fetch  t+1 -> registers |            | store
 *         multiply t ------------------------- | t+1 -> other half | barrier | multiply t+1 ...
 *
 * An operand whose k is adjacent is transposed on the way: a thread holds 4 k of one line and stores them into 4 rows
 * of the tile. A warp stores 2 such groups of k for 16 lines; without a swizzle, rows 4 apart would share banks.
 * Element (k, line) is therefore stored in column line ^ 16 (k / 4): the two groups use different halves of the banks,
 * and aligned groups of four columns stay together for the 16-byte loads.
 *
 * Measured on an H200, float32, at 4096: 36.5 TFLOP/s (registers 28.7), 0.71 of cuBLAS's speed. The limit: what is
 * fetched passes through registers, which are scarce, so only one tile is in flight. */
#include "matmul.cuh"

#define SIDE    16  /* of the block of threads */
#define EACH    8   /* rows and columns of C per thread */
#define TILE    128 /* rows and columns of C per block */
#define STEP    8   /* of k per tile */
#define THREADS (SIDE * SIDE)

/* Four adjacent elements, loaded and stored 16 bytes at a time, or all at once if they are smaller. */
template <typename S> struct alignas(4 * sizeof(S) < 16 ? 4 * sizeof(S) : 16) four { S element[4]; };

/* The column of a tile in which element (l, line) is stored. */
__device__ inline int swizzled(int l, int line) {
    return line ^ (l / 4 * 16);
}

/* A thread's part of copying an operand, tile by tile: four adjacent elements of each tile, 4 k of a line if
 * k_adjacent, else 4 lines of one k. `aligned`: memory consists of aligned groups of four, so that they are loaded at
 * once. */
template <typename T> struct carrier {
    using S = accumulator<T>;
    const T *from;              /* its elements of the next tile */
    int64_t tile;               /* elements from tile to tile */
    int64_t k_left, lines_left; /* that exist from its first element on */
    int line, l;                /* position of its first element in a tile */
    bool k_adjacent, aligned;
    S held[4]; /* elements that were fetched and not stored yet */

    __device__ carrier(const T *matrix, int64_t first_line, int64_t lines, int64_t k, bool k_adjacent_, bool aligned_)
        : k_adjacent(k_adjacent_), aligned(aligned_) {
        const int t = int(threadIdx.x);
        line = k_adjacent ? t / (STEP / 4) : t % (TILE / 4) * 4;
        l = k_adjacent ? t % (STEP / 4) * 4 : t / (TILE / 4);
        from = matrix + (k_adjacent ? (first_line + line) * k + l : l * lines + first_line + line);
        tile = k_adjacent ? STEP : STEP * lines;
        k_left = k - l;
        lines_left = lines - first_line - line;
    }

    /* Fetches the elements of the next tile into registers. */
    __device__ void fetch() {
        const int64_t across = k_adjacent ? k_left : lines_left, down = k_adjacent ? lines_left : k_left;
        if (aligned && across >= 4 && down > 0) {
            const four<T> all = *reinterpret_cast<const four<T> *>(from);
#pragma unroll
            for (int i = 0; i < 4; i++) held[i] = widen(all.element[i]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) held[i] = i < across && down > 0 ? widen(from[i]) : 0;
        }
        from += tile;
        k_left -= STEP;
    }

    /* Stores the fetched elements in a tile in shared memory. */
    __device__ void store(S (*to)[TILE]) const {
        if (k_adjacent) {
#pragma unroll
            for (int i = 0; i < 4; i++) to[l + i][swizzled(l, line)] = held[i];
        } else {
            four<S> all;
#pragma unroll
            for (int i = 0; i < 4; i++) all.element[i] = held[i];
            *reinterpret_cast<four<S> *>(&to[l][swizzled(l, line)]) = all;
        }
    }
};

/* Computes one tile of C per block. a_aligned, b_aligned: do all rows of the operand begin on four elements? */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    matmul_vectorized_kernel(const __grid_constant__ matmul_args args, bool a_aligned, bool b_aligned) {
    using S = accumulator<T>;
    __shared__ alignas(16) S a_tiles[2][STEP][TILE], b_tiles[2][STEP][TILE];

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    carrier<T> a(static_cast<const T *>(args.a) + tile.batch * args.a_batch_stride, row, args.m, args.k,
                 !args.transpose_a, a_aligned);
    carrier<T> b(static_cast<const T *>(args.b) + tile.batch * args.b_batch_stride, column, args.n, args.k,
                 args.transpose_b, b_aligned);
    const int y = int(threadIdx.x) / SIDE * 4, x = int(threadIdx.x) % SIDE * 4;

    S sums[EACH][EACH] = {};
    int half = 0;
    a.fetch();
    b.fetch();
    a.store(a_tiles[half]);
    b.store(b_tiles[half]);
    __syncthreads();
    for (int64_t k = 0; k < args.k; k += STEP) {
        const bool more = k + STEP < args.k;
        if (more) a.fetch(), b.fetch();
#pragma unroll
        for (int l = 0; l < STEP; l++) {
            four<S> rows[EACH / 4], columns[EACH / 4];
#pragma unroll
            for (int i = 0; i < EACH / 4; i++) {
                rows[i] = *reinterpret_cast<const four<S> *>(&a_tiles[half][l][swizzled(l, y + i * 64)]);
                columns[i] = *reinterpret_cast<const four<S> *>(&b_tiles[half][l][swizzled(l, x + i * 64)]);
            }
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++) sums[i][j] += rows[i / 4].element[i % 4] * columns[j / 4].element[j % 4];
        }
        half ^= 1;
        if (more) a.store(a_tiles[half]), b.store(b_tiles[half]);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int64_t r = row + y + i / 4 * 64 + i % 4, c = column + x + j / 4 * 64 + j % 4;
            if (r < args.m && c < args.n) matmul_store<T>(args, (tile.batch * args.m + r) * args.n + c, sums[i][j]);
        }
}

/* kernel->launch: an operand is aligned if each row and each matrix begins at a multiple of 4 elements. */
static int matmul_vectorized_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    const bool a_aligned = (args.transpose_a ? args.m : args.k) % 4 == 0 && args.a_batch_stride % 4 == 0;
    const bool b_aligned = (args.transpose_b ? args.k : args.n) % 4 == 0 && args.b_batch_stride % 4 == 0;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        matmul_vectorized_kernel<T><<<grid_of(blocks), THREADS, 0, stream_of(launch)>>>(args, a_aligned, b_aligned);
        return cudaGetLastError();
    });
}

KERNEL(matmul_vectorized) = {
    .name = "vectorized",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "8x8 elements of C per thread, 16-byte accesses, two swizzled tiles in turn",
    .dtypes = DTYPES_FLOAT,
    .edges = {{TILE, 4}, {TILE, 4}, {STEP, 4}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = matmul_vectorized_launch,
};
