/* multicast_kernel.cuh - the kernel of multicast.cu and its launch. multicast.cu explains the design, multicast.cuh the
 * ring of stages.
 *
 * In a block, each consumer (a warpgroup) multiplies its 64 rows, and one thread of each of the last two warps copies
 * an operand. The blocks of a cluster compute adjacent tiles, or pieces of k of them. In the kernel `first` is the
 * number of the block's cluster and `clusters` the number of clusters in the grid: a cluster does the tiles first,
 * first + clusters, first + 2 clusters ... below layout.clusters. */
#ifndef KERNELS_MATMUL_MULTICAST_KERNEL_CUH
#define KERNELS_MATMUL_MULTICAST_KERNEL_CUH

#include "multicast.cuh"
#include <utility>

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A consumer multiplies its 64 rows of A by the tile of B, stage by stage. It queues a stage's instructions, then waits
 * for those of the stage before and releases that stage. Only the lower half of an operand's descriptor, its address,
 * changes. */
template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__device__ inline void multicast_consume(const multicast_work &work, const multicast_layout &layout,
                                         const multicast_block &block, const CUtensorMap *c_map, multicast_ring &ring,
                                         uint8_t *stages, int first, int clusters) {
    constexpr int BYTES = SHAPE::A_BYTES + SHAPE::template B_BYTES<B_MN>, LEFT = multicast_left(SHAPE::COLUMNS);
    const int consumer = int(threadIdx.x) / WARPGROUP;
    const uint64_t a = wgmma_operand(stages + consumer * SLAB_BYTES), b = wgmma_operand(stages + SHAPE::A_BYTES);
    const auto moved = [](uint64_t operand, uint32_t by) { return operand >> 32 << 32 | (uint32_t(operand) + by); };
    multicast_release release(layout, block, (layout.clusters - first + clusters - 1) / clusters);
    multicast_position at;
    int next_slab = 0; /* the slab that multicast_store fills next */
    if (layout.pieces > 1 && threadIdx.x % WARPGROUP == 0)
        mbarrier_expect(&ring.landed[consumer], uint32_t(multicast_landing<SHAPE>::bytes(layout.pieces, block.piece)));
    launch_wait();
    launch_next();
    for (int number = first; number < layout.clusters; number += clusters) {
        multicast_tile tile = multicast_tile_of<SHAPE>(layout, block, number);
        tile.row += consumer * 64;
        compute_here(tile.batch, tile.row, tile.column); /* while copies are on their way */
        release.begin(block.end - block.begin, layout.stages);
        float sum[SHAPE::COLUMNS / 2];
#pragma unroll
        for (float &value : sum) value = 0;
        int reading = -1; /* the stage that pending instructions read */
#pragma unroll 1
        for (int step = block.begin; step < block.end; step++, at.advance(layout.stages)) {
            mbarrier_wait(&ring.full[at.stage], at.phase);
            const uint32_t stage = uint32_t(at.stage) * uint32_t(BYTES >> 4);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < TILE_K / 16; i++)
                wgmma<T, A_MN, B_MN>(sum, moved(a, stage + i * uint32_t(wgmma_step<A_MN>)),
                                     moved(b, stage + i * uint32_t(wgmma_step<B_MN>)));
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) release(&ring.empty[reading]);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) release(&ring.empty[reading]);
        const multicast_owner owns = {SHAPE::PIECES > 1 ? layout.pieces : 1, block.piece};
        uint8_t *const end = stages + layout.stages * BYTES;
        /* If the block has only one tile, the stages are free by now: store through this consumer's slab of A in each
         * stage. */
        const multicast_staging staging =
            layout.once ? multicast_staging{stages + consumer * SLAB_BYTES, BYTES}
                        : multicast_staging{end + consumer * multicast_slabs<SHAPE::COLUMNS> * SLAB_BYTES, SLAB_BYTES};
        if constexpr (SHAPE::PIECES > 1)
            if (layout.pieces > 1)
                multicast_exchange<SHAPE>(owns, block.peer, layout.down * layout.across, ring, staging, end, sum);
        multicast_store<T>(work, tile, c_map, layout.out, layout.once, owns, staging.after(owns.pieces > 1 ? LEFT : 0),
                           next_slab, sum);
    }
    if (layout.out == OUT_COPIES && threadIdx.x % WARPGROUP < 32 && elect_one()) tma_store_wait<0>();
    if (SHAPE::PIECES > 1 && layout.pieces > 1) mbarrier_wait(&ring.taken, 0); /* others copy from this block */
}

