/* matmul_async.cu - copies that pass the registers by, and as much of C in registers as there is room for.
 *
 *     stages in shared memory, 8 of k each           a block's 128 x 128 elements of C: 4 warps of 64 x 64
 *     +--------+--------+--------+                       +-------+-------+     a thread has 8 rows of 16 columns:
 *     | being  | on its | on its |                       | warp  | warp  |     24 operands feed 128 multiply-adds
 *     | used   | way    | way    |                       |   0   |   1   |     (8 x 8: 16 feed 64), six 16-byte loads
 *     +--------+--------+--------+                       +-------+-------+     for 128 multiply-adds
 *       ^ one barrier a stage                            |   2   |   3   |
 *                                                        +-------+-------+
 *
 * matmul_vectorized.cu carries the next tiles in registers, which leaves room for 8 x 8 sums a thread, and has only one
 * tile on its way. cp.async needs none: registers go to 128 sums and two sets of operands (this k's and, being loaded,
 * the next one's), 222 in all. Only an operand that must be turned still passes through eight of them. Two blocks of
 * 128 threads a multiprocessor wait at barriers of their own.
 *
 * Multiply-adds, loads and address arithmetic share the issue slots; nine in ten are multiply-adds here. What cost most
 * on the way (TFLOP/s at 8192, H200):
 *
 *     46.5  the first version. Its sums lay in the register banks of B's operands, because the 16-byte stores of C
 *           wanted them in aligned fours; scaled into other registers first, they are free (matmul_leave)
 *     48.1  bursts of copies held up the loads behind them; started one by one, with every k, they do not (feeder)
 *     48.0  turning by single 4-byte copies: an instruction, an address and a wavefront a line; now whole pieces of A
 *           pass through registers
 *     51.1  rows inside, columns outside: the operand that stays is still at hand in the register cache
 *
 * Measured, H200, float32, beside cuBLAS in the same run: 4096 50.6 TFLOP/s = 0.99; 8192 51.1 = 0.99; with A transposed
 * (nothing to turn) 54.6 = 1.01, with B transposed 48.9 = 0.96; 2048 0.98; 1024 0.91, with k split in 4. At 8192
 * vectorized does 37.6, registers 28.5.
 *
 * What holds it back: an instruction is 32 multiply-adds. Tensor cores do more with one. */
#include "matmul_async.cuh"

#define TILE    128 /* rows and columns of C a block: 64 x 64 a warp, 8 x 16 a thread */
#define BK      8   /* of k a stage */
#define STAGES  3
#define THREADS 128
#define BLOCKS  2 /* on a multiprocessor */

template <enum layout LAYOUT, int WIDTH> using float_feeder = feeder<float, LAYOUT, WIDTH, TILE, BK, THREADS>;

#define ROW         (TILE + PADDING)                         /* floats of one k of all lines in a stage */
#define STAGE_BYTES (2 * BK * ROW * unsigned(sizeof(float))) /* A's part, then B's */

