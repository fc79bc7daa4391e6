/* matmul/dmma.cu - float64 on tensor cores: a warp multiplies a 16 x 4 by a 4 x 8 matrix in one instruction.
 *
 *     A 64 x 4   B 4 x 32     C 64 x 32 per warp     For every 4 of k a thread loads 8 elements of A and 4 of B, and
 *       +--+      +--------+   +--+--+--+--+         the warp multiplies 16 times, once for each 16 x 8 of C. The
 *       |  |  x   |        | = |  |  |  |  |         sums take 128 registers per thread, two sets of operands 48:
 *       |  |      +--------+   +--+--+--+--+         a block of 8 warps, 128 x 128 of C, fills a multiprocessor.
 *       |  |                   |  |  |  |  |
 *       +--+                   +--+--+--+--+
 *
 * Four stages of 16 of k are filled by cp.async, as in matmul/async.cu, but no operand is transposed: a thread loads
 * single elements, which is as easy where k is adjacent as where lines are. Either way half a warp loads 4 lines x 4 k
 * of 8 bytes at once, and four elements of padding put them into different banks.
 *
 * The instruction for 8 of k needs twice the operands at once, which leaves no registers for a second set; it ran at
 * 0.73 of cuBLAS's speed. Before compute capability 9.0 the 16 rows take two instructions of 8.
 *
 * Smaller tiles, whose k is shared by warps and by clusters of blocks, are in matmul/shares.cuh.
 *
 * Measured on an H200 at 8192: 0.97 to 0.98 of cuBLAS's speed, 50 to 59 TFLOP/s (without tensor cores,
 * matmul/vectorized.cu: 17). The limit: the tensor cores themselves; warps wait for them more than for anything
 * else. */
#include "shares.cuh"

#define TILE   128 /* rows and columns of C per block */
#define BK     16  /* of k per stage */
#define STAGES 4
#define WARP_M 64 /* rows and columns of C per warp */
#define WARP_N 32

static constexpr int THREADS = TILE / WARP_M * (TILE / WARP_N) * 32;

/* The tiles of matmul/shares.cuh: C a block, C a warp, warps that share k; BK, stages, blocks per multiprocessor. */
using dmma_shares =
    std::tuple<share_shape<double, 64, 96, 32, 48, 2, 16, 5, 1>, share_shape<double, 64, 64, 32, 32, 1, 16, 4, 2>,
               share_shape<double, 64, 64, 32, 32, 2, 16, 5, 1>, share_shape<double, 32, 64, 32, 32, 2, 16, 5, 2>,
               share_shape<double, 16, 32, 16, 32, 4, 32, 5, 2>>;
template <int WHICH> using dmma_share = std::tuple_element_t<WHICH, dmma_shares>;

static constexpr matmul_cut all_cuts[] = {{TILE, TILE, 1, BK, 256, 5.1e+11, 1, 3.6e-6, 0, false},
                                          dmma_share<0>::cut(5.2e+11, 1, 2.2e-6),
                                          dmma_share<1>::cut(4.5e+11, 0.93, 1.4e-6),
                                          dmma_share<2>::cut(4.1e+11, 1, 1.6e-6),
                                          dmma_share<3>::cut(3e+11, 0.77, 1.4e-6),
                                          dmma_share<4>::cut(1.5e+11, 0.95, 5e-7)};
static constexpr matmul_cuts cuts = {all_cuts, int(std::size(all_cuts))};

template <enum layout LAYOUT, int WIDTH> using double_feeder = feeder<double, LAYOUT, WIDTH, TILE, BK, THREADS>;

