/* wgmma.cu - bfloat16 and float16 on Hopper's tensor cores: a copy engine moves the operands, threads only give
 * orders.
 *
 *     copy engine   | stage 0 | stage 1 | stage 2 | stage 3 | stage 0 ..   48 KiB each: 128 x 64 of A, 64 x 256 of B
 *     producer      one thread starts a copy as soon as a stage is empty
 *     consumer 0              | stage 0 | stage 1 | stage 2 | stage 3 ..   64 x 256 of C += 64 x 64 * 64 x 256,
 *     consumer 1              | stage 0 | stage 1 | stage 2 | stage 3 ..   four instructions
 *
 * mma.cu loads operands from shared memory into registers before it multiplies. Here no thread touches an
 * operand: the copy engine fills shared memory, the tensor core reads it there, and threads only start both. A block's
 * tile of 128 x 256 is the largest that registers hold (128 sums per thread), so each byte loaded serves the most
 * multiplications. Two blocks form a cluster and share their tile of B, which cuts reads from L2 by a third. A block
 * stays for the whole launch and takes tile after tile: while it stores one tile's sums, the next tile's operands
 * arrive.
 *
 * A stage takes 1024 cycles: each of two consumers issues 4 instructions of 128 cycles. Shared memory moves 128 KiB in
 * that time, which is its limit: copies write 48 KiB, and each consumer reads 8 KiB of A and 32 KiB of B.
 *
 * Barriers use the plain forms of arrive and wait: only the copy engine and the tensor core touch the data they guard.
 * A release and an acquire at cluster scope in every stage cost a third of the speed.
 *
 * Not every C is large. The pair's tile is 256 rows by 256, 192, 128 or 64 columns; a product whose m is small is
 * turned (C^T = B^T A^T: both kinds of operand may lie either way), so that the 256 lie along n; and where tiles are
 * few, k is cut in 2 or 4 pieces:
 *
 *     pair 0   A, 256 x k/4  |  sums of 256 x n  |     Every block leaves its sums in its own shared memory, then
 *     pair 1   A, 256 x k/4  |  sums of 256 x n  |     adds up a quarter of its rows, read from all four pairs. This
 *     pair 2   A, 256 x k/4  |  sums of 256 x n  |     needs no workspace, counter or second launch, and it adds in
 *     pair 3   A, 256 x k/4  |  sums of 256 x n  |     the same order every time.
 *
 * More than four pieces would need clusters of more than 8 blocks, which not every chip can place. Tiles of 64 columns
 * leave room for two blocks on a multiprocessor: one loads while the other starts or stores. Which of these is fastest
 * is predicted (wgmma_choice.cuh), and can be forced by the job.
 *
 * The copy engine wants rows that begin on 16 bytes. Others are copied first (pack.cuh), one pass over the operand.
 *
 * Measured on an H200, bfloat16, against cuBLAS: 0.98 to 1.02 at 4096 to 16384 (803 TFLOP/s at 8192), 0.74 at 2000, 4.2
 * at 4785 and 3.3 at 3413, whose rows begin anywhere. By the model's choice, of 21 drawn shapes 16 took at most 5 %
 * longer than by the best of 20 configurations; its constants were then fitted to these times.
 *
 * What remains: at the end of a tile both consumers store, and neither multiplies. A small product takes 5 us where the
 * vendor's takes 2.5. Weights that are read once, for a few rows, arrive at 2.2 to 3.2 TB/s. */
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

template <typename SHAPE, typename T, bool A_MN> static auto matmul_wgmma_kernel_of(bool b_mn) {
    return b_mn ? matmul_wgmma_kernel<SHAPE, T, A_MN, true> : matmul_wgmma_kernel<SHAPE, T, A_MN, false>;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* The job's words, by their place in the descriptor's lists; 0 where the model decides. */
static const int tile_words[] = {0, 256, 192, 128, 64}, piece_words[] = {0, 1, 2, 4};

static wgmma_config matmul_wgmma_config(const struct launch *launch) {
    const int *choice = launch->choice;
    return wgmma_choose(launch, tile_words[choice[0]], piece_words[choice[1]],
                        tile_words[choice[0]] > 128 ? 1 : choice[2]);
}

/* An element's bits depend only on how k is cut. */
static uint64_t matmul_wgmma_way(const struct launch *launch) {
    const int pieces = matmul_wgmma_config(launch).pieces;
    return pieces == 1 ? 1 : uint64_t(ceil_div(ceil_div(launch->args.matmul.k, pieces), TILE_K)) << 1;
}

static size_t matmul_wgmma_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
}

static const char *matmul_wgmma_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

template <typename SHAPE, typename T>
static int matmul_wgmma_start(const struct launch *launch, const wgmma_config &config) {
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

template <typename T> static int matmul_wgmma_of(const struct launch *launch) {
    const wgmma_config config = matmul_wgmma_config(launch);
    switch (config.tile_n) {
    case 256: return matmul_wgmma_start<wgmma_256, T>(launch, config);
    case 192: return matmul_wgmma_start<wgmma_192, T>(launch, config);
    case 128: return matmul_wgmma_start<wgmma_128, T>(launch, config);
    default: return matmul_wgmma_start<wgmma_64, T>(launch, config);
    }
}

static int matmul_wgmma_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_wgmma_of<__half>(launch) : matmul_wgmma_of<__nv_bfloat16>(launch);
}

KERNEL(matmul_wgmma) = {
    .name = "wgmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores: bulk copies into a ring of stages, warps with roles, clusters that share B",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{WGMMA_CLUSTER * WGMMA_TILE_M, 128, 64, 8}, {256, 192, 128, 64, 8}, {TILE_K, 8, 4 * TILE_K, 8 * TILE_K}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "tile",
                    .values = {"auto", "256x256", "256x192", "256x128", "256x64"},
                    .help = "of a pair of blocks; auto: what a model predicts to be fastest"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "4"},
                    .help = "of k, each by a pair of its own, added up in their shared memory"},
                   {.name = "turned",
                    .values = {"auto", "no", "yes"},
                    .help = "the tile's 256 lie along n; for tiles of 128 and 64"}},
    .way = matmul_wgmma_way,
    .workspace = matmul_wgmma_workspace,
    .refuses = matmul_wgmma_refuses,
    .launch = matmul_wgmma_launch,
};
