/* matmul_wgmma.cu - bfloat16 and float16 on Hopper's tensor cores, with every unit of the chip at its own work.
 *
 *     copy engine   | stage 0 | stage 1 | stage 2 | stage 3 | stage 0 ..   48 KiB each: 128 x 64 of A, 64 x 256 of B
 *     producer      one thread orders the copies as stages fall empty
 *     consumer 0              | stage 0 | stage 1 | stage 2 | stage 3 ..   64 x 256 of C += 64 x 64 * 64 x 256,
 *     consumer 1              | stage 0 | stage 1 | stage 2 | stage 3 ..   four instructions
 *
 * No thread touches an operand: copies go to shared memory and from there to the tensor core, and the threads only say
 * when. A tile of 128 x 256 is as large as the registers hold (128 sums a thread), so that the least data moves per
 * operation; two blocks of a cluster share their B, which cuts L2's reads by a third. Blocks stay for the whole launch
 * and take tile after tile, so that the next one's operands come while this one's sums are stored.
 *
 * What a stage costs: 4 instructions of 128 cycles for each consumer, and 128 KiB through shared memory, which is all
 * that it gives in these 1024 cycles: copies 48, A 8 for each consumer, B 32 for each.
 *
 * Measured, H200, against cuBLAS in the same run: bfloat16 0.98 at 4096 (780 TFLOP/s), 0.99 to 1.02 at 8192 (up to
 * 803) and 1.01 at 16384, float16 0.97 to 0.98 and 0.98 to 1.02; 8193 3.3, 777 x 3333 x 555 0.95. The tensor cores are
 * busy 93 % of the time, and at 8192 the power limit sets the clock. A release and an acquire at cluster scope at every
 * stage cost a third of the speed (541 TFLOP/s): barriers are told and awaited with the plain forms, which is enough,
 * because the copy engine and the tensor core alone touch what they guard. What holds it back: at a tile's end both
 * consumers store, and nobody multiplies; at 1024 there are 16 tiles for 66 clusters, 0.43 of cuBLAS. What is too
 * narrow, or small but long in k, goes to matmul_mma.cu (wgmma_pays). */
#include "pack.cuh"
#include "wgmma.cuh"

#define TILE_N 256
#define TILE_K 64 /* a slab's 128 bytes */
#define STAGES 4

using stage_t = wgmma_stage<1, TILE_N / 64>;
using shared_t = wgmma_shared<stage_t, STAGES>;

/* A quad's four threads hold word i of four 16-byte pieces, piece by piece: after this each holds one piece, word by
 * word. */
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

