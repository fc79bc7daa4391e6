/* wgmma.cuh - what variants on Hopper's tensor cores (core/wgmma.cuh) share: the roles of a block's warps, the ring of
 * stages between them, and the tiles of pairs of blocks. */
#ifndef KERNELS_MATMUL_WGMMA_CUH
#define KERNELS_MATMUL_WGMMA_CUH

#include "../../core/wgmma.cuh"
#include "../matmul.cuh"
#include <algorithm>

/* ---- the roles of warps ----------------------------------------------------------------------------------------- */

/* A block of 384 threads is three warpgroups: a producer, of which one thread starts copies, and two consumers, each of
 * which multiplies 64 rows of the block's tile. The producer gives registers to the consumers. Registers are allotted
 * in multiples of 8, and the sum must stay what 384 threads start with, 168 each: 56 + 2 * 224 = 3 * 168. With two
 * blocks per multiprocessor a thread has 80 registers, enough for a narrow tile's 32 sums, and none change hands. */
#define WGMMA_THREADS      384
#define WARPGROUP          128
#define PRODUCER_REGISTERS 56
#define CONSUMER_REGISTERS 224

template <int REGISTERS> __device__ inline void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ inline void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* So many threads of a block, of whole warpgroups, wait for each other. */
template <int BARRIER, int THREADS> __device__ inline void warpgroups_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

/* The threads of this warpgroup wait for each other. */
__device__ inline void warpgroup_sync(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(WARPGROUP) : "memory");
}

/* The two blocks of a pair lie one below the other in C and share their tile of B: each fetches half of it for both.
 *
 *        B  | half 0 | half 1 |          TILE_N = 64 * B_SLABS
 *     A 0   |    block 0      |  128 rows, two consumers of 64
 *     A 1   |    block 1      |  128 rows
 *
 * Half of B is half of its slabs; if B has an odd number of slabs, it is counted in halves of a slab, 32 of its 64 rows
 * of 128 bytes.
 *
 * A cluster may hold several pairs, which then work on one tile, each on its own piece of k (wgmma_piece). In the
 * cluster, x is a block's place in its pair and y is the number of the pair; the grid is as high as the cluster.
 *
 * Operands may come in slices (split.cu): all matrices of the first slice, then all of the next. */
#define WGMMA_CLUSTER 2
#define WGMMA_TILE_M  128

template <int SLICES_, int B_SLABS_> struct wgmma_stage {
    static constexpr int SLICES = SLICES_, B_SLABS = B_SLABS_;
    static constexpr int B_BOX = B_SLABS % WGMMA_CLUSTER ? 64 / WGMMA_CLUSTER : 64; /* rows of 128 bytes per copy */
    uint8_t a[SLICES][WGMMA_TILE_M / 64][SLAB_BYTES], b[SLICES][B_SLABS][SLAB_BYTES];
};

template <typename STAGE, int STAGES> struct wgmma_shared {
    STAGE stage[STAGES];
    ring_barriers<STAGES> ring;
};

/* The operands as memory holds them. */
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

/* This block's place in the cluster's tile `number`: batch, row and column of C. Clusters walk down bands of 8 tiles,
 * so that clusters running at the same time share operands in L2. */
__device__ inline tile_place wgmma_tile(const matmul_args &args, int tile_n, int64_t number) {
    const int64_t band = 8, height = WGMMA_CLUSTER * WGMMA_TILE_M;
    const int64_t rows = (args.m + height - 1) / height, columns = (args.n + tile_n - 1) / tile_n;
    /* A small product has one matrix and one band, and no time to divide. */
    const int64_t batch = number < rows * columns ? 0 : quotient(number, rows * columns);
    const int64_t place = number - batch * rows * columns;
    const int64_t first = place < band * columns ? 0 : quotient(place, band * columns) * band;
    const int64_t tall = min(band, rows - first);
    const int64_t in_band = place - first * columns, column = quotient(in_band, tall);
    const int64_t row = first + in_band - column * tall;
    return {batch, row * height + cluster_column() * WGMMA_TILE_M, column * tile_n};
}

/* A block's piece of k, and the rank in the cluster of the first block of its pair. */
struct wgmma_piece {
    int64_t begin, end;
    uint32_t pair;
};

__device__ inline wgmma_piece wgmma_all_of_k(const matmul_args &args) {
    return {0, args.k, 0};
}

/* A block's piece of k: all of it, unless the grid is several pairs high. Every piece but the last is a whole number of
 * steps; the last may be empty. */
__device__ inline wgmma_piece wgmma_piece_of_block(const matmul_args &args, int step) {
    if (gridDim.y == 1) return wgmma_all_of_k(args);
    const int64_t each = quotient(args.k + gridDim.y * step - 1, gridDim.y * step) * step, begin = blockIdx.y * each;
    return {begin, min(begin + each, args.k), blockIdx.y * WGMMA_CLUSTER};
}

