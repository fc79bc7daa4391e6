/* outer.cu - products with a short k, that is, sums of a few outer products. Most of the memory traffic is writing C,
 * so a tile's operands are fetched at once and whole, and C is written in full lines.
 *
 *             B: k x 128           a block's tile of C: 4 or 8 warps of 8 rows
 *            |::::::::::|          +--------------------------------+
 *     A |:|  +----------+          |   0   1   2   3  ..  31  |  0  .. a warp's lanes lie side by side along its rows:
 *       |:|  |          |          |   0   1   2   3  ..  31  |  0  .. lane l has columns l, l + 32, l + 64, l + 96
 *       |:|  |    C     |          |  ...                     |       of each
 *       |:|  |          |          +--------------------------------+
 *
 * The other variants are built to hide the latency of a long k: stages that fill while others are used, and tiles whose
 * sums are stored as their layout in registers allows. With k = 19 the loop over k ends before the first stages are
 * full, and the time goes into the end: C is 50 times the operands. Here k is not cut at all, so there are no stages
 * and no second barrier; several small blocks share a multiprocessor, and some store while others fetch and multiply.
 *
 *     all loads of a thread first    then all stores to shared memory: one wait for memory instead of several
 *     any row may begin anywhere     a warp stores 32 neighbours of a row at once, wherever the row begins: whole
 *                                    sectors except at the ends
 *     no checks in inner tiles       a tile that lies within C is stored without bounds checks: code that runs only
 *                                    once in a tile costs its instruction fetches, so it should be short
 *
 * For each k a lane loads its rows' elements of A, the same for its whole warp, and 2 to 4 of B, and does 16 or 32
 * multiply-adds. In 16 bits the tensor cores do 16 of k at once; their sums then pass through shared memory, so that
 * they are stored in the same way. Whatever the tile, each element is added in the order of k.
 *
 * Measured, microseconds, m x n x k, cuBLAS in brackets:
 *
 *                          H200: float32         float64     H100: bfloat16    bfloat16 before it had tensor cores
 *     2137 x 2109 x 19    10.7 (13.6)     17.4 (21.0)     11.2 (10.3)     11.4
 *     5513 x  945 x 23    14.7 (15.2)     22.9 (23.3)     12.6 (10.5)     14.3
 *      301 x 5000 x 17     5.2  (5.4)      6.8  (7.9)      5.6  (5.0)      5.5
 *     1001 x 1003 x 64     7.9  (6.6)     12.3  (7.5)      5.6  (5.7)      8.2
 *     3003 x 2497 x 35                                    20.5 (15.4)     24.2
 *
 * The limit: multiply-adds without tensor cores. In 16 bits it is unknown: neither more loads in flight (20 instead of
 * 8) nor stores by words of two, with four blocks a multiprocessor instead of three, are faster. From about 64 of k on
 * there are faster ways. */
#include "../../core/cluster.cuh"
#include "../../core/fragments.cuh"
#include "../../core/shared.cuh"
#include "../matmul.cuh"
#include "ways.cuh"
#include <algorithm>
#include <cmath>

#define MAX_K       128  /* the largest k that `refuses` admits */
#define FLIGHT      8    /* loads of a thread before it stores */
#define EARLY_BYTES 20e6 /* largest C for an early begin of the next launch: a larger C would evict L2 */
#define EARLY       1e-6 /* seconds saved by a launch that begins early */

/* The SHAPE of the functions below. A warp has ROWS rows of 32 ACROSS columns; a thread has columns that lie 32 apart.
 * In 16 bits the tensor cores multiply, 16 of k at a time, and warps lie side by side in pairs; else they lie one below
 * the other. */
