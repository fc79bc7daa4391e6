/* even.cuh - equal work for every block: a tile that one block begins, the next one may end.
 *
 * A product of 5.3 tiles per multiprocessor takes as long as one of 6: in the last round most multiprocessors wait for
 * a few. Here there are as many blocks as run at once, and each has an even share of the last tiles, between one and
 * two per block:
 *
 *     steps of k ->                                    Where shares end, tiles are cut. Block 0 begins tile 1, block 1
 *     tile   |    0    |    1    |    2    |    3 ...  ends it. The tiles before, a whole number for each block, are
 *     block  |      0     |      1     |      2   ...  taken as they are.
 *
 * The block that ends a tile does not add its sums to the other's: it starts from them. So each element of C is summed
 * k by k as if its tile were whole, and has the same bits; there are no planes and no second order of addition.
 *
 * No block waits for long. A block first begins the tile that the next block ends, and leaves the sums in global
 * memory. Then it does its whole tiles; last it ends the tile that the previous block has begun. As a share is no less
 * than a tile, the previous block has had the time to leave its sums; a flag records that. Blocks start in the order of
 * their numbers, and a block waits only for the previous one, which waits for none until it has left its sums: so there
 * is no deadlock.
 *
 * While the sums of one tile are stored, the first stages of the next are on their way. Storing is still not hidden:
 * the fitted model adds the time of C's bytes at 2.1 TB/s to all multiplying, with one block per multiprocessor or two.
 *
 * Measured on an H200, in microseconds: m x n x k, cuBLAS, the best without this; the number of rounds that tiles of
 * 128 x 128 would take; then this kernel by its tile:
 *
 *                                     rounds of 128    128 x 128    128 x 64    64 x 64
 *     9024 x 588 x 3008       577  600     2.7             574          594        598
 *     3460 x 1240 x 3126      518  531     2.1             497          500        554
 *     3460 x 3126 x 1240      475  510     5.3             507          497        528
 *     the same, transposed    483  516     5.3             492          493        480
 *     3461 x 3125 x 1241      683  567     5.4             560          532        629
 *     1700^3, transposed      183  198     1.5             193          189        182
 *     4096^3                 2181 2252     7.8            2229         2291       2370 */
#ifndef KERNELS_MATMUL_EVEN_CUH
#define KERNELS_MATMUL_EVEN_CUH

#include "shares.cuh"

/* The division of a launch: each block does an equal number of whole tiles, and a share of the remaining tiles. */
struct even_work {
    unsigned unshared_tiles;     /* tiles done whole, before the shared ones: a multiple of the number of blocks */
    unsigned share_steps, extra; /* steps of k in a block's share; the first `extra` blocks have one more */
    unsigned steps;              /* of a tile */
    unsigned rows, columns;      /* numbers of tiles */
    double *parts;               /* [blocks]: the sums of the tile that the next block ends */
    unsigned *ready;             /* [blocks]: 1 when the block's parts are there; 0 before and after every launch */
};

/* The first step of a block's share, counted over the steps of all shared tiles. */
__device__ inline unsigned even_begin(const even_work &even, unsigned block) {
    return block * even.share_steps + min(block, even.extra);
}

