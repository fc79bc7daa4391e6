/* matmul/warpgroup.cu - Hopper's tensor cores: four warps issue one instruction, which reads both operands from shared
 * memory.
 *
 * matmul/warp_mma.cu loads operands into registers, each into those of several warps, before it multiplies.
 * On Hopper wgmma multiplies 64 x 16 of A by 16 x 128 of B straight from shared memory. A warpgroup, 128 threads,
 * issues it together and goes on at once; the 64 x 128 sums are spread over its registers, 64 to a thread
 * (core/wgmma.cuh).
 *
 *                  B   64 of k   | slab 0 | slab 1 |        a slab: 64 rows of 128 bytes, 64 elements
 *     A  64 of k                 |        |        |
 *     +--------+                 +-----------------+
 *     | slab 0 |                 |   warpgroup 0   | 64     for each 64 of k, each warpgroup issues
 *     | slab 1 |                 |   warpgroup 1   | 64     four instructions of 16 of k
 *     +--------+                 +-----------------+
 *
 * Tensor cores want the rows of a slab swizzled: 16-byte vector p of row r stands at position p ^ r % 8, so that eight
 * vectors of one column lie in different banks. A slab's rows are rows of memory, along k or, of an MN-major operand
 * (A_MN, B_MN), across it; a bit of the instruction says which, so transposition costs nothing.
 *
 *     for each stage s: wait for the copies into s, and for the multiplication of s - 1      cp.async, wgmma
 *                       fence: what threads have written, tensor cores may read              proxies
 *                       barrier                                                              all threads
 *                       issue the multiplication of s, which runs from here on
 *                       start copies into the stage of s - 1
 *
 * The fence is needed because wgmma reads shared memory by another way (the async proxy) than threads write it.
 *
 * At 8192 in bfloat16 on an H100 this has 363 TFLOP/s, 0.48 of cuBLAS's speed, where matmul/warp_mma.cu has 273.
 *
 * The limit: the warps that multiply also compute the address of every vector, and all wait at one barrier; blocks
 * fetch the same operands from L2 independently. In tuned/multicast.cu one thread starts copies of whole slabs by the
 * copy engine (core/tma.cuh), other warps only multiply, and two blocks share what they fetch: 803 TFLOP/s at 8192 on
 * an H200, as fast as cuBLAS. */
#include "../core/wgmma.cuh"
#include "matmul.cuh"

#define TILE      128 /* rows and columns of C per block */
#define STEP      64  /* of k per stage */
#define SLABS     (TILE / 64)
#define STAGES    3
#define WARPGROUP 128
#define THREADS   (TILE / 64 * WARPGROUP)

struct stage {
    uint8_t a[SLABS][SLAB_BYTES], b[SLABS][SLAB_BYTES];
};

/* Copies TILE lines (rows of A, columns of B) by STEP of k into the slabs of a stage. MN: the operand's rows in memory
 * hold all lines of one k, else all k of one line. What does not exist becomes zeros. `aligned`: the rows consist of
 * whole vectors; then this only starts the copies. */
template <bool MN>
__device__ inline void bring(uint8_t (&slabs)[SLABS][SLAB_BYTES], const uint16_t *matrix, int64_t first_line,
                             int64_t lines, int64_t first_k, int64_t k, bool aligned) {
    const int64_t pitch = MN ? lines : k, rows = MN ? k : lines;
    const int place = int(threadIdx.x) % 8, in_slab = int(threadIdx.x) / 8; /* the thread's vector; its first row */
    /* One slab after the other: for both at once registers do not suffice. */
#pragma unroll 1
    for (int s = 0; s < SLABS; s++) {
        const int64_t line = first_line + s * 64, column = (MN ? line : first_k) + place * 8;
#pragma unroll
        for (int i = 0; i < 64; i += THREADS / 8) {
            const int r = in_slab + i;
            const int64_t row = (MN ? first_k : line) + r;
            const uint16_t *const from = matrix + row * pitch + column;
            uint8_t *const to = slabs[s] + r * 128 + (place ^ r % 8) * 16;
            if (aligned) {
                copy_async<16>(shared_address(to), from, row < rows && column < pitch);
            } else {
#pragma unroll
                for (int e = 0; e < 8; e++)
                    reinterpret_cast<uint16_t *>(to)[e] = row < rows && column + e < pitch ? from[e] : 0;
            }
        }
    }
}

