/* matmul/wgmma.cu - bfloat16 and float16 on Hopper's tensor cores: a copy engine moves the operands, threads only give
 * orders.
 *
 *     copy engine   | stage 0 | stage 1 | stage 2 | stage 3 | stage 0 ..   48 KiB each: 128 x 64 of A, 64 x 256 of B
 *     producer      one thread starts a copy as soon as a stage is empty
 *     consumer 0              | stage 0 | stage 1 | stage 2 | stage 3 ..   64 x 256 of C += 64 x 64 * 64 x 256,
 *     consumer 1              | stage 0 | stage 1 | stage 2 | stage 3 ..   four instructions
 *
 * matmul/mma.cu loads operands from shared memory into registers before it multiplies. Here no thread touches an
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
 * Measured on an H200, bfloat16: 0.98 to 1.02 of cuBLAS's speed at 4096 to 16384 (803 TFLOP/s at 8192), but 0.43 at
 * 1024, where 16 tiles meet 66 clusters. Products that are small but long in k go to matmul/mma.cu (wide_pays). What
 * remains: at the end of a tile both consumers store, and neither multiplies.
 *
 * A narrow C, up to 64 columns, takes as long as reading A once, so the kernel must keep enough of A in flight. It uses
 * the same frame with a tile of 128 x 64:
 *
 *     two blocks per multiprocessor        one loads while the other starts or stores; 128 KiB of A are in flight
 *     a pair still shares B                L2 delivers 5 bytes for every 4 of A; without sharing it would be 6
 *     few tiles: k is cut in 2 or 4        a cluster of 2 or 4 pairs takes one tile, each pair one piece of k
 *
 *     pair 0   A, 256 x k/4  |  sums of 256 x 64  |     Every block leaves its sums in its own shared memory, then
 *     pair 1   A, 256 x k/4  |  sums of 256 x 64  |     adds up a quarter of its rows, read from all four pairs. This
 *     pair 2   A, 256 x k/4  |  sums of 256 x 64  |     needs no workspace, counter or second launch, and it adds in
 *     pair 3   A, 256 x k/4  |  sums of 256 x 64  |     the same order every time.
 *
 * More than four pieces would need clusters of more than 8 blocks, which not every chip can place. Where four pieces
 * leave multiprocessors idle over a long k, matmul/mma.cu takes over (narrow_pays).
 *
 * Measured on an H200, bfloat16, 4096 x 64 x 4096: 0.82 of cuBLAS's speed (matmul/mma.cu: 0.44). */
#include "pack.cuh"
#include "wgmma.cuh"

DECLARE_KERNEL(matmul_mma); /* takes what neither shape of tile pays for */

#define TILE_K 64 /* a slab's 128 bytes */
#define STAGES 4

template <int TILE_N_, int BLOCKS_, int PIECES_> struct wgmma_shape {
    static constexpr int TILE_N = TILE_N_;
    static constexpr int SUMS = TILE_N / 2; /* per thread */
    static constexpr int BLOCKS = BLOCKS_;  /* per multiprocessor */
    static constexpr int PIECES = PIECES_;  /* of k, at most */
    using stage_t = wgmma_stage<1, TILE_N / 64>;
    using shared_t = wgmma_shared<stage_t, STAGES>;
};
using wgmma_wide = wgmma_shape<256, 1, 1>;
using wgmma_narrow = wgmma_shape<64, 2, 4>; /* 98 KiB: two blocks keep 128 KiB of A in flight; memory (1 us, 4 TB/s)
                                               needs 30 KiB per multiprocessor */

/* Transposes a 4 x 4 square of words between the four threads of a quad. Before: each thread holds word i of four
 * 16-byte vectors. After: each thread holds one whole vector. */
__device__ inline void quad_transpose(uint32_t (&word)[4]) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(~0u, odd ? word[i] : word[i + 1], 1);
        (odd ? word[i] : word[i + 1]) = got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(~0u, high ? word[i] : word[i + 2], 2);
        (high ? word[i] : word[i + 2]) = got;
    }
}

template <typename T> __device__ inline uint32_t pack(float low, float high) {
    const T both[] = {narrow<T>(low), narrow<T>(high)};
    uint32_t word;
    memcpy(&word, both, sizeof word);
    return word;
}

