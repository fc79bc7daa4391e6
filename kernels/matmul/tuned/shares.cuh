/* shares.cuh - small tiles for dmma.cu and async.cu, whose k is shared: by warps and by blocks.
 *
 * A product of a few microseconds has little work, but all the latencies of a large one: the launch, the first
 * operands, one instruction after the other, the sums on their way to C. Large tiles leave most of the device idle, and
 * with k cut into planes a second launch has to add them. Three means shorten it here:
 *
 *     stage   k ->               1. Warps share k. A block of four warps on a tile of 32 x 32 gives each warp the whole
 *     +----+----+----+----+      tile and a quarter of each stage's k. So tiles can be small, and many, while an
 *     | w0 | w1 | w2 | w3 |      element that a warp loads still feeds as many multiply-adds as in a large tile.
 *     +----+----+----+----+
 *
 *     block  0    1    2    3    2. Blocks share k. Those with the pieces of one tile are a cluster. Each adds a part
 *     sums  +--+ +--+ +--+ +--+  of the tile: it reads the sums of all warps of all blocks out of their shared memory,
 *       --> |==| |==| |==| |==|  first to last, and stores what it added. There is no second launch, and no way through
 *           |  | |  | |  | |  |  global memory. Planes remain for a k that is cut into more than eight pieces.
 *           +--+ +--+ +--+ +--+
 *
 * 3. Copies from global to shared memory are asynchronous and bypass the registers. Operands keep their layout, and all
 * stages but one are requested before the first multiplication. (async.cu transposes some operands through registers;
 * here that would wait for memory once a stage.) If k is adjacent in a stage of floats, a thread reads four k of a
 * line at once.
 *
 * Sums go through shared memory even if there is nothing to add: neighbouring threads then write rows of C, in
 * 16 bytes each if they are aligned. On a GPU with clusters a launch that leaves room for another may begin while the
 * previous one ends.
 *
 * Measured on an H200, in microseconds: this kernel, cuBLAS, and the best tile that cuts k only into planes (cut.cuh):
 *
 *     float64    176^3           2.6   3.4  10.6      1000^3         45.9  40.4  48.5      1501^3   139  171  198
 *                473^3          10.2   9.8  19.4      32x4096x4096   39.4  42.5  55.6      3000^3   903  868  959
 *                700^3          17.1  17.3  27.4      189x4096x4096   110   114   148
 *     float32    176^3           3.9   5.3  10.0      700^3          25.7  22.8  31.8
 *                473^3          13.3  11.9  19.3      32x4096x4096   48.4  39.4  56.0
 *
 * The limit: a barrier of a cluster takes 0.6 us and more, so blocks share k only if it is long. */
#ifndef KERNELS_MATMUL_SHARES_CUH
#define KERNELS_MATMUL_SHARES_CUH

#include "../../core/cluster.cuh"
#include "../../core/fragments.cuh"
#include "async.cuh"
#include <iterator>

/* A block computes ROWS x COLUMNS of C, divided into warp tiles of WARP_M x WARP_N. WARPS_K warps work on each warp
 * tile: each takes BK / WARPS_K of the k of a stage. */
template <typename T_, int ROWS_, int COLUMNS_, int WARP_M_, int WARP_N_, int WARPS_K_, int BK_, int STAGES_,
          int BLOCKS_>
struct share_shape {
    using T = T_;
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, WARP_M = WARP_M_, WARP_N = WARP_N_, WARPS_K = WARPS_K_;
    static constexpr int BK = BK_, STAGES = STAGES_, BLOCKS = BLOCKS_;       /* BLOCKS: per multiprocessor */
    static constexpr int WARPS = ROWS / WARP_M * (COLUMNS / WARP_N);         /* that cover the tile */
    static constexpr int THREADS = WARPS * WARPS_K * 32, OWN = BK / WARPS_K; /* OWN: k of a stage that a warp takes */
    static constexpr int VECTOR = 16 / sizeof(T);
    static constexpr int PITCH = COLUMNS + (sizeof(T) == 8 ? 8 : 4); /* of a row of sums in shared memory */
    static constexpr int PLANE = ROWS * PITCH;                       /* the sums of one k share of a tile */
    /* With one warp the terms are added in ascending k, whatever BK. */
    static constexpr int ORDER = WARPS_K == 1 ? 256 : WARPS_K * 256 + OWN;
    static_assert(WARPS_K < 16 && OWN < 256, "as matmul_way numbers them");

    /* The shape as the model of cut.cuh sees it: rows, columns, slots, step, min_k, flops, alone, start, order, shares,
     * even of struct matmul_cut. */
    static constexpr matmul_cut cut(double flops, double alone, double start, double even = 0) {
        return {ROWS, COLUMNS, BLOCKS, BK, 64, flops, alone, start, ORDER, true, even};
    }
};