/* Reads a flag: if another block has set it, this thread then sees what that block wrote before. */
__device__ inline unsigned even_load(const unsigned *flag) {
    unsigned value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

/* Sets a flag, after all that this thread wrote before. */
__device__ inline void even_store(unsigned *flag, unsigned value) {
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/* A block's part of one tile. A block does its pieces in this order: the tile at the end of its share, its whole tiles,
 * the other tiles of its share from last to first. */
struct even_piece {
    unsigned tile, from, to; /* steps [from, to) of the tile's k; to 0: there is no such piece */
};

/* A block's piece number 0, 1 ... in the order above. */
__device__ inline even_piece even_piece_of(const even_work &even, unsigned block, unsigned number) {
    const unsigned before = even.unshared_tiles / gridDim.x;
    if (number > 0 && number <= before) return {block + (number - 1) * gridDim.x, 0, even.steps};
    const unsigned begin = even_begin(even, block), end = even_begin(even, block + 1);
    const unsigned last = (end - 1) / even.steps, back = number > 0 ? number - before : 0;
    if (begin / even.steps + back > last) return {0, 0, 0};
    const unsigned at = last - back, first = at * even.steps;
    return {even.unshared_tiles + at, max(begin, first) - first, min(end - first, even.steps)};
}

/* The position in C of tile number `tile`: bands of GROUP tile rows, down the columns of each (as
 * matmul_piece_of_block). */
__device__ inline tile_position even_place(const even_work &even, unsigned tile) {
    const unsigned tiles = even.rows * even.columns, matrix = tile / tiles, at = tile - matrix * tiles;
    const unsigned first = at / (GROUP * even.columns) * GROUP, within = at - first * even.columns;
    const unsigned height = min(even.rows - first, unsigned(GROUP)), column = within / height;
    return {matrix, first + within - column * height, column};
}

/* The block's number, hidden from the compiler so that it computes nothing from it ahead of time. */
__device__ inline unsigned block_again() {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

/* Does all pieces of a block, one after the other. SHAPE: a share_shape (shares.cuh) of float64. */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_even_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work,
                       const __grid_constant__ even_work even) {
    if (work.wanted && *work.wanted == 0) return;
    using T = typename SHAPE::T;
    using a_feeder = share_feeder<SHAPE, A, A_WIDTH, SHAPE::ROWS>;
    using b_feeder = share_feeder<SHAPE, B, B_WIDTH, SHAPE::COLUMNS>;
    using worker = share_doubles<SHAPE, a_feeder, b_feeder>;
    constexpr unsigned STAGE_BYTES = (a_feeder::ELEMENTS + b_feeder::ELEMENTS) * sizeof(T);
    constexpr int PAIRS = worker::ROWS * worker::COLUMNS; /* of sums, per thread */
    extern __shared__ uint4 share_stages[];
    T *const stages = reinterpret_cast<T *>(share_stages);
    constexpr int ABREAST = SHAPE::COLUMNS / SHAPE::WARP_N;
    const int warp = int(threadIdx.x) / 32;
    const int y = warp / ABREAST * SHAPE::WARP_M, x = warp % ABREAST * SHAPE::WARP_N;

    const auto piece_of = [&](const even_piece &it) {
        const int64_t begin = int64_t(it.from) * SHAPE::BK, end = int64_t(it.to) * SHAPE::BK;
        return matmul_piece{even_place(even, it.tile), 0, begin, min(end, args.k)};
    };
    const auto feeder_a = [&](const matmul_piece &piece) {
        return a_feeder(static_cast<const T *>(args.a) + piece.tile.batch * args.a_batch_stride, stages, args.m,
                        piece.tile.row * SHAPE::ROWS, A == LINES ? args.m : args.k, piece.k_begin);
    };
    const auto feeder_b = [&](const matmul_piece &piece) {
        return b_feeder(static_cast<const T *>(args.b) + piece.tile.batch * args.b_batch_stride,
                        stages + a_feeder::ELEMENTS, args.n, piece.tile.column * SHAPE::COLUMNS,
                        B == LINES ? args.n : args.k, piece.k_begin);
    };

    unsigned number = 0; /* of the piece */
    even_piece coming = even_piece_of(even, block_again(), number);
    matmul_piece next = piece_of(coming);
    a_feeder a = feeder_a(next);
    b_feeder b = feeder_b(next);
    stages_fill<SHAPE::STAGES, STAGE_BYTES, SHAPE::BK>(a, b, next);
    while (coming.to > 0) {
        worker own(stages + y * a_feeder::LINE, stages + a_feeder::ELEMENTS + x * b_feeder::LINE);
        if (coming.from > 0) { /* continues where the previous block has stopped */
            const unsigned other = block_again() - 1;
            const double2 *const part = reinterpret_cast<const double2 *>(even.parts) + other * PAIRS * SHAPE::THREADS;
            if (threadIdx.x == 0) {
                while (even_load(even.ready + other) == 0) {
                }
                even.ready[other] = 0;
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                double *const pair = &own.sums[i / 2 / worker::COLUMNS][i / 2 % worker::COLUMNS][i % 2 * 2];
                const double2 theirs = __ldcg(part + i * SHAPE::THREADS + threadIdx.x);
                pair[0] = theirs.x;
                pair[1] = theirs.y;
            }
        }
        stages_follow<SHAPE::STAGES, STAGE_BYTES, SHAPE::BK, worker::STEP>(
            a, b, next, [&](int buffer, unsigned offset, int at) { own.load(buffer, offset, at); },
            [&](int buffer) { own.work(buffer); });
        __syncthreads();                 /* the stages are free for the next piece */
        asm volatile("" : "+r"(number)); /* keeps the compiler from computing what follows before this point */
        const unsigned block = block_again();
        coming = even_piece_of(even, block, number + 1);
        if (coming.to > 0) {
            next = piece_of(coming);
            a = feeder_a(next);
            b = feeder_b(next);
            stages_fill<SHAPE::STAGES, STAGE_BYTES, SHAPE::BK>(a, b, next);
        }
        const even_piece now = even_piece_of(even, block, number++);
        if (now.to < even.steps) { /* the next block ends the tile */
            double2 *const part = reinterpret_cast<double2 *>(even.parts) + block * PAIRS * SHAPE::THREADS;
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                const double *const pair = &own.sums[i / 2 / worker::COLUMNS][i / 2 % worker::COLUMNS][i % 2 * 2];
                __stcg(part + i * SHAPE::THREADS + threadIdx.x, make_double2(pair[0], pair[1]));
            }
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) even_store(even.ready + block, 1);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2 * PAIRS; i++) { /* as shares.cuh leaves them */
            double &sum = own.sums[i / 4 / worker::COLUMNS][i / 4 % worker::COLUMNS][i % 4];
            sum = same_nan(sum);
        }
        const matmul_piece done = piece_of(now);
        matmul_leave_warp<double>(args, work, done, done.tile.row * SHAPE::ROWS + y,
                                  done.tile.column * SHAPE::COLUMNS + x, own.sums);
    }
}