template <typename T_, int WARPS_, int ACROSS_, int BLOCKS_> struct outer_shape {
    using T = T_;
    using sum = accumulator<T>;
    static constexpr bool TENSOR = sizeof(T) == 2;
    using shared = std::conditional_t<TENSOR, T, sum>; /* an element of an operand in shared memory */
    static constexpr int ROWS = TENSOR ? 16 : 8, ACROSS = TENSOR ? ACROSS_ / 2 : ACROSS_, BESIDE = TENSOR ? 2 : 1;
    static constexpr int WARPS = WARPS_, THREADS = WARPS * 32;
    static constexpr int BLOCKS = BLOCKS_; /* that fit on a multiprocessor, by registers */
    static constexpr int WIDE = 32 * ACROSS, M = WARPS / BESIDE * ROWS, N = WIDE * BESIDE; /* of a warp, of a tile */
    /* Elements from one k to the next in shared memory; the padding puts them into different banks. */
    static constexpr int A_PITCH = TENSOR ? M + 8 : M + 4, B_PITCH = TENSOR ? N + 8 : N + 1;
    static constexpr int SUMS_PITCH = WIDE + 8; /* of a warp's sums on their way from the tensor cores' layout */

    /* Returns how many k the operands have in shared memory: tensor cores take 16 at a time, zeros beyond `k`. */
    __host__ __device__ static int padded(int k) { return TENSOR ? (k + 15) / 16 * 16 : k; }
    /* Elements in shared memory before B. For the tensor cores, a row of either layout ends in 8 unused ones, so that
     * rows that are read together lie in different banks. */
    __host__ __device__ static int before_b(int k) { return A_PITCH * (padded(k) + (TENSOR ? 8 : 0)); }
    static size_t bytes(int64_t k) {
        const size_t operands = size_t(before_b(int(k))) / A_PITCH * (A_PITCH + B_PITCH) * sizeof(shared);
        return std::max(operands, TENSOR ? size_t(WARPS) * ROWS * SUMS_PITCH * sizeof(sum) : 0);
    }
};

template <typename T>
using outer_shapes =
    std::conditional_t<sizeof(T) == 8,
                       std::tuple<outer_shape<T, 8, 4, 2>, outer_shape<T, 4, 4, 4>, outer_shape<T, 4, 2, 6>>,
                       std::tuple<outer_shape<T, 8, 4, 3>, outer_shape<T, 4, 4, 6>, outer_shape<T, 4, 2, 8>>>;
#define SHAPES 3

/* An operand of which a block fetches some lines, with all of their k. */
struct outer_operand {
    const void *from;
    int64_t stride; /* elements between matrices of a stack */
    int64_t lines;  /* rows of A or columns of B */
    bool lines_adjacent;
};

struct outer_work {
    outer_operand a, b;
    int64_t rows, columns; /* numbers of tiles */
    int k;
    int line_step, k_step; /* THREADS / k, THREADS % k: a thread's next element if k is adjacent */
};

/* An element in the type of the operand in shared memory. */
template <typename S, typename T> __device__ inline S outer_shared_value(T value) {
    if constexpr (std::is_same_v<S, T>)
        return value;
    else
        return widen(value);
}

/* Brings up to LINES lines, from `first` on, to shared memory, where `to_k` and `to_line` elements lie between
 * neighbours. */
template <typename T, int THREADS, int LINES, typename S>
__device__ inline void outer_fetch(const outer_operand &o, const outer_work &work, int64_t product, int64_t first,
                                   S *to, int to_k, int to_line) {
    const int lines = int(min(int64_t(LINES), o.lines - first)), k = work.k;
    const T *const from = static_cast<const T *>(o.from) + product * o.stride;
    T values[FLIGHT];
    if (o.lines_adjacent) {
        constexpr int DOWN = THREADS > LINES ? THREADS / LINES : 1;
        const int line = int(threadIdx.x) % LINES, begin = int(threadIdx.x) / LINES;
        const T *here = from + first + line + int64_t(begin) * o.lines;
        if (line >= lines) return;
        for (int l = begin; l < k; l += FLIGHT * DOWN) {
#pragma unroll
            for (int i = 0; i < FLIGHT; i++, here += DOWN * o.lines)
                if (l + i * DOWN < k) values[i] = *here;
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (l + i * DOWN < k) to[(l + i * DOWN) * to_k + line * to_line] = outer_shared_value<S>(values[i]);
        }
    } else {
        const T *const run = from + first * k;
        int line = int(threadIdx.x) / k, l = int(threadIdx.x) - line * k;
        for (int at = int(threadIdx.x); at < lines * k; at += FLIGHT * THREADS) {
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (at + i * THREADS < lines * k) values[i] = run[at + i * THREADS];
#pragma unroll
            for (int i = 0; i < FLIGHT; i++) {
                if (at + i * THREADS < lines * k) to[l * to_k + line * to_line] = outer_shared_value<S>(values[i]);
                line += work.line_step, l += work.k_step;
                if (l >= k) l -= k, line++;
            }
        }
    }
}