/* Stores a warpgroup's 64 rows of sums; the first sum is C[row][column] of matrix `batch`. */
template <typename T, int SUMS>
__device__ inline void wgmma_store(const matmul_args &args, int64_t batch, int64_t row, int64_t column,
                                   const float (&sum)[SUMS]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const bool plain = args.first && args.last && args.alpha == 1;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t m = row + warp * 16 + half * 8 + quad, line = (batch * args.m + m) * args.n;
        if (plain && args.n % 8 == 0) {
#pragma unroll
            for (int j = 0; j < SUMS; j += 16) { /* 32 columns: each thread of the quad gathers 8 and writes 16 bytes */
                const int64_t n = column + j * 2 + lane * 8;
                uint32_t word[4];
#pragma unroll
                for (int i = 0; i < 4; i++) word[i] = pack<T>(sum[j + i * 4 + half * 2], sum[j + i * 4 + half * 2 + 1]);
                quad_transpose(word);
                if (m < args.m && n < args.n)
                    *reinterpret_cast<uint4 *>(static_cast<T *>(args.c) + line + n) =
                        make_uint4(word[0], word[1], word[2], word[3]);
            }
        } else if (m < args.m) {
#pragma unroll
            for (int j = 0; j < SUMS; j += 4)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int64_t n = column + j * 2 + lane * 2 + i;
                    if (n >= args.n) continue;
                    if (plain)
                        static_cast<T *>(args.c)[line + n] = narrow<T>(sum[j + half * 2 + i]);
                    else
                        matmul_store<T>(args, line + n, sum[j + half * 2 + i]);
                }
        }
    }
}

/* ---- k cut over the pairs of a cluster --------------------------------------------------------------------------- */

/* A block's sums, in the shared memory that held its stages. With this pitch the four rows that half a warp writes, 8
 * bytes per thread, fall into different banks. */
#define SUMS_PITCH (wgmma_narrow::TILE_N + 8)
struct wgmma_sums {
    alignas(16) float row[WGMMA_TILE_M][SUMS_PITCH];
};
static_assert(sizeof(wgmma_sums) <= sizeof(wgmma_narrow::stage_t) * STAGES);

/* Leaves a consumer's sums in shared memory, after both consumers have read their last stage. (No copy is still in
 * flight: the consumers waited for each.) */
__device__ inline void wgmma_leave(wgmma_sums &sums, int consumer, const float (&sum)[wgmma_narrow::SUMS]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    asm volatile("bar.sync 1, %0;" ::"n"(2 * WARPGROUP) : "memory");
#pragma unroll
    for (int j = 0; j < wgmma_narrow::SUMS; j += 2) {
        float *row = sums.row[consumer * 64 + warp * 16 + j % 4 / 2 * 8 + quad];
        *reinterpret_cast<float2 *>(row + j / 4 * 8 + lane * 2) = make_float2(sum[j], sum[j + 1]);
    }
}

/* Stores four neighbours in a row of C, but none past column n. (__stwb is an ordinary store that the compiler does not
 * split.) */
