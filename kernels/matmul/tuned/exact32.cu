/* exact32.cu - float32 from bfloat16 tensor cores, in one launch: floats are cut on their way into shared memory.
 *
 * split.cu cuts both operands into copies of two slices before it multiplies. That takes several launches, for which a
 * small product is too short, and elements for which two slices do not suffice have to be computed again. Here a float
 * is cut into three slices of bfloat16, which hold all of its 24 bits and have its range: nothing is measured or scaled
 * beforehand, and the work does not depend on the numbers. There are six products instead of three:
 *
 *     x = a + b + c      A * B  ~  a * a  +  (b * a + a * b + b * b + c * a + a * c)        b c, c b, c c: below 2^-25
 *
 *     of A    floats |                            cut | 6 products     copies go past the registers, two slots of
 *     of B    floats | cut | three slices             |                32 of k ahead
 *             loaders: two warpgroups        consumers: two warpgroups, 64 rows each, A in registers
 *
 * The tensor core truncates where float32 rounds, so it sums 32 of k only, the smallest products first; float32
 * additions add these sums up (as in split.cu). One set of registers takes all six products: at most 2^-8 of the sum is
 * in it when the products of first slices are added.
 *
 * Blocks are many and small: tiles from 64 x 64 to 128 x 128, one per multiprocessor, and k is cut into up to eight
 * pieces, whose blocks are a cluster and add up in each other's shared memory. If rows do not lie in aligned groups of
 * four, floats are copied one by one.
 *
 * Which sums are right (exact_right). A slice may underflow where its float does not. The loaders and consumers record
 * the largest and the least magnitude of each line, a row of A or a column of B. An element is right
 *
 *     if no number of its lines is below 2^-102 and no product below 2^-88: every slice that counts is a normal number;
 *     or if its sum is so large that what may be lost is below 2^-22 of it.
 *
 * Practically all sums are one or the other, zeros included. What remains is computed by one thread, plainly: products
 * of numbers all of which are tiny, and lines with infinities, whose other slices are NaN. A line with a NaN gives NaN.
 * An element's lines and sum alone decide this, so its bits do not depend on other elements.
 *
 * Measured on an H200, microseconds, cuBLAS's float32 and this kernel at its best tile, numbers of N(0,1):
 *
 *     512^3     12.5   10.1      1500^3   183   120      128x4096x4096    93.5  62.2      335x1000x777     20.9  20.8
 *     640^3     21.9   14.8      2048^3   340   189                                       1001x1003x1005   50.4  38.0
 *     1000^3    49.7   28.9      4096^3  2672  1454                                       1049x1573x2355    207   140
 *
 * (Right: rows not in fours.) The Frobenius error was a fifth of cuBLAS's at 1000^3 of N(0,1).
 *
 * The limit: 32 of k of a 128 x 128 tile take 1.35 us, where tensor cores need 0.78 at full clock. */
#include "exact32.cuh"
#include "ways.cuh"

/* ---- sums to C --------------------------------------------------------------------------------------------------- */

/* Computes an element in float32, by one multiply-add after the other. */
__device__ __noinline__ float exact_dot(const matmul_args &args, int64_t batch, int64_t m, int64_t n) {
    const float *const a = static_cast<const float *>(args.a) + batch * args.a_batch_stride;
    const float *const b = static_cast<const float *>(args.b) + batch * args.b_batch_stride;
    const float *const x = a + m * (args.transpose_a ? 1 : args.k), *const y = b + n * (args.transpose_b ? args.k : 1);
    const int64_t x_step = args.transpose_a ? args.m : 1, y_step = args.transpose_b ? 1 : args.n;
    float sum = 0;
#pragma unroll 8
    for (int64_t l = 0; l < args.k; l++) sum = fmaf(x[l * x_step], y[l * y_step], sum);
    return sum;
}

/* Is the sum of an element whose lines have these extremes right (see above)? */
__device__ inline bool exact_right(const matmul_args &args, float sum, uint2 a, uint2 b) {
    if (!(fabsf(sum) <= FLT_MAX)) return false;
    const int i = exact_least(a), j = exact_least(b);
    if (min(i, j) >= TINY && i + j >= -88) return true;
    const float beside = (j < TINY ? exact_largest(a) : 0) + (i < TINY ? exact_largest(b) : 0);
    return fabsf(sum) >= float(args.k) * (0x1p-101f + 0x1p-102f * beside);
}

/* Adds up this block's part of the tile, from the planes of all blocks that share the tile, in their order; computes
 * anew each element that is not right (exact_right), and stores the part in C. */