/* Zeros the elements beyond k that the tensor cores read. */
template <typename SHAPE, int LINES, typename S> __device__ inline void outer_pad(int k, S *to, int to_k, int to_line) {
    for (int i = int(threadIdx.x); i < (SHAPE::padded(k) - k) * LINES; i += SHAPE::THREADS)
        to[(k + i / LINES) * to_k + i % LINES * to_line] = S(0);
}

/* Elements of A for neighbouring rows, loaded at once. */
template <typename T> struct alignas(16) outer_rows { T x[16 / sizeof(T)]; };

/* Computes a warp's sums by multiply-adds, from a and b, in which the lines of each k are adjacent. */
template <typename SHAPE>
__device__ inline void outer_multiply(int k, const typename SHAPE::sum *a, const typename SHAPE::sum *b,
                                      typename SHAPE::sum (&sums)[SHAPE::ROWS][SHAPE::ACROSS]) {
    using sum = typename SHAPE::sum;
    constexpr int ROWS = SHAPE::ROWS, ACROSS = SHAPE::ACROSS;
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll(sizeof(sum) == 8 ? 1 : 2) /* more needs too many registers */
    for (int l = 0; l < k; l++) {
        constexpr int WIDE = 16 / sizeof(sum); /* rows that one load brings */
        sum right[ACROSS];
#pragma unroll
        for (int j = 0; j < ACROSS; j++) right[j] = b[l * SHAPE::B_PITCH + lane + 32 * j];
#pragma unroll
        for (int i = 0; i < ROWS; i += WIDE) {
            const auto *from = &a[l * SHAPE::A_PITCH + warp * ROWS + i];
            const outer_rows<sum> left = *reinterpret_cast<const outer_rows<sum> *>(from);
#pragma unroll
            for (int w = 0; w < WIDE; w++)
#pragma unroll
                for (int j = 0; j < ACROSS; j++) sums[i + w][j] += left.x[w] * right[j];
        }
    }
}

/* Computes a warp's sums on tensor cores. A line of an operand lies in shared memory as it does in memory: beside its
 * neighbours, or with its k side by side. On their way to the threads that store them the sums pass through shared
 * memory, where the operands were. */
