/* tf32.cuh - the kernel of tf32.cu, which explains its design, and its launch: for a whole product or (MENDS) for the
 * elements that scaled16.cu hands over. The kernel computes the product turned: its `a` and `m` are the job's B and n.
 * A_MN: is that `a` MN-major (core/wgmma.cuh)? Without 9.0a the kernel is empty, and is never launched. */
#ifndef KERNELS_MATMUL_TF32_CUH
#define KERNELS_MATMUL_TF32_CUH

#include "pack.cuh"
#include "wgmma.cuh"

#define TF32_N      256
#define TF32_K      32 /* one slab row: 128 bytes */
#define TF32_STAGES 4

using tf32_stage = wgmma_stage<1, TF32_N / 64>;
using tf32_shared = wgmma_shared<tf32_stage, TF32_STAGES>;

/* The row of the consumer's 64 that this thread holds as row t/4 (upper: t/4 + 8) of its warp's 16. If A is
 * MN-major, rows are assigned so that a warp's load touches all 32 banks: the swizzle moves groups of four elements by
 * the row of k, hence by t%4, in bits 2 and 3. */
template <bool A_MN> __device__ inline int tf32_row(bool upper) {
    const int quad = int(threadIdx.x) % 32 / 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    if constexpr (A_MN)
        return warp / 2 * 32 + (quad / 4) * 16 + warp % 2 * 8 + upper * 4 + quad % 4;
    else
        return warp * 16 + upper * 8 + quad;
}

/* Element (row, k) of the consumer's 64 x 32 tile, which is swizzled. */
template <bool A_MN> __device__ inline uint32_t tf32_element(const uint8_t *tile, int row, int k) {
    const int line = A_MN ? row / 32 * 32 + k : row, place = A_MN ? row % 32 : k;
    return *reinterpret_cast<const uint32_t *>(tile + line * 128 + (place * 4 ^ line % 8 * 16));
}

/* The elements that another variant failed to compute: a word that is 0 if there are none, then a bit for each element
 * of C. NULL: all of C. */
struct tf32_wanted {
    const uint32_t *word;
};

/* Stores a warpgroup's 64 x 256 sums of C^T; the first sum is C[column][row]. */
template <bool A_MN, bool MENDS>
__device__ inline void tf32_store(const matmul_args &args, const tf32_wanted &wanted, int64_t batch, int64_t row,
                                  int64_t column, float (&sum)[128]) {
    const bool plain = args.first && args.last && args.alpha == 1, second = threadIdx.x & 16;
    int64_t m[2] = {row + tf32_row<A_MN>(false), row + tf32_row<A_MN>(true)};
    if constexpr (A_MN) { /* exchanges rows 4 apart with rows 16 apart, so that eight threads write 32 adjacent bytes */
        const int64_t base = m[0] - second * 16;
        m[0] = base + second * 4;
        m[1] = base + second * 4 + 16;
    }
#pragma unroll
    for (int j = 0; j < 128; j += 4)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float value[] = {sum[j + i], sum[j + 2 + i]};
            if constexpr (A_MN) {
                const float got = __shfl_xor_sync(~0u, second ? value[0] : value[1], 16);
                (second ? value[0] : value[1]) = got;
            }
            const int64_t n = column + j * 2 + threadIdx.x % 4 * 2 + i;
            if (n >= args.n) continue;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (m[half] >= args.m) continue;
                const int64_t at = (batch * args.n + n) * args.m + m[half];
                if (MENDS && !(wanted.word[1 + at / 32] >> at % 32 & 1)) continue;
                if (plain)
                    static_cast<float *>(args.c)[at] = value[half];
                else
                    matmul_store<float>(args, at, value[half]);
            }
        }
}