template <typename T>
__device__ inline void wgmma_store_four(const matmul_args &args, int64_t line, int64_t column, const float (&sum)[4]) {
    if (args.first && args.last && args.alpha == 1 && args.n % 4 == 0) {
        if (column < args.n)
            __stwb(reinterpret_cast<uint2 *>(static_cast<T *>(args.c) + line + column),
                   make_uint2(pack<T>(sum[0], sum[1]), pack<T>(sum[2], sum[3])));
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (column + i < args.n) matmul_store<T>(args, line + column + i, sum[i]);
}

/* Adds up one tile, after all blocks of the cluster have left their sums. Each block adds a share of the rows, reading
 * the shared memory of the others. Pieces are added in order: the same bits every run. */
template <typename T> __device__ inline void wgmma_gather(const matmul_args &args, wgmma_sums &sums) {
    constexpr int FOURS = wgmma_narrow::TILE_N / 4;
    const tile_place tile = wgmma_tile(args, wgmma_narrow::TILE_N, blockIdx.x / WGMMA_CLUSTER);
    const int pieces = int(gridDim.y), rows = WGMMA_TILE_M / pieces;
    for (int i = int(threadIdx.x); i < rows * FOURS; i += WGMMA_THREADS) {
        const int row = int(blockIdx.y) * rows + i / FOURS, column = i % FOURS * 4;
        float4 part[wgmma_narrow::PIECES];
#pragma unroll
        for (int piece = 0; piece < wgmma_narrow::PIECES; piece++) {
            const unsigned rank = unsigned(piece) * WGMMA_CLUSTER + cluster_column();
            part[piece] = piece < pieces
                              ? *reinterpret_cast<const float4 *>(cluster_shared(&sums.row[row][column], rank))
                              : float4();
        }
        float sum[4] = {};
#pragma unroll
        for (const float4 &add : part) sum[0] += add.x, sum[1] += add.y, sum[2] += add.z, sum[3] += add.w;
        const int64_t m = tile.row + row;
        if (m < args.m) wgmma_store_four<T>(args, (tile.batch * args.m + m) * args.n, tile.column + column, sum);
    }
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A consumer multiplies its 64 rows of A by the tile of B, stage by stage. It queues a stage's instructions, then waits
 * for those of the stage before and releases that stage. */
template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__device__ inline void wgmma_consume(const matmul_args &args, typename SHAPE::shared_t &shared, int consumer,
                                     int64_t tiles, const wgmma_piece &piece) {
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        float sum[SHAPE::SUMS];
#pragma unroll
        for (int i = 0; i < SHAPE::SUMS; i++) sum[i] = 0;
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
        if constexpr (SHAPE::PIECES > 1)
            if (gridDim.y > 1) {
                wgmma_leave(*reinterpret_cast<wgmma_sums *>(shared.stage), consumer, sum);
                return; /* the cluster's only tile */
            }
        const tile_place tile = wgmma_tile(args, SHAPE::TILE_N, number);
        wgmma_store<T>(args, tile.batch, tile.row + consumer * 64, tile.column, sum);
    }
}

template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, SHAPE::BLOCKS)
    matmul_wgmma_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    auto &shared = *reinterpret_cast<typename SHAPE::shared_t *>(memory);
    const wgmma_piece piece = SHAPE::PIECES > 1 ? wgmma_piece_of_block(args, TILE_K) : wgmma_all_of_k(args);
    wgmma_roles<SHAPE::BLOCKS>(
        shared.ring, [&] { wgmma_produce<TILE_K, A_MN, B_MN>(args, &a_map, &b_map, shared, tiles, piece); },
        [&](int consumer) { wgmma_consume<SHAPE, T, A_MN, B_MN>(args, shared, consumer, tiles, piece); });
    if constexpr (SHAPE::PIECES > 1)
        if (gridDim.y > 1) {
            wgmma_gather<T>(args, *reinterpret_cast<wgmma_sums *>(shared.stage));
            cluster_sync();
        }
#endif
}

template <typename SHAPE, typename T, bool A_MN> static auto matmul_wgmma_choose(bool b_mn) {
    return b_mn ? matmul_wgmma_kernel<SHAPE, T, A_MN, true> : matmul_wgmma_kernel<SHAPE, T, A_MN, false>;
}

/* ---- what goes where --------------------------------------------------------------------------------------------- */

/* Do tiles of 256 x 256 (two blocks) pay? They run at 700 TFLOP/s, of which only the share that falls inside C counts;
 * the device works in whole waves. matmul/mma.cu runs at about 300 TFLOP/s whatever the shape, plus 8 us to split k
 * (H200). */
static bool wide_pays(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t clusters = std::max(1, launch->multiprocessors / WGMMA_CLUSTER);
    const int64_t waves = ceil_div(wgmma_tiles(args, wgmma_wide::TILE_N), clusters);
    const double there = double(args.batch) * double(args.m) * double(args.n), flops = 2 * there * double(args.k);
    const double cover = double(waves * clusters) * WGMMA_CLUSTER * WGMMA_TILE_M * wgmma_wide::TILE_N;
    return there == 0 || flops * cover / there / 700e12 <= flops / 300e12 + 8e-6;
}

/* Number of pieces of k for narrow tiles: as many as run at the same time, each long enough to be worth the addition. A
 * cluster must fit into one part of the chip, and parts need not hold a whole number of clusters, so an eighth of the
 * device is left free. */
static int narrow_pieces(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t tiles = wgmma_tiles(args, wgmma_narrow::TILE_N), least = 4 * TILE_K;
    const int64_t room = int64_t(launch->multiprocessors) * wgmma_narrow::BLOCKS / WGMMA_CLUSTER * 7 / 8;
    int pieces = 1;
    while (pieces < wgmma_narrow::PIECES && tiles * 2 * pieces <= room && args.k >= least * 2 * pieces) pieces *= 2;
    return pieces;
}

/* Do narrow tiles pay? They read A, rounded up to whole tiles, at 4 TB/s, at most 70 GB/s per block. Adding pieces
 * takes 2 us; copying B, where needed, 3 us. matmul/mma.cu reads at 2.3 TB/s, plus 8 us if it splits k, which it does
 * while 64 x 64 tiles fill at most half of the device. Copying A never pays. */