template <typename SHAPE>
__device__ inline void outer_multiply(const outer_work &work, const typename SHAPE::T *a, const typename SHAPE::T *b,
                                      float (&sums)[SHAPE::ROWS][SHAPE::ACROSS]) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int padded = SHAPE::padded(work.k), matrix = lane / 8, line = lane % 8;
    const int low = matrix % 2 * 8, high = matrix / 2 * 8; /* where a thread's matrix begins, of the four of a load */
    const int row = warp / SHAPE::BESIDE * SHAPE::ROWS, column = warp % SHAPE::BESIDE * SHAPE::WIDE;
    fragment_sums<float, 1, SHAPE::WIDE / 8> tile;
    tile.clear();
    for (int l = 0; l < padded; l += 16) {
        uint32_t left[4];
        if (work.a.lines_adjacent)
            load_matrices<true>(left, shared_address(a + (l + line + high) * SHAPE::A_PITCH + row + low));
        else
            load_matrices<false>(left, shared_address(a + (row + line + low) * (padded + 8) + l + high));
#pragma unroll
        for (int j = 0; j < SHAPE::WIDE; j += 16) {
            uint32_t right[4];
            if (work.b.lines_adjacent)
                load_matrices<true>(right, shared_address(b + (l + line + low) * SHAPE::B_PITCH + column + j + high));
            else
                load_matrices<false>(right, shared_address(b + (column + j + line + high) * (padded + 8) + l + low));
            multiply<typename SHAPE::T>(tile.sums[0][j / 8], left, right[0], right[1]);
            multiply<typename SHAPE::T>(tile.sums[0][j / 8 + 1], left, right[2], right[3]);
        }
    }
    __syncthreads();
    extern __shared__ double2 outer_shared[];
    float *const warp_sums = reinterpret_cast<float *>(outer_shared) + warp * SHAPE::ROWS * SHAPE::SUMS_PITCH;
    tile.each([&](int i, int j, const float *two) {
        float *to = warp_sums + (i + lane / 4) * SHAPE::SUMS_PITCH + j + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to) = {two[0], two[1]};
    });
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SHAPE::ROWS; i++)
#pragma unroll
        for (int j = 0; j < SHAPE::ACROSS; j++) sums[i][j] = warp_sums[i * SHAPE::SUMS_PITCH + lane + 32 * j];
}

template <typename SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_outer_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ outer_work work) {
    using T = typename SHAPE::T;
    using sum = typename SHAPE::sum;
    constexpr int ROWS = SHAPE::ROWS, ACROSS = SHAPE::ACROSS;
    extern __shared__ double2 outer_shared[];
    auto *const a = reinterpret_cast<typename SHAPE::shared *>(outer_shared), *const b = a + SHAPE::before_b(work.k);
    const tile_position place = tile_of_block(work.rows, work.columns);
    if (place.batch >= args.batch) return;
    const int64_t first_row = place.row * SHAPE::M, first_column = place.column * SHAPE::N;
    const bool a_turned = SHAPE::TENSOR && !work.a.lines_adjacent, b_turned = SHAPE::TENSOR && !work.b.lines_adjacent;
    const int turned_pitch = SHAPE::padded(work.k) + 8;
    const int a_k = a_turned ? 1 : SHAPE::A_PITCH, a_line = a_turned ? turned_pitch : 1;
    const int b_k = b_turned ? 1 : SHAPE::B_PITCH, b_line = b_turned ? turned_pitch : 1;

    launch_wait();
    outer_fetch<T, SHAPE::THREADS, SHAPE::M>(work.a, work, place.batch, first_row, a, a_k, a_line);
    outer_fetch<T, SHAPE::THREADS, SHAPE::N>(work.b, work, place.batch, first_column, b, b_k, b_line);
    outer_pad<SHAPE, SHAPE::M>(work.k, a, a_k, a_line);
    outer_pad<SHAPE, SHAPE::N>(work.k, b, b_k, b_line);
    __syncthreads();
    launch_next();

    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    sum sums[ROWS][ACROSS] = {};
    if constexpr (SHAPE::TENSOR)
        outer_multiply<SHAPE>(work, a, b, sums);
    else
        outer_multiply<SHAPE>(work.k, a, b, sums);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++) sums[i][j] = same_nan(sums[i][j]);

    const int64_t row = first_row + warp / SHAPE::BESIDE * ROWS;
    const int64_t warp_column = first_column + warp % SHAPE::BESIDE * SHAPE::WIDE, column = warp_column + lane;
    int64_t at = (place.batch * args.m + row) * args.n + column;
    const sum factor = sum(args.alpha);
    const bool plain =
        args.first && args.last && (sizeof(T) == 2 ? matmul_in_float<T>(args.alpha) : factor == args.alpha);
    if (plain && row + ROWS <= args.m && warp_column + SHAPE::WIDE <= args.n) {
        T *c = static_cast<T *>(args.c) + at;
#pragma unroll
        for (int i = 0; i < ROWS; i++, c += args.n)
#pragma unroll
            for (int j = 0; j < ACROSS; j++) c[32 * j] = narrow<T>(factor * sums[i][j]);
    } else {
        const int rows = int(min(int64_t(ROWS), args.m - row)),
                  columns = int(min(int64_t(SHAPE::WIDE), args.n - column));
#pragma unroll
        for (int i = 0; i < ROWS; i++, at += args.n)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
                if (i < rows && 32 * j < columns) {
                    if (plain)
                        static_cast<T *>(args.c)[at + 32 * j] = narrow<T>(factor * sums[i][j]);
                    else
                        matmul_store<T>(args, at + 32 * j, sums[i][j]);
                }
    }
}