template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(THREADS, 1)
    matmul_dmma_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    using a_feeder = double_feeder<A, A_WIDTH>;
    using b_feeder = double_feeder<B, B_WIDTH>;
    constexpr unsigned STAGE_BYTES = (a_feeder::ELEMENTS + b_feeder::ELEMENTS) * sizeof(double);
    extern __shared__ double2 shared[];
    double *const stages = reinterpret_cast<double *>(shared);

    const matmul_piece piece = matmul_piece_of_block(args, work);
    if (piece.split >= work.splits) return;
    const int64_t row = piece.tile.row * TILE, column = piece.tile.column * TILE;
    a_feeder a(static_cast<const double *>(args.a) + piece.tile.batch * args.a_batch_stride, stages, args.m, row,
               A == LINES ? args.m : args.k, piece.k_begin);
    b_feeder b(static_cast<const double *>(args.b) + piece.tile.batch * args.b_batch_stride,
               stages + a_feeder::ELEMENTS, args.n, column, B == LINES ? args.n : args.k, piece.k_begin);

    /* Where the thread's operands begin in a stage, and the distance there from line to line and from k to k. */
    const int warp = int(threadIdx.x) / 32, g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
    const int y = warp / (TILE / WARP_N) * WARP_M, x = warp % (TILE / WARP_N) * WARP_N;
    constexpr int A_LINE = A == LINES ? 1 : a_feeder::ROW, A_K = A == LINES ? a_feeder::ROW : 1;
    constexpr int B_LINE = B == LINES ? 1 : b_feeder::ROW, B_K = B == LINES ? b_feeder::ROW : 1;
    const int a_at = (y + g) * A_LINE + t * A_K, b_at = a_feeder::ELEMENTS + (x + g) * B_LINE + t * B_K;

    double sums[WARP_M / 16][WARP_N / 8][4] = {};
    double rows[2][WARP_M / 16][2], columns[2][WARP_N / 8]; /* operands of these 4 k and of the next, being loaded */
    const auto load = [&](int buffer, unsigned offset, int l) {
        const double *const stage = stages + offset / sizeof(double);
#pragma unroll
        for (int i = 0; i < WARP_M / 8; i++) rows[buffer][i / 2][i % 2] = stage[a_at + i * 8 * A_LINE + l * A_K];
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++) columns[buffer][j] = stage[b_at + j * 8 * B_LINE + l * B_K];
    };

    stages_walk<STAGES, STAGE_BYTES, BK, 4>(a, b, piece, load, [&](int buffer) {
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
            for (int j = 0; j < WARP_N / 8; j++) {
                const int zigzag = i % 2 ? WARP_N / 8 - 1 - j : j;
                multiply(sums[i][zigzag], rows[buffer][i], columns[buffer][zigzag]);
            }
    });
    matmul_leave_warp<double>(args, work, piece, row + y, column + x, sums);
}

/* Do rows of both operands, as they lie, consist of aligned pairs of elements? */
static bool in_pairs(const matmul_args &args) {
    return (args.transpose_a ? args.m : args.k) % 2 == 0 && (args.transpose_b ? args.k : args.n) % 2 == 0 &&
           args.a_batch_stride % 2 == 0 && args.b_batch_stride % 2 == 0;
}

static matmul_choice matmul_dmma_choice(const struct launch *launch) {
    return matmul_choose(launch, cuts, launch->choice[0], in_pairs(launch->args.matmul) ? 1 : 0.87);
}

static uint64_t matmul_dmma_way(const struct launch *launch) {
    const matmul_choice choice = matmul_dmma_choice(launch);
    return matmul_way(launch, choice, cuts.cut[choice.cut]);
}

static double matmul_dmma_seconds(const struct launch *launch) {
    return matmul_dmma_choice(launch).seconds;
}

static size_t matmul_dmma_workspace(const struct launch *launch) {
    return matmul_planes(launch, cuts, sizeof(double));
}

template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
static int matmul_dmma_start(const struct launch *launch) {
    const matmul_choice choice = matmul_dmma_choice(launch);
    const matmul_cut &cut = cuts.cut[choice.cut];
    if (choice.cut > 0) return share_start<dmma_shares, A, A_WIDTH, B, B_WIDTH>(launch, choice.cut - 1, cut, choice);
    const int stage = double_feeder<A, A_WIDTH>::ELEMENTS + double_feeder<B, B_WIDTH>::ELEMENTS;
    return matmul_pieces<double>(launch, matmul_dmma_kernel<A, A_WIDTH, B, B_WIDTH>, cut, choice, THREADS,
                                 STAGES * stage * int(sizeof(double)));
}

template <enum layout A, enum layout B> static int matmul_dmma_with(const struct launch *launch) {
    return in_pairs(launch->args.matmul) ? matmul_dmma_start<A, 2, B, 2>(launch)
                                         : matmul_dmma_start<A, 1, B, 1>(launch);
}

static int matmul_dmma_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.transpose_a)
        return args.transpose_b ? matmul_dmma_with<LINES, K_KEPT>(launch) : matmul_dmma_with<LINES, LINES>(launch);
    return args.transpose_b ? matmul_dmma_with<K_KEPT, K_KEPT>(launch) : matmul_dmma_with<K_KEPT, LINES>(launch);
}

KERNEL(matmul_dmma) = {
    .name = "dmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float64 on tensor cores: 128x128 tiles, four stages of asynchronous copies",
    .dtypes = DTYPE_BIT(FLOAT64),
    .edges = {{TILE, 64, 32, 16, 2}, {TILE, 96, 64, 32, 2}, {BK, 32, 2, 64, 128, 256}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128", "64x96k2", "64x64", "64x64k2", "32x64k2", "16x32k4"},
                    .help = "rows and columns of C a block, k2: two warps share k; auto: as a model predicts"}},
    .way = matmul_dmma_way,
    .workspace = matmul_dmma_workspace,
    .seconds = matmul_dmma_seconds,
    .launch = matmul_dmma_launch,
};