/* The bytes of workspace in which blocks leave sums; 0 if no launch of a run can be shared evenly. */
inline size_t even_bytes(const struct launch *launch, const matmul_cut &cut) {
    const int64_t blocks = int64_t(cut.slots) * launch->multiprocessors;
    if (cut.even == 0 || matmul_tiles(launch->args.matmul, cut) < blocks) return 0;
    return size_t(blocks) * size_t(cut.rows) * size_t(cut.columns) * sizeof(double);
}

/* Starts the kernel; there are at least as many tiles as blocks. `ready`, `parts`: as in even_work. */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
int even_start(const struct launch *launch, const matmul_cut &cut, unsigned *ready, double *parts) {
    const matmul_args &args = launch->args.matmul;
    const unsigned blocks = unsigned(cut.slots * launch->multiprocessors), tiles = unsigned(matmul_tiles(args, cut));
    const unsigned unshared_tiles = (tiles / blocks - 1) * blocks, steps = unsigned(ceil_div(args.k, SHAPE::BK));
    const unsigned units = (tiles - unshared_tiles) * steps;
    const even_work even = {.unshared_tiles = unshared_tiles,
                            .share_steps = units / blocks,
                            .extra = units % blocks,
                            .steps = steps,
                            .rows = unsigned(ceil_div(args.m, cut.rows)),
                            .columns = unsigned(ceil_div(args.n, cut.columns)),
                            .parts = parts,
                            .ready = ready};
    const auto kernel = matmul_even_kernel<SHAPE, A, A_WIDTH, B, B_WIDTH>;
    constexpr int BYTES = share_bytes<SHAPE, A, A_WIDTH, B, B_WIDTH>;
    const int code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (code != cudaSuccess) return code;
    kernel<<<blocks, SHAPE::THREADS, BYTES, stream_of(launch)>>>(args, matmul_divide(launch, cut, {0, 1, 1, 0}), even);
    return cudaGetLastError();
}

#endif