/* ---- the choice of a tile ---------------------------------------------------------------------------------------- */

/* A model of the time, fitted to ten products on an H200: seconds, and cycles of one multiprocessor. */
#define STARTED 2.6e-6 /* the launch, the first fetches and the last stores */
#define CLOCK   1.75e9 /* cycles in a second */
#define ADD     0.0098 /* cycles of an element of C for each k; twice that in float64 */
#define ADD_16  0.002  /* ADD of 16-bit types, by tensor cores */
#define FETCH   0.2    /* cycles of an element that is fetched to shared memory */
#define WARP    62.0   /* cycles of each warp of a tile, on top of these */
#define STORE   64.0   /* bytes of C in a cycle */
#define ENOUGH  24     /* warps that a multiprocessor needs at the same time */
#define EDGES   0.35   /* by this share a tile that reaches beyond C takes longer (422 of 115^3, H100: 97 us, not 61) */
#define ALONE   2000.0 /* cycles of a lone block, without its cost for each k */
#define MEMORY  2.9e12 /* of the device, bytes in a second */

/* The predicted time of a shape; INFINITY: its operands do not fit into shared memory. */
template <typename SHAPE> static double outer_seconds_of(const struct launch *launch) {
    using T = typename SHAPE::T;
    const matmul_args &args = launch->args.matmul;
    const double k = double(args.k), size = double(sizeof(T)), device = std::max(1, launch->multiprocessors);
    const double tiles = double(args.batch) * double(ceil_div(args.m, SHAPE::M)) * double(ceil_div(args.n, SHAPE::N));
    const double element = size > 4 ? 2 * ADD : size < 4 ? ADD_16 : ADD;
    const double add = element * SHAPE::M * SHAPE::N + FETCH * (SHAPE::M + SHAPE::N);
    const double tile = k * add + WARP * SHAPE::WARPS + SHAPE::M * SHAPE::N * size / STORE;
    const double alone = ALONE + k * (50 + 25 * SHAPE::ACROSS) * (size > 4 ? 1.5 : 1);
    const int64_t fit = max_shared_bytes() / (int64_t(SHAPE::bytes(args.k)) + SYSTEM_SHARED); /* blocks */
    const double warps = double(std::min(int64_t(SHAPE::BLOCKS), fit) * SHAPE::WARPS);
    /* The factor by which too few warps lengthen the work: they do not hide each other's latency. */
    const double few = std::sqrt(std::max(1.0, ENOUGH / std::max(warps, 1.0)));
    const double inner = double(args.batch) * double(args.m / SHAPE::M) * double(args.n / SHAPE::N);
    const double edges = 1 + EDGES * (1 - inner / std::max(tiles, 1.0));
    const double c = double(args.batch) * double(args.m) * double(args.n) * size;
    const double a = double(args.a_batch_stride ? args.batch : 1) * double(args.m) * k * size;
    const double b = double(args.b_batch_stride ? args.batch : 1) * double(args.n) * k * size;
    if (int64_t(SHAPE::bytes(args.k)) > max_shared_bytes()) return INFINITY;
    const double busy = std::max(std::ceil(tiles / device) * tile * few * edges, alone) / CLOCK;
    const double early = c <= EARLY_BYTES && launch_overlaps() ? EARLY : 0;
    return STARTED - early + std::max(busy, (a + b + c) / MEMORY);
}