template <typename SHAPE, int WIDTH>
__device__ inline void exact_add(const matmul_args &args, const matmul_work &work, const tile_position &tile,
                                 typename SHAPE::shared_t &shared) {
    constexpr int ACROSS = SHAPE::COLUMNS / WIDTH, COUNT = SHAPE::ROWS * ACROSS, BATCH = 4;
    struct alignas(WIDTH * sizeof(float)) vector {
        float x[WIDTH];
    };
    const float *const planes = reinterpret_cast<const float *>(shared.b);
    const float smallest = 0x1p-101f * float(args.k);
    uint32_t tiny = 0;
    for (unsigned share = 0; share < work.shares; share++) tiny |= *share_of(work, &shared.tiny, share);
    const int stride = int(work.shares) * EXACT_THREADS;
    for (int at = int(share_rank(work)) * EXACT_THREADS + int(threadIdx.x); at < COUNT; at += BATCH * stride) {
        vector sums[BATCH] = {};
        for (unsigned share = 0; share < work.shares; share++) {
            const float *const from = share_of(work, planes, share);
#pragma unroll
            for (int p = 0; p < SHAPE::PARTS; p++)
#pragma unroll
                for (int i = 0; i < BATCH; i++) {
                    const int vector_index = at + i * stride;
                    if (vector_index >= COUNT) continue;
                    const vector more = *reinterpret_cast<const vector *>(
                        from + p * SHAPE::PLANE + vector_index / ACROSS * SHAPE::PITCH + vector_index % ACROSS * WIDTH);
#pragma unroll
                    for (int e = 0; e < WIDTH; e++) sums[i].x[e] += more.x[e];
                }
        }
#pragma unroll 1
        for (int i = 0; i < BATCH; i++) {
            const int vector_index = at + i * stride, y = vector_index / ACROSS, x = vector_index % ACROSS * WIDTH;
            const int64_t row = tile.row * SHAPE::ROWS + y, column = tile.column * SHAPE::COLUMNS + x;
            if (vector_index >= COUNT || row >= args.m || column >= args.n) continue;
            vector sum = sums[0];
#pragma unroll
            for (int j = 1; j < BATCH; j++)
                if (i == j) sum = sums[j];
#pragma unroll
            for (int e = 0; e < WIDTH; e++) {
                if (!tiny && fabsf(sum.x[e]) >= smallest && fabsf(sum.x[e]) <= FLT_MAX) continue;
                if (column + e >= args.n) continue;
                uint2 a = {}, b = {};
                for (unsigned share = 0; share < work.shares; share++) {
                    const uint2 *const line = share_of(work, shared.line, share);
                    exact_widen(a, line[y]);
                    exact_widen(b, line[SHAPE::ROWS + x + e]);
                }
                if (exact_has_nan(a) || exact_has_nan(b))
                    sum.x[e] = __int_as_float(0x7fffffff);
                else if (!exact_right(args, sum.x[e], a, b))
                    sum.x[e] = exact_dot(args, tile.batch, row, column + e);
            }
            matmul_leave<float, WIDTH>(args, work, 0, (tile.batch * args.m + row) * args.n + column, sum.x,
                                       args.n - column, true);
        }
    }
}

/* Computes a piece of k of one tile in each block; the blocks of a cluster add their pieces. FOURS: rows in memory
 * consist of aligned groups of four. */
template <typename SHAPE, enum layout A, enum layout B, bool FOURS>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    matmul_exact32_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t exact_memory[];
    auto &shared = *reinterpret_cast<typename SHAPE::shared_t *>(exact_memory);
    const matmul_piece piece = matmul_piece_of_block(args, work, quotient(block_number(), work.shares));
    if (piece.split >= work.splits) return;
    const int64_t begin = min(int64_t(share_rank(work)) * work.k_each, args.k);
    const int64_t end = min(begin + work.k_each, args.k);
    const int slots = int((end - begin + SLOT_K - 1) / SLOT_K);
    for (int i = int(threadIdx.x); i < SHAPE::ROWS + SHAPE::COLUMNS; i += EXACT_THREADS) shared.line[i] = {};
    if (threadIdx.x == 0) {
        shared.tiny = 0;
        for (int i = 0; i < SHAPE::SLOTS; i++) {
            mbarrier_init(&shared.full[i], LOADERS / 32);
            mbarrier_init(&shared.empty[i], 2 / SHAPE::PARTS * WARPGROUP / 32);
        }
        mbarrier_init(&shared.cut, LOADERS);
        mbarrier_init_fence();
    }
    __syncthreads();
    launch_wait();
    launch_next();
    const int group = int(threadIdx.x) / WARPGROUP;
    if (group < 2) {
        registers_release<LOADER_REGISTERS>();
        const auto *const a = static_cast<const float *>(args.a) + piece.tile.batch * args.a_batch_stride;
        const auto *const b = static_cast<const float *>(args.b) + piece.tile.batch * args.b_batch_stride;
        exact_load<SHAPE, B>(
            shared, exact_copy<A, FOURS, SHAPE::ROWS>(a, args.m, piece.tile.row * SHAPE::ROWS, args.k, begin, end),
            exact_copy<B, FOURS, SHAPE::COLUMNS>(b, args.n, piece.tile.column * SHAPE::COLUMNS, args.k, begin, end),
            slots);
        exact_arrive(&shared.cut);
        registers_take<SHARED_REGISTERS>();
    } else {
        registers_take<ADDER_REGISTERS>();
        const int consumer = group - 2;
        float sum[SHAPE::COLUMNS / 2];
        exact_consume<SHAPE, A, B == LINES>(shared, consumer, slots, sum);
        mbarrier_wait(&shared.cut, 0);
        warpgroups_sync<1, CONSUMERS>(); /* all slots are read: they are free for sums */
        exact_leave<SHAPE>(reinterpret_cast<float *>(shared.b), consumer, sum);
        registers_release<SHARED_REGISTERS>();
    }
    share_sync(work);
    if (args.n % 4 == 0)
        exact_add<SHAPE, 4>(args, work, piece.tile, shared);
    else
        exact_add<SHAPE, 1>(args, work, piece.tile, shared);
    share_end(work);
