/* wgmma_kernel.cuh - the kernel of wgmma.cu and its launch. */
#ifndef KERNELS_MATMUL_WGMMA_KERNEL_CUH
#define KERNELS_MATMUL_WGMMA_KERNEL_CUH

#include "wgmma_choice.cuh"
#include "wgmma_store.cuh"

#define TILE_K WGMMA_STEP_K

template <int TILE_N_, int STAGES_, int BLOCKS_> struct wgmma_shape {
    static constexpr int TILE_N = TILE_N_;
    static constexpr int STAGES = STAGES_, BLOCKS = BLOCKS_; /* blocks per multiprocessor */
    using stage_t = wgmma_stage<1, TILE_N / 64>;
    using shared_t = wgmma_shared<stage_t, STAGES>;
    static_assert(sizeof(wgmma_sums<TILE_N>) <= sizeof(stage_t) * STAGES, "sums take the place of stages");
};
using wgmma_256 = wgmma_shape<256, 4, 1>;
using wgmma_192 = wgmma_shape<192, 5, 1>;
using wgmma_128 = wgmma_shape<128, 6, 1>;
using wgmma_64 = wgmma_shape<64, 4, 2>; /* 98 KiB: two blocks keep 128 KiB of A in flight; memory (1 us, 4 TB/s)
                                           needs 30 KiB per multiprocessor */

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A consumer multiplies its 64 rows of A by the tile of B, stage by stage. It queues a stage's instructions, then waits
 * for those of the stage before and releases that stage. */
template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__device__ inline void wgmma_consume(const wgmma_work &work, typename SHAPE::shared_t &shared, int consumer,
                                     int64_t tiles, const wgmma_piece &piece) {
    ring_position<SHAPE::STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        float sum[SHAPE::TILE_N / 2];
#pragma unroll
        for (float &each : sum) each = 0;
        int reading = -1; /* the stage that pending instructions read */
        for (int64_t k = piece.begin; k < piece.end; k += TILE_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const typename SHAPE::stage_t &stage = shared.stage[at.stage];
            const uint64_t a = wgmma_operand(stage.a[0][consumer]), b = wgmma_operand(stage.b[0][0]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < TILE_K / 16; i++)
                wgmma<T, A_MN, B_MN>(sum, a + i * wgmma_step<A_MN>, b + i * wgmma_step<B_MN>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) wgmma_release(shared.ring, reading, piece.pair);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading, piece.pair);
        if (gridDim.y > 1) {
            wgmma_leave(*reinterpret_cast<wgmma_sums<SHAPE::TILE_N> *>(shared.stage), consumer, sum);
            return; /* the cluster's only tile */
        }
        const tile_place tile = wgmma_tile(work.args, SHAPE::TILE_N, number);
        wgmma_store<T>(work, tile.batch, tile.row + consumer * 64, tile.column, sum);
    }
}

template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, SHAPE::BLOCKS)
    matmul_wgmma_kernel(const __grid_constant__ wgmma_work work, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    auto &shared = *reinterpret_cast<typename SHAPE::shared_t *>(memory);
    if (threadIdx.x == 0) {
        tma_prefetch(&a_map);
        tma_prefetch(&b_map);
    }
    const wgmma_piece piece = wgmma_piece_of_block(work.args, TILE_K);
    wgmma_roles<SHAPE::BLOCKS>(
        shared.ring, [&] { wgmma_produce<TILE_K, A_MN, B_MN>(work.args, &a_map, &b_map, shared, tiles, piece); },
        [&](int consumer) { wgmma_consume<SHAPE, T, A_MN, B_MN>(work, shared, consumer, tiles, piece); });
    if (gridDim.y > 1) {
        wgmma_gather<T, WGMMA_PIECES>(work, *reinterpret_cast<wgmma_sums<SHAPE::TILE_N> *>(shared.stage));
        cluster_sync();
    }
#endif
}

template <typename SHAPE, typename T, bool A_MN> auto matmul_wgmma_kernel_of(bool b_mn) {
    return b_mn ? matmul_wgmma_kernel<SHAPE, T, A_MN, true> : matmul_wgmma_kernel<SHAPE, T, A_MN, false>;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

template <typename SHAPE, typename T> int matmul_wgmma_start(const struct launch *launch, const wgmma_config &config) {
    const matmul_args &given = launch->args.matmul;
    const wgmma_work work = {config.turned ? matmul_turn(given) : given, config.turned};
    const matmul_args &args = work.args;
    const int64_t tiles = wgmma_tiles(args, SHAPE::TILE_N);
    if (tiles == 0) return 0;
    const auto type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUtensorMap a_map = {}, b_map = {};
    if (args.k > 0) {
        uint8_t *room = static_cast<uint8_t *>(launch->workspace);
        const tma_stack a = pack<uint16_t>(launch, wgmma_stack_a(args), false, &room);
        const tma_stack b = pack<uint16_t>(launch, wgmma_stack_b(args), false, &room);
        int error = tma_encode(&a_map, type, 2, a, 64);
        if (!error) error = tma_encode(&b_map, type, 2, b, SHAPE::stage_t::B_BOX);
        if (error) return error;
    }
    const auto kernel = args.transpose_a ? matmul_wgmma_kernel_of<SHAPE, T, true>(!args.transpose_b)
                                         : matmul_wgmma_kernel_of<SHAPE, T, false>(!args.transpose_b);
    return wgmma_start(launch, {tiles, SHAPE::BLOCKS, config.pieces}, sizeof(typename SHAPE::shared_t), kernel, work,
                       a_map, b_map);
}

template <int TILE_N, typename T> int matmul_wgmma_tile(const struct launch *launch, const wgmma_config &config) {
    if constexpr (TILE_N == 256) return matmul_wgmma_start<wgmma_256, T>(launch, config);
    if constexpr (TILE_N == 192) return matmul_wgmma_start<wgmma_192, T>(launch, config);
    if constexpr (TILE_N == 128) return matmul_wgmma_start<wgmma_128, T>(launch, config);
    if constexpr (TILE_N == 64) return matmul_wgmma_start<wgmma_64, T>(launch, config);
}

#endif