struct outer_choice {
    int shape; /* number in outer_shapes */
    double seconds;
};

/* Chooses the shape that the job names, else the one with the shortest predicted time. Its time is INFINITY if shared
 * memory has no room for it, or for any shape. */
static outer_choice outer_choose(const struct launch *launch) {
    outer_choice best = {0, INFINITY};
    dispatch_float(launch->dtype, [&](auto type) {
        using shapes = outer_shapes<typename decltype(type)::type>;
        const auto weigh = [&]<int... WHICH>(std::integer_sequence<int, WHICH...>) {
            const double seconds[] = {outer_seconds_of<std::tuple_element_t<WHICH, shapes>>(launch)...};
            for (int i = 0; i < SHAPES; i++)
                if (launch->choice[0] ? launch->choice[0] == i + 1 : seconds[i] < best.seconds) best = {i, seconds[i]};
        };
        weigh(std::make_integer_sequence<int, SHAPES>());
        return 0;
    });
    return best;
}

static double matmul_outer_seconds(const struct launch *launch) {
    return outer_choose(launch).seconds;
}

static const char *matmul_outer_refuses(const struct launch *launch) {
    static_assert(MAX_K == 128, "as the message says");
    if (launch->args.matmul.k > MAX_K) return "k is longer than 128";
    return outer_choose(launch).seconds < INFINITY ? nullptr : "shared memory is too small for a tile with all of k";
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* Starts the kernel with tiles of this shape. If C is small, the launch may overlap the one before. Returns 0 or a
 * cudaError_t. */
template <typename SHAPE> static int outer_start(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int k = std::max(1, int(args.k));
    const outer_work work = {
        .a = {args.a, args.a_batch_stride, args.m, args.transpose_a},
        .b = {args.b, args.b_batch_stride, args.n, !args.transpose_b},
        .rows = ceil_div(args.m, SHAPE::M),
        .columns = ceil_div(args.n, SHAPE::N),
        .k = int(args.k),
        .line_step = SHAPE::THREADS / k,
        .k_step = SHAPE::THREADS % k,
    };
    const auto kernel = matmul_outer_kernel<SHAPE>;
    const int max_bytes = int(std::min(int64_t(SHAPE::bytes(MAX_K)), max_shared_bytes()));
    const int code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, max_bytes);
    if (code != cudaSuccess) return code;
    const double moved = double(args.m) * double(args.n) * double(args.batch) * double(sizeof(typename SHAPE::T));
    return launch_clusters_of(moved <= EARLY_BYTES, kernel, grid_of(args.batch * work.rows * work.columns),
                              SHAPE::THREADS, SHAPE::bytes(args.k), /* cluster */ 1, stream_of(launch), args, work);
}

static int matmul_outer_begin(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return 0;
    const int wanted = outer_choose(launch).shape;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using shapes = outer_shapes<typename decltype(type)::type>;
        return dispatch_tuple<shapes>(wanted, [&](auto shape) { return outer_start<decltype(shape)>(launch); });
    });
}

DECLARE_KERNEL(matmul_outer);
static int matmul_outer_launch(const struct launch *launch) {
    return ways_launch(&matmul_outer, launch, matmul_outer_begin);
}

KERNEL(matmul_outer) = {
    .name = "outer",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "for k up to 128: fetches a tile's operands at once and whole, writes C in full lines",
    .dtypes = DTYPES_FLOAT,
    .edges = {{64, 32, 16, 8}, {128, 64, 32}, {128, 64, 32, 16, 8}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "64x128", "32x128", "32x64"},
                    .help = "rows and columns of C per block; auto: as a model predicts"}},
    .refuses = matmul_outer_refuses,
    .seconds = matmul_outer_seconds,
    .launch = matmul_outer_launch,
};