template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_multicast_kernel(const __grid_constant__ multicast_work work, const __grid_constant__ CUtensorMap a_map,
                            const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap c_map,
                            const __grid_constant__ multicast_layout layout) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    multicast_ring &ring = *reinterpret_cast<multicast_ring *>(memory);
    uint8_t *const stages = memory + MULTICAST_RING;
    /* The operand that the warp copies: 0: A; 1: B; negative: none. The shuffle shows the compiler that the number is
     * the same in a whole warp; else the largest tile spills registers. */
    const int copier = __shfl_sync(~0u, int(threadIdx.x) / 32, 0) - SHAPE::CONSUMERS * WARPGROUP / 32;
    const int sharing = layout.down * layout.across, size = sharing * layout.pieces;
    const int first = divide(int(blockIdx.x), size), clusters = divide(int(gridDim.x), size);
    const CUtensorMap *const map = copier == 0 ? &a_map : &b_map;
    if (copier >= 0) {
        if (elect_one()) tma_prefetch(map);
    } else {
        for (int stage = int(threadIdx.x) / 32; stage < layout.stages; stage += SHAPE::CONSUMERS * WARPGROUP / 32)
            if (elect_one()) {
                mbarrier_init(&ring.full[stage], 2);
                mbarrier_init(&ring.empty[stage], SHAPE::CONSUMERS * (layout.down + layout.across - 1));
                mbarrier_init_fence();
            }
        if (threadIdx.x / 32 == SHAPE::CONSUMERS * WARPGROUP / 32 - 1 && elect_one()) {
            for (int i = 0; layout.pieces > 1 && i < SHAPE::CONSUMERS; i++) mbarrier_init(&ring.landed[i], 1);
            if (layout.pieces > 1) mbarrier_init(&ring.taken, SHAPE::CONSUMERS * layout.pieces);
            mbarrier_init_fence();
            if (layout.out == OUT_COPIES) tma_prefetch(&c_map);
        }
    }
    __syncwarp();
    /* All threads of a block meet at the same two instructions; between them the first copies are made ready. */
    if (size > 1) cluster_arrive_relaxed();
    const multicast_block block(layout, work.args.k);
    multicast_share_of share;
    if (copier >= 0) {
        share = copier == 1 ? multicast_first<SHAPE, true, B_MN>(work.args, layout, block, first)
                            : multicast_first<SHAPE, false, A_MN>(work.args, layout, block, first);
        compute_here(share.line, share.box, share.blocks, share.of.begin, share.of.boxes, share.of.matrix);
    }
    if (size > 1)
        cluster_wait();
    else
        __syncthreads();
    if (copier >= 0) {
        uint8_t *const kept = in_register(memory);
        multicast_produce<SHAPE, A_MN, B_MN>(work.args, layout, block, map, copier == 1,
                                             *reinterpret_cast<multicast_ring *>(kept), kept + MULTICAST_RING, first,
                                             clusters, share);
    } else {
        multicast_consume<SHAPE, T, A_MN, B_MN>(work, layout, block, &c_map, ring, stages, first, clusters);
    }
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* Should the launch begin before the previous one ends? That saves 0.3 to 1.2 us. But tiles then move between
 * multiprocessors from launch to launch, so that operands that just fill L2 are more often in the far half of it: from
 * 40 to 70 MB of operands this cost 2 to 6 %. */
inline bool multicast_early(const matmul_args &args) {
    const double bytes = multicast_bytes(wgmma_stack_a(args)) + multicast_bytes(wgmma_stack_b(args));
    return bytes < 38e6 || bytes > 90e6;
}

/* Lays out the kernel of one tile. `args` are the launch's, turned already if config.turned. */
template <typename SHAPE, typename T>
multicast_layout multicast_lay_out(const matmul_args &args, const multicast_config &config) {
    const auto [down, across] = config.share;
    const int64_t row = config.turned ? args.m : args.n; /* elements of a row of C in memory */
    return {.stages = config.stages,
            .down = down,
            .across = across,
            .pieces = config.pieces,
            .rows = int(ceil_div(args.m, SHAPE::ROWS * down)),
            .columns = int(ceil_div(args.n, SHAPE::COLUMNS * across)),
            .clusters = int(multicast_clusters(args, config.tile, config.share)),
            .once = config.once,
            .a_lines = multicast_lines(args.m, args.transpose_a ? 0 : SHAPE::ROWS, across),
            .b_lines = multicast_lines(args.n, args.transpose_b ? SHAPE::COLUMNS : 0, down),
            .out = !multicast_plain<T>(args) ? OUT_SINGLY
                   : row % 8 == 0            ? OUT_COPIES
                   : config.pieces == 1      ? OUT_WORDS
                                             : OUT_SINGLY};
}