/* A consumer multiplies its 64 rows of each tile, A from registers, and stores the sums. */
template <bool A_MN, bool MENDS>
__device__ inline void tf32_consume(const matmul_args &args, const tf32_wanted &wanted, tf32_shared &shared,
                                    int consumer, int64_t tiles) {
    const int row[] = {tf32_row<A_MN>(false), tf32_row<A_MN>(true)}, first = int(threadIdx.x) % 4;
    ring_position<TF32_STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        float sum[128];
#pragma unroll
        for (int i = 0; i < 128; i++) sum[i] = 0;
        int reading = -1; /* the stage that pending instructions read */
#pragma unroll 2          /* a round must not load into registers that pending instructions read */
        for (int64_t k = 0; k < args.k; k += TF32_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const tf32_stage &stage = shared.stage[at.stage];
            uint32_t a[TF32_K / 8][4];
#pragma unroll
            for (int i = 0; i < TF32_K / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    a[i][j] = tf32_element<A_MN>(stage.a[0][consumer], row[j % 2], i * 8 + j / 2 * 4 + first);
            const uint64_t b = wgmma_operand(stage.b[0][0]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < TF32_K / 8; i++) wgmma_tf32(sum, a[i], b + i * wgmma_step<false>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) wgmma_release(shared.ring, reading);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading);
        wgmma_pin(sum);
        const tile_position tile = wgmma_tile(args, TF32_N, number);
        tf32_store<A_MN, MENDS>(args, wanted, tile.batch, tile.row + consumer * 64, tile.column, sum);
    }
}

/* `tiles`: of the product. MENDS: does nothing if no element is wanted. */
template <bool A_MN, bool MENDS>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_tf32_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                       const __grid_constant__ CUtensorMap b_map, const tf32_wanted wanted, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (MENDS) {
        launch_wait();
        if (*wanted.word == 0) return;
    }
    extern __shared__ __align__(1024) uint8_t memory[];
    tf32_shared &shared = *reinterpret_cast<tf32_shared *>(memory);
    wgmma_roles(
        shared.ring, /* the producer, then a consumer: */
        [&] {
            ring_position<TF32_STAGES> at;
            wgmma_walk(tiles, [&](int64_t number) {
                wgmma_produce<TF32_K, A_MN, false>(args, &a_map, &b_map, shared, at, number);
            });
        },
        [&](int consumer) { tf32_consume<A_MN, MENDS>(args, wanted, shared, consumer, tiles); });
#endif
}

/* The bytes for copies that TMA can read (pack.cuh). In the turned product b, the job's A, must be K-major. */
inline size_t tf32_workspace(const struct launch *launch) {
    const matmul_args turned = matmul_turn(launch->args.matmul);
    return pack_bytes(wgmma_stack_a(turned), sizeof(float), false) +
           pack_bytes(wgmma_stack_b(turned), sizeof(float), !turned.transpose_b);
}

/* Launches the whole product or, if MENDS, the elements that are `wanted`. */
template <bool MENDS> int tf32_start(const struct launch *launch, const tf32_wanted &wanted) {
    const matmul_args turned = matmul_turn(launch->args.matmul);
    const int64_t tiles = wgmma_tiles(turned, TF32_N);
    if (tiles == 0) return 0;
    CUtensorMap a_map = {}, b_map = {};
    if (turned.k > 0) {
        uint8_t *free_memory = static_cast<uint8_t *>(launch->workspace);
        const tma_stack a = pack<uint32_t>(launch, wgmma_stack_a(turned), false, &free_memory, wanted.word);
        const tma_stack b =
            pack<uint32_t>(launch, wgmma_stack_b(turned), !turned.transpose_b, &free_memory, wanted.word);
        const auto rounded = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
        int error = tma_encode(&a_map, rounded, sizeof(float), a, turned.transpose_a ? TF32_K : 64);
        if (!error) error = tma_encode(&b_map, rounded, sizeof(float), b, 64);
        if (error) return error;
    }
    const auto kernel = turned.transpose_a ? matmul_tf32_kernel<true, MENDS> : matmul_tf32_kernel<false, MENDS>;
    return wgmma_start(launch, tiles, MENDS, sizeof(tf32_shared), kernel, turned, a_map, b_map, wanted);
}

#endif