/* Copies an operand into stages (async.cuh). LINE and K: elements of a stage from line to line and from k to k. Below,
 * a SHAPE is a share_shape, and A and B are the share_feeders of both operands. */
template <typename SHAPE, enum layout LAYOUT, int WIDTH, int LINES_>
struct share_feeder : feeder<typename SHAPE::T, LAYOUT, WIDTH, LINES_, SHAPE::BK, SHAPE::THREADS> {
    using feeder<typename SHAPE::T, LAYOUT, WIDTH, LINES_, SHAPE::BK, SHAPE::THREADS>::feeder;
    static constexpr int LINE = LAYOUT == LINES ? 1 : share_feeder::ROW, K = LAYOUT == LINES ? share_feeder::ROW : 1;
};

/* ---- what a warp does with a stage ------------------------------------------------------------------------------- */

/* share_doubles and share_floats multiply a warp's tile. load() reads STEP k of both operands into one of two register
 * buffers, from number `l` on of the k in the stage that lies `offset` bytes behind the first; work() multiplies a
 * buffer; leave() writes the warp's sums to a plane in shared memory.
 *
 * float64: on tensor cores. */
template <typename SHAPE, typename A, typename B> struct share_doubles {
    static constexpr int STEP = 4, ROWS = SHAPE::WARP_M / 8, COLUMNS = SHAPE::WARP_N / 8;
    double sums[ROWS / 2][COLUMNS][4] = {};
    double rows[2][ROWS / 2][2], columns[2][COLUMNS]; /* operands of these 4 k and of the next, being loaded */
    const double *a, *b;                              /* the thread's first, in stage 0 */

    __device__ share_doubles(const double *a_stage, const double *b_stage) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        a = a_stage + g * A::LINE + t * A::K;
        b = b_stage + g * B::LINE + t * B::K;
    }

    __device__ void load(int buffer, unsigned offset, int l) {
        const double *const as = a + offset / sizeof(double), *const bs = b + offset / sizeof(double);
#pragma unroll
        for (int i = 0; i < ROWS; i++) rows[buffer][i / 2][i % 2] = as[i * 8 * A::LINE + l * A::K];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) columns[buffer][j] = bs[j * 8 * B::LINE + l * B::K];
    }

    __device__ void work(int buffer) {
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const int zigzag = i % 2 ? COLUMNS - 1 - j : j;
                multiply(sums[i][zigzag], rows[buffer][i], columns[buffer][zigzag]);
            }
    }

    __device__ void leave(double *plane) const {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                *reinterpret_cast<double2 *>(plane + (i * 8 + g) * SHAPE::PITCH + j * 8 + t * 2) =
                    make_double2(sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
    }
};

/* float32: by multiply-adds. The threads of a warp form a grid of 8 x 4. One read of a thread takes 2 or 4 adjacent
 * lines or, if k is adjacent in the stage, 4 adjacent k of one line; then the padding puts the warp's lines into
 * different banks. */
template <typename SHAPE, typename A, typename B> struct share_floats {
    static constexpr int STEP = 4, ROWS = SHAPE::WARP_M / 8, COLUMNS = SHAPE::WARP_N / 4;
    float sums[ROWS][COLUMNS] = {};
    float rows[2][STEP][ROWS], columns[2][STEP][COLUMNS]; /* operands of these 4 k and of the next, being loaded */
    const float *a, *b;                                   /* the thread's first, in stage 0 */
    template <int COUNT> struct alignas(COUNT * sizeof(float)) aligned { float x[COUNT]; };
    /* Number of adjacent lines in each group of a thread. */
    static constexpr int A_NEXT = A::LINE > 1 ? 1 : ROWS % 4 ? 2 : 4, B_NEXT = B::LINE > 1 ? 1 : COLUMNS % 4 ? 2 : 4;
    static_assert(ROWS % 2 == 0 && COLUMNS % 2 == 0, "reads of two lines or four");

    __device__ static int row(int i) {
        return int(threadIdx.x) % 32 / 4 * A_NEXT + i % A_NEXT + i / A_NEXT * 8 * A_NEXT;
    }

    __device__ static int column(int j) { return int(threadIdx.x) % 4 * B_NEXT + j % B_NEXT + j / B_NEXT * 4 * B_NEXT; }

    __device__ share_floats(const float *a_stage, const float *b_stage) {
        a = a_stage + row(0) * A::LINE;
        b = b_stage + column(0) * B::LINE;
    }

    /* Loads STEP k of the thread's COUNT lines. The lines come in groups of NEXT adjacent ones; groups start SPAN *
     * NEXT lines apart. */
    template <typename OPERAND, int NEXT, int SPAN, int COUNT>
    __device__ static void load_of(float (&to)[STEP][COUNT], const float *from) {
        constexpr int WIDTH = NEXT == 1 ? STEP : NEXT;
        static_assert(NEXT > 1 || OPERAND::K == 1, "a thread reads along one of both");
#pragma unroll
        for (int k = 0; k < (NEXT == 1 ? 1 : STEP); k++)
#pragma unroll
            for (int i = 0; i < COUNT; i += NEXT) {
                const float *const at = from + k * OPERAND::K + i * SPAN * OPERAND::LINE;
                const auto read = *reinterpret_cast<const aligned<WIDTH> *>(at);
#pragma unroll
                for (int e = 0; e < WIDTH; e++) to[NEXT == 1 ? e : k][NEXT == 1 ? i : i + e] = read.x[e];
            }
    }

    __device__ void load(int buffer, unsigned offset, int l) {
        load_of<A, A_NEXT, 8>(rows[buffer], a + offset / sizeof(float) + l * A::K);
        load_of<B, B_NEXT, 4>(columns[buffer], b + offset / sizeof(float) + l * B::K);
    }

    __device__ void work(int buffer) {
#pragma unroll
        for (int k = 0; k < STEP; k++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const int zigzag = j % 2 ? ROWS - 1 - i : i;
                    sums[zigzag][j] += rows[buffer][k][zigzag] * columns[buffer][k][j];
                }
    }

    __device__ void leave(float *plane) const {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) plane[row(i) * SHAPE::PITCH + column(j)] = sums[i][j];
    }
};