static bool narrow_pays(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.n > wgmma_narrow::TILE_N || pack_needed(wgmma_stack_a(args), 2, false)) return false;
    const int64_t tiles = wgmma_tiles(args, wgmma_narrow::TILE_N), processors = launch->multiprocessors;
    const int pieces = narrow_pieces(launch);
    const double row = 2 * double(args.k), blocks = double(WGMMA_CLUSTER * std::min(tiles * pieces, processors));
    const double covered = double(tiles * WGMMA_CLUSTER * WGMMA_TILE_M) * row;
    const bool copied = pack_needed(wgmma_stack_b(args), 2, false);
    const bool mma_splits = args.batch * ceil_div(args.m, 64) <= 2 * processors && args.k >= 256;
    return covered / std::min(4e12, blocks * 70e9) + (pieces > 1 ? 2e-6 : 0) + (copied ? 3e-6 : 0) <=
           double(args.batch) * double(args.m) * row / 2.3e12 + (mma_splits ? 8e-6 : 0);
}

/* Enough for both ways: smaller tiles of the same run may go the other way. */
static size_t matmul_wgmma_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const size_t copies = pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
    return std::max(copies, kernel_workspace(&matmul_mma, launch));
}

static const char *matmul_wgmma_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

template <typename SHAPE> static int matmul_wgmma_in(const struct launch *launch, int pieces) {
    const matmul_args &args = launch->args.matmul;
    const int64_t tiles = wgmma_tiles(args, SHAPE::TILE_N);
    if (tiles == 0) return 0;
    const auto type = launch->dtype == FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUtensorMap a_map = {}, b_map = {};
    if (args.k > 0) {
        uint8_t *room = static_cast<uint8_t *>(launch->workspace);
        const tma_stack a = pack<uint16_t>(launch, wgmma_stack_a(args), false, &room);
        const tma_stack b = pack<uint16_t>(launch, wgmma_stack_b(args), false, &room);
        int error = tma_encode(&a_map, type, 2, a, 64);
        if (!error) error = tma_encode(&b_map, type, 2, b, SHAPE::stage_t::B_BOX);
        if (error) return error;
    }
    const auto start = [&](auto element) {
        using T = typename decltype(element)::type;
        const auto kernel = args.transpose_a ? matmul_wgmma_choose<SHAPE, T, true>(!args.transpose_b)
                                             : matmul_wgmma_choose<SHAPE, T, false>(!args.transpose_b);
        return wgmma_start(launch, {tiles, SHAPE::BLOCKS, pieces}, sizeof(typename SHAPE::shared_t), kernel, args,
                           a_map, b_map);
    };
    return launch->dtype == FLOAT16 ? start(type_is<__half>()) : start(type_is<__nv_bfloat16>());
}

/* Takes narrow tiles wherever C fits into one column of them. */
static int matmul_wgmma_launch(const struct launch *launch) {
    const bool hand_over = launch->choice[0] == 0;
    if (hand_over && !narrow_pays(launch) && !wide_pays(launch)) return matmul_mma.launch(launch);
    return launch->args.matmul.n <= wgmma_narrow::TILE_N ? matmul_wgmma_in<wgmma_narrow>(launch, narrow_pieces(launch))
                                                         : matmul_wgmma_in<wgmma_wide>(launch, 1);
}

static uint64_t matmul_wgmma_way(const struct launch *launch) {
    const bool hand_over = launch->choice[0] == 0;
    if (hand_over && !narrow_pays(launch) && !wide_pays(launch)) return matmul_mma.way(launch) << 4;
    return launch->args.matmul.n <= wgmma_narrow::TILE_N ? uint64_t(narrow_pieces(launch)) : 15;
}

KERNEL(matmul_wgmma) = {
    .name = "wgmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores: bulk copies into a ring of stages, warps with roles, clusters that share B",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{WGMMA_CLUSTER * WGMMA_TILE_M, 64, 8},
              {wgmma_wide::TILE_N, wgmma_narrow::TILE_N, 8},
              {TILE_K, 8, 4 * TILE_K}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "hand_over",
                    .values = {"yes", "no"},
                    .help = "what is too small or narrow for it goes to mma"}},
    .way = matmul_wgmma_way,
    .workspace = matmul_wgmma_workspace,
    .refuses = matmul_wgmma_refuses,
    .launch = matmul_wgmma_launch,
};
