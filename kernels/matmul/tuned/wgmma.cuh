/* wgmma.cuh - the frame of variants on Hopper's tensor cores: the copy engine moves the operands, and threads only
 * start copies and multiplications.
 *
 *     copy engine   | stage 0 | stage 1 | stage 2 | stage 3 | stage 0 ..   each: 128 x 64 of A, 64 x 256 of B
 *     producer      one thread starts a copy as soon as a stage is empty
 *     consumer 0              | stage 0 | stage 1 | stage 2 | stage 3 ..   64 x 256 of C += 64 x 64 * 64 x 256,
 *     consumer 1              | stage 0 | stage 1 | stage 2 | stage 3 ..   four instructions
 *
 * mma.cu loads operands from shared memory into registers before it multiplies. Here no thread touches an operand: the
 * copy engine fills shared memory, and the tensor core reads it there. A tile of 128 x 256 is the largest that a
 * block's registers hold (128 sums per thread), so each byte loaded serves the most multiplications. A block stays for
 * the whole launch and takes tile after tile: while it stores one tile's sums, the next tile's operands arrive.
 *
 * A stage of 16-bit elements takes 1024 cycles: each of two consumers issues 4 instructions of 128 cycles. Shared
 * memory moves 128 KiB in that time, which is its limit: copies write 48 KiB, and each consumer reads 8 KiB of A and 32
 * KiB of B.
 *
 * Barriers use the plain forms of arrive and wait, since only the copy engine and the tensor core touch the operands.
 * A release and an acquire at cluster scope in every stage cost a third of the speed. */
#ifndef KERNELS_MATMUL_WGMMA_CUH
#define KERNELS_MATMUL_WGMMA_CUH

#include "../../core/wgmma.cuh"
#include "../matmul.cuh"
#include <algorithm>

/* ---- the roles of warps ----------------------------------------------------------------------------------------- */

/* A block of 384 threads is three warpgroups: a producer, of which one thread starts copies, and two consumers, each of
 * which multiplies 64 rows of the block's tile. The producer gives registers to the consumers. Registers are allotted
 * in multiples of 8, and the sum must stay what 384 threads start with, 168 each: 56 + 2 * 224 = 3 * 168. */
#define WGMMA_THREADS      384
#define WARPGROUP          128
#define PRODUCER_REGISTERS 56
#define CONSUMER_REGISTERS 224

/* Lower, and raise, the number of registers of each thread of the warpgroup to REGISTERS. */
template <int REGISTERS> __device__ inline void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ inline void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* THREADS threads of a block, which are whole warpgroups, wait for each other at the barrier of this number. */
template <int BARRIER, int THREADS> __device__ inline void warpgroups_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

/* The threads of this warpgroup wait for each other. */
__device__ inline void warpgroup_sync(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(WARPGROUP) : "memory");
}

/* ---- tiles of pairs of blocks ------------------------------------------------------------------------------------ */

/* The two blocks of a cluster lie one below the other in C and share their tile of B, which cuts reads from L2 by a
 * third: each fetches half of it for both.
 *
 *        B  | half 0 | half 1 |          TILE_N = 64 * B_SLABS
 *     A 0   |    block 0      |  128 rows, two consumers of 64
 *     A 1   |    block 1      |  128 rows
 *
 * Operands may come in slices (split.cu): all matrices of the first slice, then all of the next. */
#define WGMMA_CLUSTER 2
#define WGMMA_TILE_M  128

template <int SLICES_, int B_SLABS_> struct wgmma_stage {
    static constexpr int SLICES = SLICES_, B_SLABS = B_SLABS_;
    uint8_t a[SLICES][WGMMA_TILE_M / 64][SLAB_BYTES], b[SLICES][B_SLABS][SLAB_BYTES];
};

template <typename STAGE, int STAGES> struct wgmma_shared {
    STAGE stage[STAGES];
    ring_barriers<STAGES> ring;
};

/* The operands A and B as they lie in memory, for TMA. */
inline tma_stack wgmma_stack_a(const matmul_args &args) {
    const int64_t rows = args.transpose_a ? args.k : args.m, columns = args.transpose_a ? args.m : args.k;
    return {args.a, args.a_batch_stride ? args.batch : 1, rows, columns, columns, args.a_batch_stride};
}

inline tma_stack wgmma_stack_b(const matmul_args &args) {
    const int64_t rows = args.transpose_b ? args.n : args.k, columns = args.transpose_b ? args.k : args.n;
    return {args.b, args.b_batch_stride ? args.batch : 1, rows, columns, columns, args.b_batch_stride};
}

inline int64_t wgmma_tiles(const matmul_args &args, int tile_n) {
    return args.batch * ceil_div(args.m, WGMMA_CLUSTER * WGMMA_TILE_M) * ceil_div(args.n, tile_n);
}

/* The matrix, row and column of C at which this block's part of the cluster's tile `number` begins. Tiles are numbered
 * down bands of 8, so that clusters running at the same time share operands in L2. */
