/* mma_kernel.cuh - the kernel of mma.cu, its tiles and its launch. */
#ifndef KERNELS_MATMUL_MMA_KERNEL_CUH
#define KERNELS_MATMUL_MMA_KERNEL_CUH

#include "../../core/fragments.cuh"
#include "async.cuh"

#define WARP_M 64 /* rows of C per warp */

/* A block's shape: two warps side by side, and as many rows of warps as the tile needs. */
template <int TILE_, int BK_, int STAGES_, int BLOCKS_> struct mma_shape {
    static constexpr int TILE = TILE_, STAGES = STAGES_; /* TILE: rows and columns of C per block */
    static constexpr int BK = BK_;                       /* of k per stage */
    static constexpr int WARP_N = TILE / 2;              /* columns of C per warp */
    static constexpr int BLOCKS = BLOCKS_;               /* per multiprocessor */
    static constexpr int THREADS = TILE / WARP_M * 64;

    static constexpr matmul_cut cut(int min_k, double flops, double alone) {
        /* rows, columns, slots, step, min_k, flops, alone, start, order, shares: struct matmul_cut. */
        return {TILE, TILE, BLOCKS, BK, min_k, flops, alone, 1.5e-6, 0, false};
    }
};
using mma_large = mma_shape<128, 32, 4, 2>;
using mma_small = mma_shape<64, 64, 3, 4>; /* for products that wait for memory, which is fastest 128 bytes at a time */
static constexpr matmul_cut large_cut = mma_large::cut(256, 2.7e+12, 0.6),
                            small_cut = mma_small::cut(128, 2.3e+12, 0.32), both_cuts[] = {large_cut, small_cut};
static constexpr matmul_cuts cuts = {both_cuts, 2};

template <typename SHAPE, typename T, enum layout LAYOUT, int WIDTH>
using mma_feeder = feeder<T, LAYOUT, WIDTH, SHAPE::TILE, SHAPE::BK, SHAPE::THREADS>;

/* The bytes from the first element of four matrices in a stage, 16 lines by 16 k, to the row whose address this thread
 * gives to load_matrices. LINE_FIRST: the second matrix lies 8 lines after the first (A); else 8 k after it (B). */
template <typename FEEDER, enum layout LAYOUT, bool LINE_FIRST> __device__ inline unsigned matrix_row() {
    const int lane = int(threadIdx.x) % 32, row = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    const int line = LINE_FIRST ? second : third, k = LINE_FIRST ? third : second;
    const int at = LAYOUT == LINES ? (k + row) * FEEDER::ROW + line : (line + row) * FEEDER::ROW + k;
    return unsigned(at) * 2;
}