/* The producer thread keeps the ring full: it copies this block's tile of A, and this block's half of B for both. */
template <int TILE_K, bool A_MN, bool B_MN, typename STAGE, int STAGES>
__device__ inline void wgmma_produce(const matmul_args &args, const CUtensorMap *a_map, const CUtensorMap *b_map,
                                     wgmma_shared<STAGE, STAGES> &shared, int64_t tiles, const wgmma_piece &piece) {
    constexpr int B_BOX = STAGE::B_BOX, HALF = STAGE::B_SLABS * 64 / B_BOX / WGMMA_CLUSTER;
    constexpr int B_BOXES = 64 / B_BOX; /* in a slab; where B lies along n, the next one of a slab is further along k */
    constexpr int A_BOX = A_MN ? TILE_K : 64; /* rows of A (m) per copy; each takes 128 bytes of the tile */
    const int half = int(cluster_column()) * HALF;
    const uint16_t both = uint16_t(((1 << WGMMA_CLUSTER) - 1) << piece.pair);
    const int a_count = args.a_batch_stride ? int(args.batch) : 1, b_count = args.b_batch_stride ? int(args.batch) : 1;
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        const tile_place tile = wgmma_tile(args, STAGE::B_SLABS * 64, number);
        const int row = int(tile.row), column = int(tile.column);
        const int a_matrix = a_count > 1 ? int(tile.batch) : 0, b_matrix = b_count > 1 ? int(tile.batch) : 0;
        for (int64_t k = piece.begin; k < piece.end; k += TILE_K, at.advance()) {
            STAGE &stage = shared.stage[at.stage];
            uint64_t *full = &shared.ring.full[at.stage];
            mbarrier_wait(&shared.ring.empty[at.stage], at.phase ^ 1);
            mbarrier_expect(full, sizeof stage);
            for (int slice = 0; slice < STAGE::SLICES; slice++) {
                for (int i = 0; i < WGMMA_TILE_M; i += A_BOX) {
                    const int m = row + i;
                    tma_load(a_map, stage.a[slice][0] + i * 128, full, A_MN ? m : int(k), A_MN ? int(k) : m,
                             slice * a_count + a_matrix);
                }
#pragma unroll(HALF % 2 ? 1 : HALF) /* an odd number, unrolled, would need more registers than the producer has */
                for (int i = half; i < half + HALF; i++) {
                    const int n = column + (B_MN ? i / B_BOXES * 64 : i * B_BOX);
                    const int l = int(k) + (B_MN ? i % B_BOXES * B_BOX : 0);
                    tma_load(b_map, stage.b[slice][0] + i * B_BOX * 128, full, B_MN ? n : l, B_MN ? l : n,
                             slice * b_count + b_matrix, both);
                }
            }
        }
    }
}

/* A consumer releases a stage in both blocks of the pair, because the producers of both write to it. Two threads signal
 * one block each. */
template <int STAGES> __device__ inline void wgmma_release(ring_barriers<STAGES> &ring, int stage, uint32_t pair = 0) {
    const unsigned thread = threadIdx.x % WARPGROUP;
    if (thread < WGMMA_CLUSTER) mbarrier_arrive(&ring.empty[stage], pair + thread);
}

/* The frame of a kernel: barriers, roles, and a last cluster barrier, because a block must stay until the other one's
 * copies and signals to it have arrived. BLOCKS: per multiprocessor. */
template <int BLOCKS = 1, int STAGES, typename PRODUCE, typename CONSUME>
__device__ inline void wgmma_roles(ring_barriers<STAGES> &ring, PRODUCE &&produce, CONSUME &&consume) {
    if (threadIdx.x == 0) ring.init(2 * WGMMA_CLUSTER);
    cluster_sync();
    if (threadIdx.x < WARPGROUP) {
        if constexpr (BLOCKS == 1) registers_release<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && elect_one()) produce();
        __syncwarp();
    } else {
        if constexpr (BLOCKS == 1) registers_take<CONSUMER_REGISTERS>();
        consume(int(threadIdx.x) / WARPGROUP - 1);
    }
    cluster_sync();
}

/* The reason why such a kernel cannot do a product of these sizes; NULL: it can. Only 9.0a has these instructions; for
 * other architectures the kernel is compiled empty. TMA counts in 32 bits. */
inline const char *wgmma_refuses(std::initializer_list<int64_t> sizes) {
    if (!TILERUN_SM90A) return "this build has no code for compute capability 9.0a (CUDA_ARCHS)";
    return std::max(sizes) > INT32_MAX ? "a dimension is beyond 2^31 - 1" : nullptr;
}

struct wgmma_grid {
    int64_t tiles;
    int blocks = 1; /* per multiprocessor */
    int pieces = 1; /* of k: pairs in a cluster; above 1, a cluster does one tile */
};

/* Starts a kernel on one cluster per tile; where clusters can take tile after tile, on no more than run at the same
 * time. */
template <typename... PARAMETERS, typename... ARGUMENTS>
int wgmma_start(const struct launch *launch, const wgmma_grid &grid, size_t shared_bytes, void (*kernel)(PARAMETERS...),
                const ARGUMENTS &...arguments) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes));
    if (error) return error;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {WGMMA_CLUSTER, unsigned(grid.pieces), 1};
    cudaLaunchConfig_t config = {};
    const int64_t room = std::max(1, launch->multiprocessors * grid.blocks / WGMMA_CLUSTER);
    const int64_t clusters = grid.pieces > 1 ? grid.tiles : std::min(grid.tiles, room);
    config.gridDim = dim3(unsigned(clusters * WGMMA_CLUSTER), unsigned(grid.pieces));
    config.blockDim = WGMMA_THREADS;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_of(launch);
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, arguments..., grid.tiles);
}

#endif