/* Computes one tile of C per block. a_aligned, b_aligned: do the operand's rows consist of whole vectors? */
template <typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(THREADS, 2)
    matmul_warpgroup_kernel(const __grid_constant__ matmul_args args, bool a_aligned, bool b_aligned) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL /* only 9.0a has wgmma: elsewhere the kernel is empty, and never launched */
    extern __shared__ __align__(1024) uint8_t memory[];
    stage *const stages = reinterpret_cast<stage *>(memory);

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;
    const auto *const a = static_cast<const uint16_t *>(args.a) + tile.batch * args.a_batch_stride;
    const auto *const b = static_cast<const uint16_t *>(args.b) + tile.batch * args.b_batch_stride;
    const auto start = [&](stage &to, int64_t k) {
        bring<A_MN>(to.a, a, row, args.m, k, args.k, a_aligned);
        bring<B_MN>(to.b, b, column, args.n, k, args.k, b_aligned);
        copy_commit();
    };
    const int warpgroup = int(threadIdx.x) / WARPGROUP;

    float sums[TILE / 2] = {};
    for (int s = 0; s < STAGES - 1; s++) start(stages[s], s * STEP);
    int at = 0, free = STAGES - 1; /* the stage to multiply, the stage to fill */
    for (int64_t k = 0; k < args.k; k += STEP) {
        copy_wait<STAGES - 2>();
        wgmma_wait<0>();   /* behind the barrier all warps know that the stage before is free */
        tma_store_fence(); /* wgmma sees what cp.async has written, as a TMA store would */
        __syncthreads();
        const uint64_t a_slab = wgmma_operand(stages[at].a[warpgroup]), b_slab = wgmma_operand(stages[at].b[0]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEP / 16; i++)
            wgmma<T, A_MN, B_MN>(sums, a_slab + i * wgmma_step<A_MN>, b_slab + i * wgmma_step<B_MN>);
        wgmma_commit();
        start(stages[free], k + (STAGES - 1) * STEP);
        free = at;
        at = at == STAGES - 1 ? 0 : at + 1;
    }
    wgmma_wait<0>();
    wgmma_pin(sums); /* the compiler must not read the sums before the wait */
    copy_wait<0>();

    /* Warp w of a warpgroup has rows 16w .. 16w + 15; its thread t has rows t / 4 and t / 4 + 8 of these, and two of
     * every 8 columns. */
    const int t = int(threadIdx.x) % 32;
    const int64_t r = row + threadIdx.x / 32 * 16 + t / 4, c = column + t % 4 * 2;
#pragma unroll
    for (int i = 0; i < TILE / 2; i++) {
        const int64_t m = r + i / 2 % 2 * 8, n = c + i / 4 * 8 + i % 2;
        if (m < args.m && n < args.n) matmul_store<T>(args, (tile.batch * args.m + m) * args.n + n, sums[i]);
    }
#endif
}

/* Returns the kernel that is compiled for these layouts: is m (of A), is n (of B) adjacent in memory, rather than k? */
template <typename T, bool A_MN> static auto matmul_warpgroup_kernel_of(bool b_mn) {
    return b_mn ? matmul_warpgroup_kernel<T, A_MN, true> : matmul_warpgroup_kernel<T, A_MN, false>;
}

/* Starts the kernel for elements of type T. An operand is aligned if each row and each matrix begins at a multiple of
 * 8 elements. Returns 0 or a cudaError_t. */
template <typename T> static int matmul_warpgroup_of(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    const bool a_aligned = (args.transpose_a ? args.m : args.k) % 8 == 0 && args.a_batch_stride % 8 == 0;
    const bool b_aligned = (args.transpose_b ? args.k : args.n) % 8 == 0 && args.b_batch_stride % 8 == 0;
    const auto kernel = args.transpose_a ? matmul_warpgroup_kernel_of<T, true>(!args.transpose_b)
                                         : matmul_warpgroup_kernel_of<T, false>(!args.transpose_b);
    const int bytes = STAGES * int(sizeof(stage));
    const int code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (code != cudaSuccess) return code;
    kernel<<<grid_of(blocks), THREADS, bytes, stream_of(launch)>>>(args, a_aligned, b_aligned);
    return cudaGetLastError();
}

static int matmul_warpgroup_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_warpgroup_of<__half>(launch) : matmul_warpgroup_of<__nv_bfloat16>(launch);
}

KERNEL(matmul_warpgroup) = {
    .name = "warpgroup",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores: one instruction per four warps, operands swizzled in shared memory by cp.async",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{TILE, 64, 8}, {TILE, 64, 8}, {STEP, 16, 8, STAGES *STEP}},
    .accuracy = ACCURACY_FULL,
    .speed = 0.4,
    .compute_capability = 90,
    .only_below = 100,
    .launch = matmul_warpgroup_launch,
};