#endif
}

/* ---- choice and launch ------------------------------------------------------------------------------------------- */

using exact_shapes = std::tuple<exact_shape<128, 128>, exact_shape<128, 64>, exact_shape<64, 128>, exact_shape<64, 64>>;
template <int WHICH> using exact_tile = std::tuple_element_t<WHICH, exact_shapes>;

static constexpr matmul_cut cuts[] = {exact_tile<0>::cut(7.7e+11, 4.1e-6), exact_tile<1>::cut(5.8e+11, 3e-6),
                                      exact_tile<2>::cut(6e+11, 3.8e-6), exact_tile<3>::cut(4.7e+11, 2.9e-6)};
#define APART 0.77 /* the share of a cut's speed on operands whose rows are not in fours */

/* Chooses the tile and the number of pieces of k with the shortest predicted time, among those that the job admits. */
static matmul_choice matmul_exact32_choice(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int tile = launch->choice[0], pieces = launch->choice[1], most = matmul_cluster();
    const double pace = matmul_in_groups(args, 4) ? 1 : APART;
    matmul_choice best = {0, 1, 1, INFINITY};
    for (int i = tile ? tile - 1 : 0; i < (tile ? tile : int(std::size(cuts))); i++)
        for (int64_t wanted = pieces ? pieces : 1; wanted <= (pieces ? pieces : most); wanted++) {
            /* The number of pieces if each is a whole number of slots. */
            const int64_t k_each = std::max(int64_t(1), matmul_k_each(args, cuts[i], wanted));
            const int64_t shares = std::max(int64_t(1), ceil_div(args.k, k_each));
            const double seconds = matmul_cut_seconds(launch, cuts[i], 1, shares, pace);
            if (seconds < best.seconds) best = {i, 1, shares, seconds};
        }
    return best;
}

static uint64_t matmul_exact32_way(const struct launch *launch) {
    const matmul_choice choice = matmul_exact32_choice(launch);
    return matmul_way(launch, choice, cuts[choice.cut]);
}

static double matmul_exact32_seconds(const struct launch *launch) {
    return matmul_exact32_choice(launch).seconds;
}

static const char *matmul_exact32_refuses(const struct launch *launch) {
    return wgmma_refuses({launch->args.matmul.k});
}

template <enum layout A, enum layout B, bool FOURS> static int matmul_exact32_start(const struct launch *launch) {
    const matmul_choice choice = matmul_exact32_choice(launch);
    return dispatch_tuple<exact_shapes>(choice.cut, [&](auto shape) {
        using SHAPE = decltype(shape);
        return matmul_pieces<float>(launch, matmul_exact32_kernel<SHAPE, A, B, FOURS>, cuts[choice.cut], choice,
                                    EXACT_THREADS, int(sizeof(typename SHAPE::shared_t)));
    });
}

static int matmul_exact32_begin(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const bool fours = matmul_in_groups(args, 4) && (uintptr_t(args.a) | uintptr_t(args.b)) % 16 == 0;
    return with_layouts<K_KEPT>(args, [&](auto a, auto b) {
        constexpr enum layout A = a, B = b;
        return fours ? matmul_exact32_start<A, B, true>(launch) : matmul_exact32_start<A, B, false>(launch);
    });
}

DECLARE_KERNEL(matmul_exact32);
static int matmul_exact32_launch(const struct launch *launch) {
    return ways_launch(&matmul_exact32, launch, matmul_exact32_begin);
}

KERNEL(matmul_exact32) = {
    .name = "exact32",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float32 from bfloat16 tensor cores: numbers cut into three slices as they are loaded, six products",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{128, 64, 4}, {128, 64, 4}, {SLOT_K, 2 * SLOT_K, 8, 4, 8 * SLOT_K}},
    .accuracy = ACCURACY_FULL,
    .speed = 3,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128x128", "128x64", "64x128", "64x64"},
                    .help = "rows and columns of C per block; auto: as a model predicts"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "3", "4", "5", "6", "7", "8"},
                    .help = "pieces of k, one per block; the blocks add their sums in shared memory"}},
    .way = matmul_exact32_way,
    .refuses = matmul_exact32_refuses,
    .seconds = matmul_exact32_seconds,
    .launch = matmul_exact32_launch,
};
