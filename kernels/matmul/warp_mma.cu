/* matmul/warp_mma.cu - tensor cores: one instruction of a warp multiplies 16 x 16 by 16 x 8.
 *
 * matmul/pipelined.cu is limited by its multipliers. Since compute capability 8.0 tensor cores multiply 16-bit types 16
 * times as fast as those multiply float32, and add in float32. Their instruction (mma.sync) belongs to a warp: the
 * operands and the 16 x 8 sums are spread over its 32 threads in a fixed way (core/fragments.cuh).
 *
 *     stage                                 a warp's 64 x 32 of C, 16 of k at a time
 *     +---------+                             B  | 8 | 8 | 8 | 8 |    2 x ldmatrix
 *     | A  k    |  ldmatrix: a warp        A  ---+---+---+---+---+
 *     |    ...  |  loads four 8 x 8       16     |   |   |   |   |
 *     +---------+  matrices at once,      16     |   one instruction each:
 *     | B  n    |  transposed if they     16     |   16 x 8 of C += 16 x 16 * 16 x 8
 *     |    ...  |  lie along m or n       16     |   |   |   |   |
 *     +---------+                            4 x ldmatrix            16 instructions for 6 loads
 *
 * ldmatrix produces the operands' layout from rows of 16 bytes in shared memory: thread i gives the address of row
 * i % 8 of matrix i / 8. As it can transpose, an operand lies in a stage as it lies in memory. A row has 16 bytes of
 * padding, which puts the eight rows of a matrix into different banks. A block of 8 warps, 2 x 4, has 128 x 128 of C.
 *
 * Copies are those of matmul/pipelined.cu, 16 bytes each, into two stages. cp.async cannot copy 2 bytes, so rows that
 * are no multiple of 8 elements go through registers. At 8192 in bfloat16 on an H100 this has 273 TFLOP/s, 0.36 of
 * cuBLAS's speed. The limit: each warp loads its operands itself, so a block loads those of A four times and those of B
 * twice. matmul/warpgroup.cu does without these loads. tuned/mma.cu, with more stages, k split over blocks and ordered
 * tiles, has 350 to 370 TFLOP/s at 8192 on an H200, half of cuBLAS's speed. */
#include "../core/fragments.cuh"
#include "../core/shared.cuh"
#include "matmul.cuh"

#define TILE    128 /* rows and columns of C per block */
#define STEP    32  /* of k per stage */
#define WARP_M  64  /* rows and columns of C per warp */
#define WARP_N  32
#define THREADS (TILE / WARP_M * TILE / WARP_N * 32)

/* Copies an operand into stages, TILE lines (rows of A, columns of B) by STEP of k at a time. A stage has the operand's
 * layout in memory: its rows are parts of the operand's rows. */
template <bool K_ADJACENT> struct tile_operand {
    static constexpr int ROWS = K_ADJACENT ? TILE : STEP, COLUMNS = K_ADJACENT ? STEP : TILE, PITCH = COLUMNS + 8;
    /* Elements of a stage from line to line, and from k to k. */
    static constexpr int LINE = K_ADJACENT ? PITCH : 1, K = K_ADJACENT ? 1 : PITCH;
    static constexpr int VECTORS = COLUMNS / 8;    /* of 8 elements, in a row */
    static constexpr int DOWN = THREADS / VECTORS; /* rows that all threads copy at once */
    using stage = uint16_t[ROWS][PITCH];

    const uint16_t *from;            /* this thread's first element of the next stage */
    int64_t pitch;                   /* elements from row to row in memory */
    int64_t rows_left, columns_left; /* that exist from the thread's first element on */
    int row, column;                 /* of the thread's first element, in a stage */
    bool aligned;                    /* do the operand's rows consist of whole vectors? */

    __device__ tile_operand(const void *matrix, int64_t first_line, int64_t lines, int64_t k, bool aligned_)
        : pitch(K_ADJACENT ? k : lines), row(int(threadIdx.x) / VECTORS), column(int(threadIdx.x) % VECTORS * 8),
          aligned(aligned_) {
        const int64_t first_row = K_ADJACENT ? first_line + row : row,
                      first = K_ADJACENT ? column : first_line + column;
        from = static_cast<const uint16_t *>(matrix) + first_row * pitch + first;
        rows_left = (K_ADJACENT ? lines : k) - first_row;
        columns_left = pitch - first;
    }

    /* Copies the next STEP of k into a stage; if `aligned`, only starts the copies. What does not exist becomes
     * zeros. */
    __device__ void bring(stage &to) {
#pragma unroll
        for (int i = 0; i < ROWS; i += DOWN) {
            uint16_t *const target = &to[row + i][column];
            if (aligned) {
                copy_async<16>(shared_address(target), from + i * pitch, i < rows_left && columns_left > 0);
            } else {
#pragma unroll
                for (int e = 0; e < 8; e++) target[e] = i < rows_left && e < columns_left ? from[i * pitch + e] : 0;
            }
        }
        from += K_ADJACENT ? STEP : STEP * pitch;
        (K_ADJACENT ? columns_left : rows_left) -= STEP;
    }

    /* The element of a stage whose address this thread gives to ldmatrix, for four matrices: 16 lines by 16 of k. In A
     * the second matrix lies 8 lines after the first, and the third 8 k after it; in B the reverse. */
    static __device__ int matrix_row(bool is_a) {
        const int lane = int(threadIdx.x) % 32, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
        return (is_a ? second : third) * LINE + (is_a ? third : second) * K + lane % 8 * PITCH;
    }
};