__device__ inline tile_position wgmma_tile(const matmul_args &args, int tile_n, int64_t number) {
    const int64_t band = 8, height = WGMMA_CLUSTER * WGMMA_TILE_M;
    const int64_t rows = (args.m + height - 1) / height, columns = (args.n + tile_n - 1) / tile_n;
    /* A small product has one matrix and one band: it is too short for these divisions. */
    const int64_t batch = number < rows * columns ? 0 : quotient(number, rows * columns);
    const int64_t in_matrix = number - batch * rows * columns;
    const int64_t first = in_matrix < band * columns ? 0 : quotient(in_matrix, band * columns) * band;
    const int64_t tall = min(band, rows - first);
    const int64_t in_band = in_matrix - first * columns, column = quotient(in_band, tall);
    const int64_t row = first + in_band - column * tall;
    return {batch, row * height + cluster_column() * WGMMA_TILE_M, column * tile_n};
}

/* Calls use(number) for each tile of this block's cluster. */
template <typename USE> __device__ inline void wgmma_walk(int64_t tiles, USE use) {
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) use(number);
}

/* The producer thread copies the operands of tile `number`, stage by stage: this block's tile of A, and this block's
 * half of the pair's tile of B, into both blocks. A_MN, B_MN: is A, is B MN-major (core/wgmma.cuh)? */
template <int TILE_K, bool A_MN, bool B_MN, typename STAGE, int STAGES>
__device__ inline void wgmma_produce(const matmul_args &args, const CUtensorMap *a_map, const CUtensorMap *b_map,
                                     wgmma_shared<STAGE, STAGES> &shared, ring_position<STAGES> &at, int64_t number) {
    constexpr int HALF = STAGE::B_SLABS / WGMMA_CLUSTER;
    constexpr int A_BOX = A_MN ? TILE_K : 64; /* rows of A (m) per copy; each takes 128 bytes of the tile */
    const int half = int(cluster_column()) * HALF;
    const int a_count = args.a_batch_stride ? int(args.batch) : 1, b_count = args.b_batch_stride ? int(args.batch) : 1;
    const tile_position tile = wgmma_tile(args, STAGE::B_SLABS * 64, number);
    const int row = int(tile.row), column = int(tile.column) + half * 64;
    const int a_matrix = a_count > 1 ? int(tile.batch) : 0, b_matrix = b_count > 1 ? int(tile.batch) : 0;
    for (int64_t l = 0; l < args.k; l += TILE_K, at.advance()) {
        STAGE &stage = shared.stage[at.stage];
        uint64_t *const full = &shared.ring.full[at.stage];
        const int k = int(l);
        mbarrier_wait(&shared.ring.empty[at.stage], at.phase ^ 1);
        mbarrier_expect(full, sizeof stage);
#pragma unroll
        for (int slice = 0; slice < STAGE::SLICES; slice++) {
#pragma unroll
            for (int i = 0; i < WGMMA_TILE_M; i += A_BOX) {
                const int m = row + i;
                tma_load(a_map, stage.a[slice][0] + i * 128, full, A_MN ? m : k, A_MN ? k : m,
                         slice * a_count + a_matrix);
            }
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                const int n = column + i * 64;
                tma_load(b_map, stage.b[slice][half + i], full, B_MN ? n : k, B_MN ? k : n, slice * b_count + b_matrix,
                         (1 << WGMMA_CLUSTER) - 1);
            }
        }
    }
}

/* Releases a stage for a consumer, to the producers of both blocks of the pair, because both write to it. Two threads
 * signal one block each; all threads of the warpgroup call this. */
template <int STAGES> __device__ inline void wgmma_release(ring_barriers<STAGES> &ring, int stage) {
    const unsigned thread = threadIdx.x % WARPGROUP;
    if (thread < WGMMA_CLUSTER) mbarrier_arrive(&ring.empty[stage], thread);
}

/* The frame of a kernel. Makes the barriers; calls produce() in one thread of the first warpgroup and consume(number)
 * in all threads of the two others; and ends with a cluster barrier, because a block must stay until the other one's
 * copies and signals to it have arrived. */
template <int STAGES, typename PRODUCE, typename CONSUME>
__device__ inline void wgmma_roles(ring_barriers<STAGES> &ring, PRODUCE &&produce, CONSUME &&consume) {
    if (threadIdx.x == 0) ring.init(2 * WGMMA_CLUSTER);
    cluster_sync();
    if (threadIdx.x < WARPGROUP) {
        registers_release<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && elect_one()) produce();
        __syncwarp();
    } else {
        registers_take<CONSUMER_REGISTERS>();
        consume(int(threadIdx.x) / WARPGROUP - 1);
    }
    cluster_sync();
}

/* The reason why a kernel that copies by TMA cannot do a product of these sizes; NULL: it can. TMA counts in 32
 * bits. */
inline const char *wgmma_refuses(std::initializer_list<int64_t> sizes) {
    return std::max(sizes) > INT32_MAX ? "a dimension is beyond 2^31 - 1" : nullptr;
}

/* Starts a kernel on as many clusters as run at the same time, but at most one per tile; each takes tile after tile.
 * `early`: the kernel may begin before the previous one has ended, and calls launch_wait. */
template <typename... PARAMETERS, typename... ARGUMENTS>
int wgmma_start(const struct launch *launch, int64_t tiles, bool early, size_t shared_bytes,
                void (*kernel)(PARAMETERS...), const ARGUMENTS &...arguments) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes));
    if (error) return error;
    const int64_t clusters = std::min(tiles, int64_t(std::max(1, launch->multiprocessors / WGMMA_CLUSTER)));
    return launch_clusters_of(early, kernel, dim3(unsigned(clusters * WGMMA_CLUSTER)), WGMMA_THREADS, shared_bytes,
                              WGMMA_CLUSTER, stream_of(launch), arguments..., tiles);
}

#endif
