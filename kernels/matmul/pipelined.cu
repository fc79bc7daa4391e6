/* matmul/pipelined.cu - copies that go straight into shared memory, two tiles ahead of the multiplication.
 *
 * matmul/vectorized.cu fetches the next tile into registers, which are scarce: one tile is in flight. cp.async, since
 * compute capability 8.0, copies from global to shared memory past the registers, and the thread goes on at once. A
 * thread waits for its copies in groups, in the order in which they were started. Shared memory becomes a ring of
 * stages:
 *
 *     stage 0   | copy tile 0 | multiply 0 | copy tile 3 -> | multiply 3
 *     stage 1   | copy tile 1 ->           | multiply 1 | copy tile 4 ->
 *     stage 2                 | copy tile 2 ->          | multiply 2 |
 *
 *     for each tile t: wait until all but the latest group of copies are here   } tile t has arrived, and all threads
 *                      barrier                                                  } have multiplied tile t - 1
 *                      start the copies of tile t + 2, into the stage of tile t - 1
 *                      multiply tile t
 *
 * That is one barrier per tile. A copy takes 4, 8 or 16 bytes. If lines (columns of B, rows of a transposed A) are
 * adjacent in memory as they are in a stage, and aligned, a thread copies 16 bytes. An operand whose k is adjacent is
 * transposed on the way, so its elements are copied one by one; four elements of padding at the end of a row of the
 * stage put the 8 k of 4 lines that a warp stores together into different banks. A copy whose source does not exist
 * writes zeros.
 *
 * The multiplication is that of matmul/vectorized.cu, 8 x 8 elements of C per thread, for float32 alone. At 4096 on an
 * H100 it has 40.7 TFLOP/s, vectorized 36.6, cuBLAS 51.3.
 *
 * The limit: a small C has few tiles, so that most multiprocessors idle, and tiles numbered along rows fall out of the
 * L2 cache. tuned/async.cu splits k over blocks, orders the tiles and chooses their size. For 16-bit types the
 * multipliers themselves are the limit: matmul/warp_mma.cu uses others. */
#include "../core/shared.cuh"
#include "matmul.cuh"

#define SIDE    16  /* of the block of threads */
#define EACH    8   /* rows and columns of C per thread */
#define TILE    128 /* rows and columns of C per block */
#define STEP    8   /* of k per tile */
#define STAGES  3
#define THREADS (SIDE * SIDE)
#define COPIES  (TILE * STEP / THREADS) /* single elements of an operand's tile that a thread copies */

struct alignas(16) four {
    float element[4];
};
struct alignas(16) stage {
    float a[STEP][TILE + 4], b[STEP][TILE + 4];
};

/* A thread's part of copying an operand, tile by tile: four elements of each tile of TILE lines by STEP of k. */
struct carrier {
    const float *from;          /* its first element of the next tile */
    int64_t tile, next;         /* in elements: from tile to tile; between two of the thread's elements in a tile */
    int64_t k_left, lines_left; /* that exist from its first element on */
    int line, l;                /* position of its first element in a tile */
    int line_step, l_step;      /* distance to its next element, unless `wide` */
    bool wide;                  /* its four elements are 16 bytes of one k, copied at once */

    __device__ carrier(const float *matrix, int64_t first_line, int64_t lines, int64_t k, bool k_adjacent, bool aligned)
        : wide(aligned && !k_adjacent) {
        const int t = int(threadIdx.x);
        line = wide ? t % (TILE / 4) * 4 : k_adjacent ? t / STEP : t % TILE;
        l = wide ? t / (TILE / 4) : k_adjacent ? t % STEP : t / TILE;
        line_step = k_adjacent ? THREADS / STEP : 0;
        l_step = k_adjacent ? 0 : THREADS / TILE;
        const int64_t over_lines = k_adjacent ? k : 1, over_k = k_adjacent ? 1 : lines;
        from = matrix + (first_line + line) * over_lines + l * over_k;
        next = line_step * over_lines + l_step * over_k;
        tile = STEP * over_k;
        k_left = k - l;
        lines_left = lines - first_line - line;
    }

    /* Starts the copies of the next tile. Aligned lines end at a multiple of four. */
    __device__ void start(float (*to)[TILE + 4]) {
        if (wide) {
            copy_async<16>(shared_address(&to[l][line]), from, k_left > 0 && lines_left > 0);
        } else {
#pragma unroll
            for (int i = 0; i < COPIES; i++)
                copy_async<4>(shared_address(&to[l + i * l_step][line + i * line_step]), from + i * next,
                              i * l_step < k_left && i * line_step < lines_left);
        }
        from += tile;
        k_left -= STEP;
    }
};

/* Computes one tile of C per block. a_aligned, b_aligned: do all rows of the operand, if its lines are adjacent, begin
 * on 16 bytes? */
__global__ void __launch_bounds__(THREADS, 2)
    matmul_pipelined_kernel(const __grid_constant__ matmul_args args, bool a_aligned, bool b_aligned) {
    __shared__ stage stages[STAGES];

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    carrier a(static_cast<const float *>(args.a) + tile.batch * args.a_batch_stride, row, args.m, args.k,
              !args.transpose_a, a_aligned);
    carrier b(static_cast<const float *>(args.b) + tile.batch * args.b_batch_stride, column, args.n, args.k,
              args.transpose_b, b_aligned);
    const int y = int(threadIdx.x) / SIDE * 4, x = int(threadIdx.x) % SIDE * 4;

    /* Copies beyond k write zeros and read nothing, and each step commits a group: so the loop needs no exception. */
    for (int s = 0; s < STAGES - 1; s++) {
        a.start(stages[s].a);
        b.start(stages[s].b);
        copy_commit();
    }
    float sums[EACH][EACH] = {};
    int at = 0, free = STAGES - 1; /* the stage to multiply, the stage to fill */
    for (int64_t k = 0; k < args.k; k += STEP) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        a.start(stages[free].a);
        b.start(stages[free].b);
        copy_commit();
#pragma unroll
        for (int l = 0; l < STEP; l++) {
            four rows[EACH / 4], columns[EACH / 4];
#pragma unroll
            for (int i = 0; i < EACH / 4; i++) {
                rows[i] = *reinterpret_cast<const four *>(&stages[at].a[l][y + i * 64]);
                columns[i] = *reinterpret_cast<const four *>(&stages[at].b[l][x + i * 64]);
            }
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++) sums[i][j] += rows[i / 4].element[i % 4] * columns[j / 4].element[j % 4];
        }
        free = at;
        at = at == STAGES - 1 ? 0 : at + 1;
    }
    copy_wait<0>();

#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int64_t r = row + y + i / 4 * 64 + i % 4, c = column + x + j / 4 * 64 + j % 4;
            if (r < args.m && c < args.n) matmul_store<float>(args, (tile.batch * args.m + r) * args.n + c, sums[i][j]);
        }
}

static int matmul_pipelined_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    const bool a_aligned = args.m % 4 == 0 && args.a_batch_stride % 4 == 0;
    const bool b_aligned = args.n % 4 == 0 && args.b_batch_stride % 4 == 0;
    matmul_pipelined_kernel<<<grid_of(blocks), THREADS, 0, stream_of(launch)>>>(args, a_aligned, b_aligned);
    return cudaGetLastError();
}

KERNEL(matmul_pipelined) = {
    .name = "pipelined",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "8x8 elements of C per thread, tiles copied past the registers into a ring of three stages",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{TILE, 4}, {TILE, 4}, {STEP, 4, STAGES *STEP}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = matmul_pipelined_launch,
};