/* Computes one tile of C per block. a_aligned, b_aligned: do the operand's rows consist of whole vectors? */
template <typename T, bool A_K_ADJACENT, bool B_K_ADJACENT>
__global__ void __launch_bounds__(THREADS, 2)
    matmul_warp_mma_kernel(const __grid_constant__ matmul_args args, bool a_aligned, bool b_aligned) {
    using A = tile_operand<A_K_ADJACENT>;
    using B = tile_operand<B_K_ADJACENT>;
    __shared__ alignas(16) typename A::stage a_stages[2];
    __shared__ alignas(16) typename B::stage b_stages[2];

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    A a(static_cast<const T *>(args.a) + tile.batch * args.a_batch_stride, row, args.m, args.k, a_aligned);
    B b(static_cast<const T *>(args.b) + tile.batch * args.b_batch_stride, column, args.n, args.k, b_aligned);
    const int warp = int(threadIdx.x) / 32, y = warp / (TILE / WARP_N) * WARP_M, x = warp % (TILE / WARP_N) * WARP_N;
    const int a_row = y * A::LINE + A::matrix_row(true), b_row = x * B::LINE + B::matrix_row(false);

    float sums[WARP_M / 16][WARP_N / 8][4] = {};
    a.bring(a_stages[0]);
    b.bring(b_stages[0]);
    copy_commit();
    int at = 0;
    for (int64_t k = 0; k < args.k; k += STEP, at ^= 1) {
        copy_wait<0>();
        __syncthreads(); /* the stage has arrived, and all warps have left the other one */
        a.bring(a_stages[at ^ 1]);
        b.bring(b_stages[at ^ 1]);
        copy_commit();
        const unsigned a_stage = shared_address(&a_stages[at][0][0] + a_row);
        const unsigned b_stage = shared_address(&b_stages[at][0][0] + b_row);
#pragma unroll
        for (int l = 0; l < STEP; l += 16) {
            uint32_t rows[WARP_M / 16][4], columns[WARP_N / 16][4];
#pragma unroll
            for (int i = 0; i < WARP_M / 16; i++)
                load_matrices<!A_K_ADJACENT>(rows[i], a_stage + 2 * (i * 16 * A::LINE + l * A::K));
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++)
                load_matrices<!B_K_ADJACENT>(columns[j], b_stage + 2 * (j * 16 * B::LINE + l * B::K));
#pragma unroll
            for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
                for (int j = 0; j < WARP_N / 8; j++)
                    multiply<T>(sums[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
        }
    }
    copy_wait<0>();

    /* Thread 4g + t has columns 2t and 2t + 1 of rows g and g + 8 of each 16 x 8. */
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++)
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const int64_t r = row + y + i * 16 + v / 2 * 8 + lane / 4,
                              c = column + x + j * 8 + lane % 4 * 2 + v % 2;
                if (r < args.m && c < args.n)
                    matmul_store<T>(args, (tile.batch * args.m + r) * args.n + c, sums[i][j][v]);
            }
}

/* Returns the kernel that is compiled for these layouts: is k adjacent in memory, rather than m (of A) or n (of B)? */
template <typename T, bool A_K_ADJACENT> static auto matmul_warp_mma_kernel_of(bool b_k_adjacent) {
    return b_k_adjacent ? matmul_warp_mma_kernel<T, A_K_ADJACENT, true>
                        : matmul_warp_mma_kernel<T, A_K_ADJACENT, false>;
}

/* Starts the kernel for elements of type T. An operand is aligned if each row and each matrix begins at a multiple of
 * 8 elements. Returns 0 or a cudaError_t. */
template <typename T> static int matmul_warp_mma_of(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    const bool a_aligned = (args.transpose_a ? args.m : args.k) % 8 == 0 && args.a_batch_stride % 8 == 0;
    const bool b_aligned = (args.transpose_b ? args.k : args.n) % 8 == 0 && args.b_batch_stride % 8 == 0;
    const auto kernel = args.transpose_a ? matmul_warp_mma_kernel_of<T, false>(args.transpose_b)
                                         : matmul_warp_mma_kernel_of<T, true>(args.transpose_b);
    kernel<<<grid_of(blocks), THREADS, 0, stream_of(launch)>>>(args, a_aligned, b_aligned);
    return cudaGetLastError();
}

static int matmul_warp_mma_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_warp_mma_of<__half>(launch) : matmul_warp_mma_of<__nv_bfloat16>(launch);
}

KERNEL(matmul_warp_mma) = {
    .name = "warp_mma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "16-bit types on tensor cores, one instruction per warp: 128x128 tiles in two stages, ldmatrix",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{TILE, 8}, {TILE, 8}, {STEP, 16, 8}},
    .accuracy = ACCURACY_FULL,
    .speed = 0.35,
    .compute_capability = 80,
    .launch = matmul_warp_mma_launch,
};