/* What the copy engine reads and writes. `c` is set only if copies store C. */
struct multicast_maps {
    CUtensorMap a = {}, b = {}, c = {};
};

/* Describes the operands and C to the copy engine, after packing operands whose rows do not suit it. `args` as above.
 * Returns 0 or a cudaError_t. */
template <typename SHAPE, typename T>
int multicast_encode(const struct launch *launch, const matmul_args &args, const multicast_config &config,
                     const multicast_layout &layout, multicast_maps *maps) {
    const auto type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int error = 0;
    if (layout.out == OUT_COPIES) {
        const matmul_args &given = launch->args.matmul;
        const int width = config.pieces > 1 ? 16 : multicast_box<SHAPE::COLUMNS>;
        const tma_stack c = {given.c, given.batch, given.m, given.n, given.n, given.m * given.n};
        error = tma_encode(&maps->c, type, 2, c, config.turned ? width : 64, config.turned ? 128 : size_t(width) * 2);
    }
    if (error || args.k == 0) return error;
    tma_stack a = wgmma_stack_a(args), b = wgmma_stack_b(args);
    error = pack_both<uint16_t>(launch, &a, &b);
    if (!error) error = tma_encode(&maps->a, type, 2, a, layout.a_lines);
    if (!error) error = tma_encode(&maps->b, type, 2, b, layout.b_lines);
    return error;
}

/* Launches the kernel of one tile. Returns 0 or a cudaError_t. */
template <typename SHAPE, typename T>
int matmul_multicast_start(const struct launch *launch, const multicast_config &config) {
    const matmul_args &given = launch->args.matmul;
    const multicast_work work = {config.turned ? matmul_turn(given) : given, config.turned};
    const matmul_args &args = work.args;
    const bool a_mn = args.transpose_a, b_mn = !args.transpose_b;
    const multicast_layout layout = multicast_lay_out<SHAPE, T>(args, config);
    if (layout.clusters == 0) return 0;
    multicast_maps maps;
    if (const int error = multicast_encode<SHAPE, T>(launch, args, config, layout, &maps)) return error;
    const auto kernel =
        a_mn   ? b_mn ? matmul_multicast_kernel<SHAPE, T, true, true> : matmul_multicast_kernel<SHAPE, T, true, false>
          : b_mn ? matmul_multicast_kernel<SHAPE, T, false, true>
               : matmul_multicast_kernel<SHAPE, T, false, false>;
    const int size = layout.down * layout.across * config.pieces;
    const int bytes = MULTICAST_RING + config.stages * multicast_stage_bytes(config.tile, b_mn) +
                      (config.once ? 0 : multicast_slab_bytes(config.tile)) +
                      multicast_landing_bytes(config.tile, config.pieces);
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error) return error;
    int clusters = layout.clusters;
    if (!config.once) { /* a cluster takes tile after tile: no more of them than run at the same time */
        const int max_clusters = launch_clusters(kernel, SHAPE::THREADS, size_t(bytes), size);
        if (max_clusters > 0) clusters = std::min(clusters, max_clusters);
    }
    return launch_clusters_of(multicast_early(args), kernel, dim3(unsigned(clusters * size)), SHAPE::THREADS,
                              size_t(bytes), size, stream_of(launch), work, maps.a, maps.b, maps.c, layout);
}

/* Launches the kernel of config.tile, which is one of the tiles of group number GROUP. */
template <typename T, size_t GROUP>
int matmul_multicast_group(const struct launch *launch, const multicast_config &config) {
    constexpr size_t FIRST = multicast_groups[GROUP];
    return [&]<size_t... TILES>(std::index_sequence<TILES...>) {
        int error = 0;
        ((config.tile == multicast_tiles[FIRST + TILES]
              ? error = matmul_multicast_start<multicast_shape<FIRST + TILES>, T>(launch, config)
              : 0),
         ...);
        return error;
    }
    (std::make_index_sequence<multicast_groups[GROUP + 1] - FIRST>());
}

#endif