/* Stores a warpgroup's 64 x 256 sums, whose first is C[row][column] of matrix `batch`. */
template <typename T>
__device__ inline void wgmma_store(const matmul_args &args, int64_t batch, int64_t row, int64_t column,
                                   const float (&sum)[128]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const bool plain = args.first && args.last && args.alpha == 1;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t m = row + warp * 16 + half * 8 + quad, line = (batch * args.m + m) * args.n;
        if (plain && args.n % 8 == 0) {
#pragma unroll
            for (int j = 0; j < 128; j += 16) { /* 32 columns: each of the quad gathers 8, and writes 16 bytes */
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
            for (int j = 0; j < 128; j += 4)
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

/* A consumer multiplies its 64 rows of A with the tile of B, stage by stage, the next stage's instructions queued
 * before it waits for the last one's and hands that stage back. */
template <typename T, bool A_MN, bool B_MN>
__device__ inline void wgmma_consume(const matmul_args &args, shared_t &shared, int consumer, int64_t tiles) {
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        float sum[128];
#pragma unroll
        for (int i = 0; i < 128; i++) sum[i] = 0;
        int reading = -1; /* the stage that the instructions under way read */
        for (int64_t k = 0; k < args.k; k += TILE_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const stage_t &stage = shared.stage[at.stage];
            const uint64_t a = wgmma_operand(stage.a[0][consumer]), b = wgmma_operand(stage.b[0][0]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < TILE_K / 16; i++)
                wgmma<T, A_MN, B_MN>(sum, a + i * wgmma_step<A_MN>, b + i * wgmma_step<B_MN>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) wgmma_release(shared.ring, reading);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading);
        const tile_place tile = wgmma_tile(args, TILE_N, number);
        wgmma_store<T>(args, tile.batch, tile.row + consumer * 64, tile.column, sum);
    }
}

template <typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_wgmma_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    shared_t &shared = *reinterpret_cast<shared_t *>(memory);
    wgmma_roles(
        shared.ring, [&] { wgmma_produce<TILE_K, A_MN, B_MN>(args, &a_map, &b_map, shared, tiles); },
        [&](int consumer) { wgmma_consume<T, A_MN, B_MN>(args, shared, consumer, tiles); });
#endif
}

template <typename T, bool A_MN> static auto matmul_wgmma_choose(bool b_mn) {
    return b_mn ? matmul_wgmma_kernel<T, A_MN, true> : matmul_wgmma_kernel<T, A_MN, false>;
}

/* Do tiles of 256 x 256, for two blocks, pay? They run at 700 TFLOP/s times the share of what they cover, in whole
 * waves, that is there to do; matmul_mma.cu at 300 or so whatever the shape, but k is split at the cost of 8 us
 * (H200). */
static bool wgmma_pays(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t clusters = std::max(1, launch->multiprocessors / WGMMA_CLUSTER);
    const int64_t waves = ceil_div(wgmma_tiles(args, TILE_N), clusters);
    const double there = double(args.batch) * double(args.m) * double(args.n), flops = 2 * there * double(args.k);
    const double cover = double(waves * clusters) * WGMMA_CLUSTER * WGMMA_TILE_M * TILE_N;
    return there == 0 || flops * cover / there / 700e12 <= flops / 300e12 + 8e-6;
}

/* Enough for either way: smaller tiles of a run may go the other one. */
static size_t matmul_wgmma_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const size_t copies = pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
    return std::max(copies, kernel_workspace(&matmul_mma, launch));
}

static const char *matmul_wgmma_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

static int matmul_wgmma_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (launch->choice[0] == 0 && !wgmma_pays(launch)) return matmul_mma.launch(launch);
    const int64_t tiles = wgmma_tiles(args, TILE_N);
    if (tiles == 0) return 0;
    const auto type = launch->dtype == FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUtensorMap a_map = {}, b_map = {};
    if (args.k > 0) {
        uint8_t *room = static_cast<uint8_t *>(launch->workspace);
        int error = tma_encode(&a_map, type, 2, pack<uint16_t>(launch, wgmma_stack_a(args), false, &room), 64);
        if (!error) error = tma_encode(&b_map, type, 2, pack<uint16_t>(launch, wgmma_stack_b(args), false, &room), 64);
        if (error) return error;
    }
    const auto start = [&](auto element) {
        using T = typename decltype(element)::type;
        const auto kernel = args.transpose_a ? matmul_wgmma_choose<T, true>(!args.transpose_b)
                                             : matmul_wgmma_choose<T, false>(!args.transpose_b);
        return wgmma_start(launch, tiles, sizeof(shared_t), kernel, args, a_map, b_map);
    };
    return launch->dtype == FLOAT16 ? start(type_is<__half>()) : start(type_is<__nv_bfloat16>());
}

const struct kernel matmul_wgmma = {
    .name = "wgmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores: bulk copies into a ring of stages, warps with roles, clusters that share B",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .accuracy = ACCURACY_FULL,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "hand_over",
                    .values = {"yes", "no"},
                    .help = "what is too small or narrow for it goes to mma"}},
    .workspace = matmul_wgmma_workspace,
    .refuses = matmul_wgmma_refuses,
    .launch = matmul_wgmma_launch,
};
