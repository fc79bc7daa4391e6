/* async.cu - copies that bypass the registers, so that registers can hold more of C.
 *
 *     stages in shared memory, 8 of k each           a block's 128 x 128 elements of C: 4 warps of 64 x 64
 *     +--------+--------+--------+                       +-------+-------+     a thread has 8 rows of 16 columns:
 *     | being  | being  | being  |                       | warp  | warp  |     24 operands feed 128 multiply-adds
 *     | used   | copied | copied |                       |   0   |   1   |     (8 x 8: 16 feed 64), six 16-byte loads
 *     +--------+--------+--------+                       +-------+-------+     for 128 multiply-adds
 *       ^ one barrier per stage                          |   2   |   3   |
 *                                                        +-------+-------+
 *
 * matmul/vectorized.cu holds the next tiles in registers. That leaves room for only 8 x 8 sums per thread, and only one
 * tile can be in flight. cp.async needs no registers: they hold 128 sums and two sets of operands (those of this k, and
 * those of the next k being loaded), 222 registers in all. Only an operand that must be transposed still passes through
 * eight of them. Two blocks of 128 threads share a multiprocessor, so that one works while the other waits at a
 * barrier.
 *
 * Multiply-adds, loads and address arithmetic compete for issue slots; nine instructions in ten are multiply-adds here.
 * Three details matter:
 *
 *     the sums must not share register banks with B's operands (matmul_leave)
 *     copies are started one by one with every k, since a burst of copies delays the loads behind it (feeder)
 *     the loop over columns is outside: the operand of a column is reused from the register cache
 *
 * A narrow or small C gets tiles of 64 x 64, two warps of 64 x 32, or tiles of shares.cuh, whose k is shared by warps
 * and by clusters of blocks, if the model of cut.cuh expects them to be faster.
 *
 * Measured on an H200, float32, at 8192: 51.1 TFLOP/s, 0.99 of cuBLAS's speed (vectorized 37.6, registers 28.5).
 *
 * The limit: one instruction does 32 multiply-adds. Tensor cores do more with one. */
#include "shares.cuh"
#include "ways.cuh"

#define BK   8 /* of k per stage */
#define ROWS 8 /* of C per thread */

/* Two warps of 64 rows stand side by side; in each, a row is shared by 4 threads with COLUMNS elements each. */
template <int TILE_, int COLUMNS_, int STAGES_, int BLOCKS_> struct async_shape {
    static constexpr int TILE = TILE_;                                       /* rows and columns of C per block */
    static constexpr int COLUMNS = COLUMNS_;                                 /* of C per thread */
    static constexpr int STAGES = STAGES_, THREADS = TILE, BLOCKS = BLOCKS_; /* blocks per multiprocessor */
    static constexpr int ROW = TILE + padding<float>; /* floats that one k takes in a stage: all lines, padding */
    static constexpr unsigned STAGE_BYTES = 2 * BK * ROW * sizeof(float); /* A's half, then B's */
    static_assert(8 * COLUMNS == TILE, "two warps cover a row");

    static constexpr matmul_cut cut(int min_k, double flops, double alone, double start) {
        /* rows, columns, slots, step, min_k, flops, alone, start, order, shares: struct matmul_cut. */
        return {TILE, TILE, BLOCKS, BK, min_k, flops, alone, start, 0, false};
    }
};
using async_large = async_shape<128, 16, 3, 2>;
using async_small = async_shape<64, 8, 4, 6>;

/* The tiles of shares.cuh: rows and columns of C per block, and per warp; warps that share k; BK, stages, blocks per
 * multiprocessor. */
using async_shares =
    std::tuple<share_shape<float, 64, 128, 64, 32, 1, 8, 4, 2>, share_shape<float, 64, 32, 64, 32, 4, 32, 4, 1>,
               share_shape<float, 32, 32, 32, 32, 4, 32, 4, 2>>;
template <int WHICH> using async_share = std::tuple_element_t<WHICH, async_shares>;

/* The model's numbers: flops, alone, start (struct matmul_cut), and min_k of the tiles of this file. */
static constexpr matmul_cut all_cuts[] = {
    async_large::cut(256, 3.8e+11, 0.75, 3.2e-6), async_small::cut(64, 3.4e+11, 0.48, 3e-7),
    async_share<0>::cut(3.3e+11, 0.76, 8e-7), async_share<1>::cut(2.5e+11, 1, 9e-7),
    async_share<2>::cut(2.3e+11, 0.85, 9e-7)};
static constexpr matmul_cuts cuts = {all_cuts, int(std::size(all_cuts))};