/* ---- clusters: where there are none, a tile has one share -------------------------------------------------------- */

#if __CUDA_ARCH__ >= 900
/* The number of this block among those that share its tile. */
__device__ inline unsigned share_rank(const matmul_work &work) {
    return work.shares > 1 ? cluster_column() : 0;
}

/* The address of `shared` in the shared memory of block number `rank`. */
template <typename T> __device__ inline const T *share_of(const matmul_work &work, const T *shared, unsigned rank) {
    return work.shares > 1 ? cluster_shared(shared, rank) : shared;
}

/* Waits for all threads that share a tile. */
__device__ inline void share_sync(const matmul_work &work) {
    if (work.shares > 1)
        cluster_sync();
    else
        __syncthreads();
}

/* Waits until others no longer read this block's shared memory. */
__device__ inline void share_end(const matmul_work &work) {
    __syncwarp();
    if (work.shares > 1) cluster_have_read();
}
#else
/* Without clusters (before compute capability 9.0) a block has the only share of its tile, number 0. */
__device__ inline unsigned share_rank(const matmul_work &) {
    return 0;
}

template <typename T> __device__ inline const T *share_of(const matmul_work &, const T *shared, unsigned) {
    return shared;
}

__device__ inline void share_sync(const matmul_work &) {
    __syncthreads();
}

__device__ inline void share_end(const matmul_work &) {}
#endif

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* Adds the partial sums of all warps of all blocks of the cluster, for this block's share of the tile, and stores the
 * results. The order is fixed: block 0 first, and in a block warp group 0 first. A thread adds vectors of WIDTH
 * adjacent elements, so that adjacent threads write adjacent parts of a row of C, and BATCH vectors at once, so that
 * their reads of shared memory overlap. */
template <typename SHAPE, int WIDTH>
__device__ inline void share_add(const matmul_args &args, const matmul_work &work, const matmul_piece &piece,
                                 typename SHAPE::T *planes) {
    using T = typename SHAPE::T;
    constexpr int ACROSS = SHAPE::COLUMNS / WIDTH, COUNT = SHAPE::ROWS * ACROSS, BATCH = 4;
    struct alignas(WIDTH * sizeof(T)) vector {
        T x[WIDTH];
    };
    const int stride = int(work.shares) * SHAPE::THREADS;
    for (int at = int(share_rank(work)) * SHAPE::THREADS + int(threadIdx.x); at < COUNT; at += BATCH * stride) {
        vector sums[BATCH] = {};
        for (unsigned share = 0; share < work.shares; share++) {
            const T *const from = share_of(work, planes, share);
#pragma unroll
            for (int w = 0; w < SHAPE::WARPS_K; w++)
#pragma unroll
                for (int i = 0; i < BATCH; i++) {
                    const int vector_index = at + i * stride;
                    if (vector_index >= COUNT) continue;
                    const vector more = *reinterpret_cast<const vector *>(
                        from + w * SHAPE::PLANE + vector_index / ACROSS * SHAPE::PITCH + vector_index % ACROSS * WIDTH);
#pragma unroll
                    for (int e = 0; e < WIDTH; e++)
                        sums[i].x[e] = share == 0 && w == 0 ? more.x[e] : sums[i].x[e] + more.x[e];
                }
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
#pragma unroll
            for (int e = 0; e < WIDTH; e++) sums[i].x[e] = same_nan(sums[i].x[e]);
            const int vector_index = at + i * stride;
            const int64_t row = piece.tile.row * SHAPE::ROWS + vector_index / ACROSS;
            const int64_t column = piece.tile.column * SHAPE::COLUMNS + vector_index % ACROSS * WIDTH;
            if (vector_index < COUNT && row < args.m && column < args.n)
                matmul_leave<T, WIDTH>(args, work, piece.split, (piece.tile.batch * args.m + row) * args.n + column,
                                       sums[i].x, args.n - column, true);
        }
    }
}