template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_async_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    extern __shared__ float4 shared[];
    float *const stages = reinterpret_cast<float *>(shared);

    const matmul_piece piece = matmul_piece_of_block(args, work);
    if (piece.split >= work.splits) return;
    const int64_t row = piece.tile.row * TILE, column = piece.tile.column * TILE;
    float_feeder<A, A_WIDTH> a(static_cast<const float *>(args.a) + piece.tile.batch * args.a_batch_stride, stages,
                               args.m, row, A == LINES ? args.m : args.k, piece.k_begin);
    float_feeder<B, B_WIDTH> b(static_cast<const float *>(args.b) + piece.tile.batch * args.b_batch_stride,
                               stages + BK * ROW, args.n, column, B == LINES ? args.n : args.k, piece.k_begin);

    /* Of a warp's 64 x 64 outputs a thread has rows y + {0..3, 32..35}, columns x + {0..3, 16..19, 32..35, 48..51}. */
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int y = warp / 2 * 64 + lane / 4 * 4, x = warp % 2 * 64 + lane % 4 * 4;
    float sums[8][16] = {};
    float rows[2][8], columns[2][16]; /* operands of this k and, being loaded, of the next */
    const auto load = [&](int buffer, unsigned offset, int l) {
        const char *const a_stage = reinterpret_cast<const char *>(stages + y) + offset;
        const char *const b_stage = reinterpret_cast<const char *>(stages + BK * ROW + x) + offset;
#pragma unroll
        for (int i = 0; i < 8; i += 4)
            *reinterpret_cast<float4 *>(&rows[buffer][i]) =
                *reinterpret_cast<const float4 *>(a_stage + (l * ROW + i * 8) * 4);
#pragma unroll
        for (int j = 0; j < 16; j += 4)
            *reinterpret_cast<float4 *>(&columns[buffer][j]) =
                *reinterpret_cast<const float4 *>(b_stage + (l * ROW + j * 4) * 4);
    };

    const int k = int(piece.k_end - piece.k_begin); /* beyond 2^31 not even a split operand would fit a device */
    for (int s = 0; s < STAGES - 1; s++) {
        a.copy(0, 1, s * STAGE_BYTES, a.existing(k - s * BK));
        b.copy(0, 1, s * STAGE_BYTES, b.existing(k - s * BK));
        copy_commit();
    }
    unsigned read = 0, write = (STAGES - 1) * STAGE_BYTES;
    copy_wait<STAGES - 2>();
    __syncthreads();
    load(0, read, 0);
    for (int left = k; left > 0; left -= BK) {
        const int a_exist = a.existing(left - (STAGES - 1) * BK), b_exist = b.existing(left - (STAGES - 1) * BK);
#pragma unroll
        for (int l = 0; l < BK; l++) {
            if (l == BK - 1) {
                write = read;
                read = read == (STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
                copy_wait<STAGES - 2>();
                __syncthreads();
            }
            load((l + 1) % 2, read, (l + 1) % BK);
            if (l < BK - 1) {
                a.copy(l, BK - 1, write, a_exist);
                b.copy(l, BK - 1, write, b_exist);
                if (l == BK - 2) copy_commit();
            }
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int zigzag = j % 2 ? 7 - i : i; /* begins with the row that the last column ended with */
                    sums[zigzag][j] += rows[l % 2][zigzag] * columns[l % 2][j];
                }
        }
    }
    copy_wait<0>();

    const bool aligned = args.n % 4 == 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t r = row + y + i / 4 * 32 + i % 4;
        if (r >= args.m) break;
#pragma unroll
        for (int j = 0; j < 16; j += 4) {
            const int64_t c = column + x + j * 4;
            matmul_leave<float, 4>(args, work, piece.split, (piece.tile.batch * args.m + r) * args.n + c, &sums[i][j],
                                   args.n - c, aligned);
        }
    }
}

static int64_t matmul_async_slots(const struct launch *launch) {
    return int64_t(BLOCKS) * launch->multiprocessors;
}

static size_t matmul_async_workspace(const struct launch *launch) {
    return matmul_planes(launch, TILE, matmul_async_slots(launch), sizeof(float));
}

template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH>
static int matmul_async_start(const struct launch *launch) {
    return matmul_pieces<float>(launch, matmul_async_kernel<A, A_WIDTH, B, B_WIDTH>, TILE, matmul_async_slots(launch),
                                BK, THREADS, STAGES * int(STAGE_BYTES));
}

template <enum layout A, enum layout B> static int matmul_async_with(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const bool aligned = (A == LINES ? args.m : args.k) % 4 == 0 && (B == LINES ? args.n : args.k) % 4 == 0 &&
                         args.a_batch_stride % 4 == 0 && args.b_batch_stride % 4 == 0;
    return aligned ? matmul_async_start<A, 4, B, 4>(launch) : matmul_async_start<A, 1, B, 1>(launch);
}

static int matmul_async_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.transpose_a)
        return args.transpose_b ? matmul_async_with<LINES, K_TURNED>(launch) : matmul_async_with<LINES, LINES>(launch);
    return args.transpose_b ? matmul_async_with<K_TURNED, K_TURNED>(launch)
                            : matmul_async_with<K_TURNED, LINES>(launch);
}

const struct kernel matmul_async = {
    .name = "async",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "128x128 tiles, 8x16 outputs a thread, three stages of asynchronous copies, k split for small results",
    .dtypes = DTYPE_BIT(FLOAT32),
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .workspace = matmul_async_workspace,
    .launch = matmul_async_launch,
};