/* Computes one piece of k of one tile of C per block. SHAPE: an async_shape; A_WIDTH, B_WIDTH: elements of one copy. */
template <typename SHAPE, enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_async_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    constexpr int TILE = SHAPE::TILE, COLUMNS = SHAPE::COLUMNS, STAGES = SHAPE::STAGES, ROW = SHAPE::ROW;
    constexpr unsigned STAGE_BYTES = SHAPE::STAGE_BYTES;
    extern __shared__ float4 shared[];
    float *const stages = reinterpret_cast<float *>(shared);

    const matmul_piece piece = matmul_piece_of_block(args, work);
    if (piece.split >= work.splits) return;
    const int64_t row = piece.tile.row * TILE, column = piece.tile.column * TILE;
    feeder<float, A, A_WIDTH, TILE, BK, SHAPE::THREADS> a(
        static_cast<const float *>(args.a) + piece.tile.batch * args.a_batch_stride, stages, args.m, row,
        A == LINES ? args.m : args.k, piece.k_begin);
    feeder<float, B, B_WIDTH, TILE, BK, SHAPE::THREADS> b(
        static_cast<const float *>(args.b) + piece.tile.batch * args.b_batch_stride, stages + BK * ROW, args.n, column,
        B == LINES ? args.n : args.k, piece.k_begin);

    /* A thread has these elements of its warp's part of C: rows y + {0..3, 32..35} and columns x + {0..3, 16..19
     * ...}. */
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int y = warp / 2 * 64 + lane / 4 * 4, x = warp % 2 * (4 * COLUMNS) + lane % 4 * 4;
    float sums[ROWS][COLUMNS] = {};
    float rows[2][ROWS], columns[2][COLUMNS]; /* operands of this k and of the next, being loaded */
    const auto load = [&](int buffer, unsigned offset, int l) {
        const char *const a_stage = reinterpret_cast<const char *>(stages + y) + offset;
        const char *const b_stage = reinterpret_cast<const char *>(stages + BK * ROW + x) + offset;
#pragma unroll
        for (int i = 0; i < ROWS; i += 4)
            *reinterpret_cast<float4 *>(&rows[buffer][i]) =
                *reinterpret_cast<const float4 *>(a_stage + (l * ROW + i * 8) * 4);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4)
            *reinterpret_cast<float4 *>(&columns[buffer][j]) =
                *reinterpret_cast<const float4 *>(b_stage + (l * ROW + j * 4) * 4);
    };

    stages_walk<STAGES, STAGE_BYTES, BK, 1>(a, b, piece, load, [&](int buffer) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                const int zigzag = j % 2 ? ROWS - 1 - i : i; /* begins where the column before ended */
                sums[zigzag][j] += rows[buffer][zigzag] * columns[buffer][j];
            }
    });

    const bool aligned = args.n % 4 == 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int64_t r = row + y + i / 4 * 32 + i % 4;
        if (r >= args.m) break;
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            const int64_t c = column + x + j * 4;
            matmul_leave<float, 4>(args, work, piece.split, (piece.tile.batch * args.m + r) * args.n + c, &sums[i][j],
                                   args.n - c, aligned);
        }
    }
}

/* Chooses the tile and the cut of k. Operands whose row length is no multiple of 4 are copied element by element: 0.84
 * of the speed, 0.7 in a stack. */
static matmul_choice matmul_async_choice(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return matmul_choose(launch, cuts, launch->choice[0], matmul_in_groups(args, 4) ? 1 : args.batch == 1 ? 0.84 : 0.7);
}

static uint64_t matmul_async_way(const struct launch *launch) {
    const matmul_choice choice = matmul_async_choice(launch);
    return matmul_way(launch, choice, cuts.cut[choice.cut]);
}

static double matmul_async_seconds(const struct launch *launch) {
    return matmul_async_choice(launch).seconds;
}

static size_t matmul_async_workspace(const struct launch *launch) {
    return matmul_planes(launch, cuts, sizeof(float));
}

/* Starts the kernel of the chosen tile: this file's or, from the third on, one of shares.cuh, where no operand needs to
 * be transposed. */
template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
static int matmul_async_start(const struct launch *launch) {
    const matmul_choice choice = matmul_async_choice(launch);
    const matmul_cut &cut = cuts.cut[choice.cut];
    const auto start = [&](auto shape) {
        using SHAPE = decltype(shape);
        return matmul_pieces<float>(launch, matmul_async_kernel<SHAPE, A, A_WIDTH, B, B_WIDTH>, cut, choice,
                                    SHAPE::THREADS, SHAPE::STAGES * int(SHAPE::STAGE_BYTES));
    };
    constexpr layout A_AS_IT_LIES = A == K_TURNED ? K_KEPT : A, B_AS_IT_LIES = B == K_TURNED ? K_KEPT : B;
    if (choice.cut >= 2) /* all_cuts: two tiles of this file, then those of shares.cuh */
        return dispatch_tuple<async_shares>(choice.cut - 2, [&](auto shape) {
            return share_start<decltype(shape), A_AS_IT_LIES, A_WIDTH, B_AS_IT_LIES, B_WIDTH>(launch, cut, choice);
        });
    return choice.cut == 1 ? start(async_small()) : start(async_large());
}

static int matmul_async_begin(const struct launch *launch) {
    return with_layouts<K_TURNED>(launch->args.matmul, [&](auto a, auto b) {
        constexpr enum layout A = a, B = b;
        return matmul_in_groups(launch->args.matmul, 4) ? matmul_async_start<A, 4, B, 4>(launch)
                                                        : matmul_async_start<A, 1, B, 1>(launch);
    });
}

DECLARE_KERNEL(matmul_async);
static int matmul_async_launch(const struct launch *launch) {
    return ways_launch(&matmul_async, launch, matmul_async_begin);
}

KERNEL(matmul_async) = {
    .name = "async",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "128x128 tiles, 8x16 outputs per thread, three stages of asynchronous copies, k split for small results",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{128, 64, 32, 4}, {128, 64, 32, 4}, {BK, 32, 4, 64, 128, 256}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "128", "64", "64x128", "64x32k4", "32x32k4"},
                    .help = "rows and columns of C per block, k4: four warps share k; auto: as a model predicts"}},
    .way = matmul_async_way,
    .workspace = matmul_async_workspace,
    .seconds = matmul_async_seconds,
    .launch = matmul_async_launch,
};
