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
 * Tiles of other shapes, and small ones whose k is shared by warps and by clusters of blocks, are in matmul/shares.cuh.
 *
 * Measured on an H200 at 8192: 0.97 to 0.98 of cuBLAS's speed, 50 to 59 TFLOP/s (without tensor cores,
 * matmul/vectorized.cu: 17). The limit: the tensor cores themselves; warps wait for them more than for anything
 * else. */
#include "shares.cuh"

#define BK     16
#define WARP_M 64 /* rows and columns of C per warp */
#define WARP_N 32

template <int TILE_, int STAGES_, int BLOCKS_> struct dmma_shape {
    static constexpr int TILE = TILE_, STAGES = STAGES_; /* rows and columns of C per block */
    static constexpr int BLOCKS = BLOCKS_;               /* per multiprocessor */
    static constexpr int THREADS = TILE / WARP_M * (TILE / WARP_N) * 32;

    static constexpr matmul_cut cut(int least, double flops, double alone) {
        return {TILE, TILE, BLOCKS, BK, least, flops, alone, 1.5e-6, 0, false};
    }
};
using dmma_large = dmma_shape<128, 4, 1>;
using dmma_small = dmma_shape<64, 3, 3>;

/* The tiles of matmul/shares.cuh: C a block, C a warp, warps that share k; BK, stages, blocks per multiprocessor. The
 * first is for rows just under 96 and for whole waves of blocks, the last for products of microseconds. */
using dmma_shares =
    std::tuple<share_shape<double, 96, 128, 48, 32, 1, 16, 4, 1>, share_shape<double, 64, 96, 32, 48, 1, 16, 3, 2>,
               share_shape<double, 64, 64, 32, 32, 1, 16, 3, 3>, share_shape<double, 32, 32, 32, 32, 4, 32, 3, 3>>;
template <int WHICH> using dmma_share = std::tuple_element_t<WHICH, dmma_shares>;

static constexpr matmul_cut all_cuts[] = {dmma_large::cut(256, 4.4e+11, 1),
                                          dmma_small::cut(64, 3.8e+11, 0.42),
                                          dmma_share<0>::cut(256, 4.4e+11, 1, 1.5e-6),
                                          dmma_share<1>::cut(128, 4.2e+11, 0.6, 1.5e-6),
                                          dmma_share<2>::cut(64, 4e+11, 0.5, 1.2e-6),
                                          dmma_share<3>::cut(64, 3.6e+11, 0.5, 1e-6)};
static constexpr int MEASURED = 2; /* `auto` considers these alone: the others' numbers are expected, not measured */
static constexpr matmul_cuts cuts = {all_cuts, int(std::size(all_cuts)), MEASURED};

template <typename SHAPE, enum layout LAYOUT, int WIDTH>
using double_feeder = feeder<double, LAYOUT, WIDTH, SHAPE::TILE, BK, SHAPE::THREADS>;

template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_dmma_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    using a_feeder = double_feeder<SHAPE, A, A_WIDTH>;
    using b_feeder = double_feeder<SHAPE, B, B_WIDTH>;
    constexpr int TILE = SHAPE::TILE, STAGES = SHAPE::STAGES;
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

static matmul_choice matmul_dmma_choice(const struct launch *launch) {
    return matmul_choose(launch, cuts, launch->choice[0]);
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
    const auto start = [&](auto shape) {
        using SHAPE = decltype(shape);
        const int stage = double_feeder<SHAPE, A, A_WIDTH>::ELEMENTS + double_feeder<SHAPE, B, B_WIDTH>::ELEMENTS;
        return matmul_pieces<double>(launch, matmul_dmma_kernel<SHAPE, A, A_WIDTH, B, B_WIDTH>, cut, choice,
                                     SHAPE::THREADS, SHAPE::STAGES * stage * int(sizeof(double)));
    };
    if (choice.cut >= 2) return share_start<dmma_shares, A, A_WIDTH, B, B_WIDTH>(launch, choice.cut - 2, cut, choice);
    return choice.cut == 1 ? start(dmma_small()) : start(dmma_large());
}

template <enum layout A, enum layout B> static int matmul_dmma_with(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const bool even = (A == LINES ? args.m : args.k) % 2 == 0 && (B == LINES ? args.n : args.k) % 2 == 0 &&
                      args.a_batch_stride % 2 == 0 && args.b_batch_stride % 2 == 0;
    return even ? matmul_dmma_start<A, 2, B, 2>(launch) : matmul_dmma_start<A, 1, B, 1>(launch);
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
    .edges = {{128, 96, 64, 32, 2}, {128, 96, 64, 32, 2}, {BK, 32, 2, 64, 128, 256}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128", "64", "96x128", "64x96", "64x64", "32x32"},
                    .help = "rows and columns of C a block; auto: what a model predicts to be fastest"}},
    .way = matmul_dmma_way,
    .workspace = matmul_dmma_workspace,
    .seconds = matmul_dmma_seconds,
    .launch = matmul_dmma_launch,
};