/* Computes one piece of k of one tile of C per block. WIDTH: elements of one copy. */
template <typename SHAPE, typename T, enum layout A, enum layout B, int WIDTH>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_mma_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    using a_feeder = mma_feeder<SHAPE, T, A, WIDTH>;
    using b_feeder = mma_feeder<SHAPE, T, B, WIDTH>;
    constexpr int TILE = SHAPE::TILE, BK = SHAPE::BK, STAGES = SHAPE::STAGES, WARP_N = SHAPE::WARP_N;
    constexpr unsigned STAGE_BYTES = (a_feeder::ELEMENTS + b_feeder::ELEMENTS) * sizeof(T);
    extern __shared__ uint4 shared[];
    T *const stages = reinterpret_cast<T *>(shared);

    const matmul_piece piece = matmul_piece_of_block(args, work);
    if (piece.split >= work.splits) return;
    const int64_t row = piece.tile.row * TILE, column = piece.tile.column * TILE;
    a_feeder a(static_cast<const T *>(args.a) + piece.tile.batch * args.a_batch_stride, stages, args.m, row,
               A == LINES ? args.m : args.k, piece.k_begin);
    b_feeder b(static_cast<const T *>(args.b) + piece.tile.batch * args.b_batch_stride, stages + a_feeder::ELEMENTS,
               args.n, column, B == LINES ? args.n : args.k, piece.k_begin);

    /* In bytes, within a stage: from line to line, from k to k. */
    constexpr int A_LINE = 2 * (A == LINES ? 1 : a_feeder::ROW), A_K = 2 * (A == LINES ? a_feeder::ROW : 1);
    constexpr int B_LINE = 2 * (B == LINES ? 1 : b_feeder::ROW), B_K = 2 * (B == LINES ? b_feeder::ROW : 1);
    const int warp = int(threadIdx.x) / 32, y = warp / 2 * WARP_M, x = warp % 2 * WARP_N;
    const unsigned a_at = shared_address(stages) + y * A_LINE + matrix_row<a_feeder, A, true>();
    const unsigned b_at = shared_address(stages + a_feeder::ELEMENTS) + x * B_LINE + matrix_row<b_feeder, B, false>();

    float sums[WARP_M / 16][WARP_N / 8][4] = {};
    /* Operands of these 16 k and of the next, being loaded. */
    uint32_t rows[2][WARP_M / 16][4], columns[2][WARP_N / 16][4];
    const auto load = [&](int buffer, unsigned stage, int l) {
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
            load_matrices<A == LINES>(rows[buffer][i], a_at + stage + i * 16 * A_LINE + l * A_K);
#pragma unroll
        for (int j = 0; j < WARP_N / 16; j++)
            load_matrices<B == LINES>(columns[buffer][j], b_at + stage + j * 16 * B_LINE + l * B_K);
    };

    stages_walk<STAGES, STAGE_BYTES, BK, 16>(a, b, piece, load, [&](int buffer) {
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
            for (int j = 0; j < WARP_N / 8; j++)
                multiply<T>(sums[i][j], rows[buffer][i], columns[buffer][j / 2][j % 2 * 2],
                            columns[buffer][j / 2][j % 2 * 2 + 1]);
    });
    matmul_leave_warp<T>(args, work, piece, row + y, column + x, sums);
}

/* Chooses the tile and the cut of k. The cuts' speeds are those of large products: the model predicted 31 us for 200
 * products of 256 x 256 x 256, which took 103, so it counts on half of the speeds. Elements that do not lie in eights
 * are copied one by one, by small tiles only: that takes ten times as long. */
inline matmul_choice matmul_mma_choice(const struct launch *launch) {
    const bool eights = matmul_in_groups(launch->args.matmul, 8);
    return matmul_choose(launch, cuts, eights ? launch->choice[0] : 2, eights ? 0.5 : 0.09);
}

/* Starts the kernel of the chosen tile. Elements that do not lie in aligned groups of eight pass through registers one
 * by one, for which large tiles have no registers left. */
template <typename T, enum layout A, enum layout B> int matmul_mma_with(const struct launch *launch) {
    const matmul_choice choice = matmul_mma_choice(launch);
    const auto start = [&](auto shape, auto kernel) {
        using SHAPE = decltype(shape);
        const int stage = mma_feeder<SHAPE, T, A, 8>::ELEMENTS + mma_feeder<SHAPE, T, B, 8>::ELEMENTS;
        return matmul_pieces<T>(launch, kernel, cuts.cut[choice.cut], choice, SHAPE::THREADS,
                                SHAPE::STAGES * stage * int(sizeof(T)));
    };
    if (!matmul_in_groups(launch->args.matmul, 8)) return start(mma_small(), matmul_mma_kernel<mma_small, T, A, B, 1>);
    if (choice.cut == 1) return start(mma_small(), matmul_mma_kernel<mma_small, T, A, B, 8>);
    return start(mma_large(), matmul_mma_kernel<mma_large, T, A, B, 8>);
}

/* Starts the kernel for this type, by the operands' layouts. */
template <typename T> int matmul_mma_of(const struct launch *launch) {
    return with_layouts<K_KEPT>(launch->args.matmul, [&](auto a, auto b) { return matmul_mma_with<T, a, b>(launch); });
}

/* matmul_mma_of for one type, each in a file of its own (mma_float16.cu, mma_bfloat16.cu). */
int matmul_mma_float16(const struct launch *launch);
int matmul_mma_bfloat16(const struct launch *launch);

#endif