/* Computes a piece of k of one tile in each block; the blocks of a cluster add their pieces. */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_share_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    using T = typename SHAPE::T;
    using a_feeder = share_feeder<SHAPE, A, A_WIDTH, SHAPE::ROWS>;
    using b_feeder = share_feeder<SHAPE, B, B_WIDTH, SHAPE::COLUMNS>;
    using worker = std::conditional_t<std::is_same_v<T, double>, share_doubles<SHAPE, a_feeder, b_feeder>,
                                      share_floats<SHAPE, a_feeder, b_feeder>>;
    constexpr unsigned STAGE_BYTES = (a_feeder::ELEMENTS + b_feeder::ELEMENTS) * sizeof(T);
    extern __shared__ uint4 share_stages[];
    T *const stages = reinterpret_cast<T *>(share_stages);

    matmul_piece piece = matmul_piece_of_block(args, work, quotient(block_number(), work.shares));
    if (piece.split >= work.splits) return;
    const int64_t number = piece.split * work.shares + share_rank(work);
    piece.k_begin = min(number * work.k_each, args.k);
    piece.k_end = min(piece.k_begin + work.k_each, args.k);
    const int64_t row = piece.tile.row * SHAPE::ROWS, column = piece.tile.column * SHAPE::COLUMNS;
    a_feeder a(static_cast<const T *>(args.a) + piece.tile.batch * args.a_batch_stride, stages, args.m, row,
               A == LINES ? args.m : args.k, piece.k_begin);
    b_feeder b(static_cast<const T *>(args.b) + piece.tile.batch * args.b_batch_stride, stages + a_feeder::ELEMENTS,
               args.n, column, B == LINES ? args.n : args.k, piece.k_begin);

    const int warp = int(threadIdx.x) / 32, part = warp / SHAPE::WARPS, warp_of_share = warp % SHAPE::WARPS;
    constexpr int ABREAST = SHAPE::COLUMNS / SHAPE::WARP_N;
    const int y = warp_of_share / ABREAST * SHAPE::WARP_M, x = warp_of_share % ABREAST * SHAPE::WARP_N,
              l = part * SHAPE::OWN;
    worker own(stages + y * a_feeder::LINE + l * a_feeder::K,
               stages + a_feeder::ELEMENTS + x * b_feeder::LINE + l * b_feeder::K);
    launch_wait();
    if (work.wanted && *work.wanted == 0) return;
    launch_next();
    stages_walk<SHAPE::STAGES, STAGE_BYTES, SHAPE::BK, worker::STEP, SHAPE::OWN>(
        a, b, piece, [&](int buffer, unsigned offset, int at) { own.load(buffer, offset, at); },
        [&](int buffer) { own.work(buffer); });

    __syncthreads(); /* the stages are free for sums */
    own.leave(stages + part * SHAPE::PLANE + y * SHAPE::PITCH + x);
    share_sync(work);
    if (args.n % SHAPE::VECTOR == 0)
        share_add<SHAPE, SHAPE::VECTOR>(args, work, piece, stages);
    else
        share_add<SHAPE, 1>(args, work, piece, stages);
    share_end(work);
}

/* The bytes that a shape's stages take. */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
constexpr int share_bytes = SHAPE::STAGES *int(sizeof(typename SHAPE::T)) *
                            (share_feeder<SHAPE, A, A_WIDTH, SHAPE::ROWS>::ELEMENTS +
                             share_feeder<SHAPE, B, B_WIDTH, SHAPE::COLUMNS>::ELEMENTS);

/* Starts the kernel for operands of these layouts, copied in words of A_WIDTH and B_WIDTH elements (async.cuh). */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
int share_start(const struct launch *launch, const matmul_cut &cut, const matmul_choice &choice) {
    using T = typename SHAPE::T;
    constexpr int PLANES = SHAPE::WARPS_K * SHAPE::PLANE * int(sizeof(T));
    constexpr int BYTES = std::max(share_bytes<SHAPE, A, A_WIDTH, B, B_WIDTH>, PLANES);
    static_assert(BYTES <= 227 * 1024 / SHAPE::BLOCKS - SYSTEM_SHARED, "more than a multiprocessor's shared memory");
    return matmul_pieces<T>(launch, matmul_share_kernel<SHAPE, A, A_WIDTH, B, B_WIDTH>, cut, choice, SHAPE::THREADS,
                            BYTES);
}

#endif
