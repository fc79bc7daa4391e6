/* matmul/multicast.cu - bfloat16 and float16 on Hopper's tensor cores, with a tile for every shape.
 *
 * The engine is that of matmul/wgmma.cu (read that first): one thread copies, warpgroups multiply, a ring of stages is
 * between them. What it adds are tiles for every shape, and clusters that make small tiles cheap:
 *
 *     a tile is 128 rows of 256, 192, 160 or 128 columns, or 64 rows of 192, 128, 64, 32 or 16
 *
 *     64 x 7168 x 7168, turned: 112 tiles of 64 x 64, one a multiprocessor, all in one round. In a pair of 128 x 64
 *     tiles, there would be 28 pairs: 56 of 132 multiprocessors would fetch the weights.
 *
 * A small tile multiplies little for each byte that it fetches: 64 x 64 needs 16 KiB for 128 cycles of the tensor
 * core, four times what L2 can give. So the blocks of a cluster fetch for each other. In a cluster of 2 x 2 a block
 * copies half of its tile of A and half of its tile of B, and the copy engine writes each into both blocks that need it
 * (multicast.cuh). Where tiles are still few, k is cut into 2 or 4 pieces and summed through the cluster's
 * shared memory (multicast_store.cuh).
 *
 * A small product lasts as long as it takes to begin and to end:
 *
 *     the next launch begins       blocks of the next kernel come while the last ones of this kernel still store; they
 *     early                        make barriers and fetch descriptors, then wait for its end (core/cluster.cuh)
 *     no registers change hands    one warp copies, not four, so that 128 sums a thread fit without setmaxnreg
 *     no barrier at the end        a block may leave before the others of its cluster (multicast_release)
 *     no divisions                 shifts, or of 32 bits; tiles are numbered in int
 *     one copy of odd rows         both operands in one launch (pack.cuh), which overlaps too
 *     exchanges under way          of four vectors at a time, from registers to C (wgmma_store.cuh)
 *
 * As many stages as fit: 16 at most. What memory needs is bytes in flight, about 40 KiB a multiprocessor.
 *
 * Times on an H200, in us, of bfloat16 products launched one after the other, of the best configuration tried. Without
 * early launches a prototype took 3.4 for 176^3 and 10.1 for 1000^3.
 *
 *     m x n x k               best    vendor      tile
 *     176 x 176 x 176          2.5       2.5      64 x 16, turned
 *     480 x 480 x 480          3.8       3.3      64 x 32, turned, pairs share A
 *     1000 x 1000 x 1000       8.5       7.3      64 x 192, turned, four share B
 *     2000 x 2000 x 2000      24.7      23.6      128 x 256, turned
 *     3000 x 3000 x 3000      89.5      75.4      128 x 160, turned, 2 x 2 share both
 *     8192 x 8192 x 8192      1517      1378      128 x 256, pairs share B
 *     5 x 7168 x 7168         27.6      28.4      64 x 16, turned
 *     304 x 8192 x 2048       17.4      15.6      128 x 160, turned
 *     189 x 7808 x 7808       40.1      35.4      64 x 192, turned
 *     24 x 1792 x 2112         5.4       5.2      64 x 64, 4 pieces; 9.9 in one
 *     96 x 5120 x 5120        20.8      15.6      128 x 192, 4 pieces
 *
 * Tried and left out, as never best by more than 2 %: tiles of 128 x 64, 8 pieces of k, pieces in clusters that also
 * share operands (but for one product, 2.8 %). */
#include "multicast.cuh"

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A consumer multiplies its 64 rows of A by the tile of B, stage by stage. It queues a stage's instructions, then waits
 * for those of the stage before and releases that stage. */
template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__device__ inline void multicast_consume(const wgmma_work &work, const multicast_layout &layout,
                                         const multicast_place &place, multicast_ring &ring, uint8_t *stages, int first,
                                         int clusters) {
    constexpr int BYTES = SHAPE::A_BYTES + SHAPE::template B_BYTES<B_MN>;
    const int consumer = int(threadIdx.x) / WARPGROUP;
    const int64_t tiles = (layout.clusters - first + clusters - 1) / clusters;
    multicast_release release(layout, place, tiles * (place.end - place.begin));
    multicast_position at;
    for (int number = first; number < layout.clusters; number += clusters) {
        float sum[SHAPE::COLUMNS / 2];
#pragma unroll
        for (float &each : sum) each = 0;
        int reading = -1; /* the stage that pending instructions read */
        for (int step = place.begin; step < place.end; step++, at.advance(layout.stages)) {
            mbarrier_wait(&ring.full[at.stage], at.phase);
            const uint8_t *const stage = stages + at.stage * BYTES;
            const uint64_t a = wgmma_operand(stage + consumer * SLAB_BYTES), b = wgmma_operand(stage + SHAPE::A_BYTES);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < TILE_K / 16; i++)
                wgmma<T, A_MN, B_MN>(sum, a + i * wgmma_step<A_MN>, b + i * wgmma_step<B_MN>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) release(&ring.empty[reading]);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) release(&ring.empty[reading]);
        if (layout.pieces > 1) {
            auto &sums = *reinterpret_cast<multicast_sums<SHAPE::ROWS, SHAPE::COLUMNS> *>(stages);
            multicast_leave(sums, consumer, sum);
            return; /* the cluster's only tile */
        }
        multicast_tile tile = multicast_tile_of<SHAPE>(layout, place, number);
        tile.row += consumer * 64;
        multicast_store<T>(work, tile, sum);
    }
}

template <typename SHAPE, typename T, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    matmul_multicast_kernel(const __grid_constant__ wgmma_work work, const __grid_constant__ CUtensorMap a_map,
                            const __grid_constant__ CUtensorMap b_map,
                            const __grid_constant__ multicast_layout layout) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    multicast_ring &ring = *reinterpret_cast<multicast_ring *>(memory);
    uint8_t *const stages = memory + MULTICAST_RING;
    const bool copies = threadIdx.x >= SHAPE::CONSUMERS * WARPGROUP;
    const int sharing = layout.down * layout.across, size = sharing * layout.pieces;
    const int first = shared_out(int(blockIdx.x), size), clusters = shared_out(int(gridDim.x), size);
    if (copies) { /* a warp: a stage for each thread */
        const int stage = int(threadIdx.x) - SHAPE::CONSUMERS * WARPGROUP;
        if (stage < layout.stages) {
            mbarrier_init(&ring.full[stage], 1);
            mbarrier_init(&ring.empty[stage], SHAPE::CONSUMERS * (layout.down + layout.across - 1));
            mbarrier_init_fence();
        }
        if (stage == 0) {
            tma_prefetch(&a_map);
            tma_prefetch(&b_map);
        }
        __syncwarp();
    }
    if (size > 1) cluster_arrive();
    const multicast_place place(layout, work.args.k);
    if (size > 1)
        cluster_wait();
    else
        __syncthreads();
    launch_wait();
    launch_next();
    if (!copies) {
        multicast_consume<SHAPE, T, A_MN, B_MN>(work, layout, place, ring, stages, first, clusters);
    } else {
        if (threadIdx.x % 32 == 0)
            multicast_produce<SHAPE, A_MN, B_MN>(work.args, layout, place, &a_map, &b_map, ring, stages, first,
                                                 clusters);
        __syncwarp();
    }
    if (layout.pieces > 1) {
        cluster_sync();
        auto &sums = *reinterpret_cast<multicast_sums<SHAPE::ROWS, SHAPE::COLUMNS> *>(stages);
        const multicast_tile tile = multicast_tile_of<SHAPE>(layout, place, first);
        const int at = place.rank_at(layout, place.down, place.across) - place.first;
        if (layout.pieces == 2)
            multicast_gather<T, 2>(work, sums, tile, place.piece, sharing, at);
        else
            multicast_gather<T, 4>(work, sums, tile, place.piece, sharing, at);
        cluster_sync(); /* no block may end before it has been read */
    }
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* The job's words, by their place in the descriptor's lists; 0 where the model decides. */
static const int row_words[] = {0, 128, 64}, column_words[] = {0, 256, 192, 160, 128, 64, 32, 16},
                 multicast_piece_words[] = {0, 1, 2, 4};

static multicast_config matmul_multicast_config(const struct launch *launch) {
    const int *choice = launch->choice;
    return multicast_choose(launch, row_words[choice[0]], column_words[choice[1]], multicast_piece_words[choice[2]],
                            choice[3]);
}

static double matmul_multicast_seconds(const struct launch *launch) {
    return matmul_multicast_config(launch).seconds;
}

/* An element's bits depend only on how k is cut. */
static uint64_t matmul_multicast_way(const struct launch *launch) {
    const int pieces = matmul_multicast_config(launch).pieces;
    return pieces <= 1 ? 1 : uint64_t(ceil_div(ceil_div(launch->args.matmul.k, TILE_K), pieces)) << 1;
}

static size_t matmul_multicast_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return pack_bytes(wgmma_stack_a(args), 2, false) + pack_bytes(wgmma_stack_b(args), 2, false);
}

/* Tiles are numbered in int, and the largest cluster reaches 1024 rows and columns beyond C. */
static const char *matmul_multicast_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int rows = row_words[launch->choice[0]], columns = column_words[launch->choice[1]];
    bool found = false;
    for (const multicast_tile_size &tile : multicast_tiles)
        found = found || ((!rows || rows == tile.rows) && (!columns || columns == tile.columns));
    if (!found) return "there is no tile of so many rows and columns";
    const double tiles = double(args.batch) * double(ceil_div(args.m, 32)) * double(ceil_div(args.n, 32));
    if (tiles > 0x1p30) return "C has more than 2^30 tiles";
    return wgmma_refuses({args.batch, args.m + 1024, args.n + 1024, args.k + TILE_K});
}

template <typename SHAPE, typename T>
static int matmul_multicast_start(const struct launch *launch, const multicast_config &config) {
    const matmul_args &given = launch->args.matmul;
    const wgmma_work work = {config.turned ? matmul_turn(given) : given, config.turned};
    const matmul_args &args = work.args;
    const bool a_mn = args.transpose_a, b_mn = !args.transpose_b;
    const auto [down, across] = config.share;
    const multicast_layout layout = {config.stages,
                                     down,
                                     across,
                                     config.pieces,
                                     int(ceil_div(args.m, SHAPE::ROWS * down)),
                                     int(ceil_div(args.n, SHAPE::COLUMNS * across)),
                                     int(multicast_clusters(args, config.tile, config.share)),
                                     multicast_lines(args.m, a_mn ? 0 : SHAPE::ROWS, across),
                                     multicast_lines(args.n, b_mn ? 0 : SHAPE::COLUMNS, down)};
    if (layout.clusters == 0) return 0;
    const auto type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUtensorMap a_map = {}, b_map = {};
    if (args.k > 0) {
        tma_stack a = wgmma_stack_a(args), b = wgmma_stack_b(args);
        int error = pack_both<uint16_t>(launch, &a, &b);
        if (!error) error = tma_encode(&a_map, type, 2, a, layout.a_lines);
        if (!error) error = tma_encode(&b_map, type, 2, b, layout.b_lines);
        if (error) return error;
    }
    const auto kernel =
        a_mn   ? b_mn ? matmul_multicast_kernel<SHAPE, T, true, true> : matmul_multicast_kernel<SHAPE, T, true, false>
          : b_mn ? matmul_multicast_kernel<SHAPE, T, false, true>
               : matmul_multicast_kernel<SHAPE, T, false, false>;
    const size_t stages = size_t(config.stages) * size_t(multicast_stage_bytes(config.tile, b_mn));
    const size_t sums = config.pieces > 1 ? sizeof(multicast_sums<SHAPE::ROWS, SHAPE::COLUMNS>) : 0;
    const int bytes = int(MULTICAST_RING + std::max(stages, sums)), size = down * across * config.pieces;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error) return error;
    int clusters = layout.clusters;
    if (config.pieces == 1) { /* a cluster takes tile after tile: no more of them than run at the same time */
        const int room = launch_clusters(kernel, SHAPE::THREADS, size_t(bytes), size);
        if (room > 0) clusters = std::min(clusters, room);
    }
    return launch_early(kernel, dim3(unsigned(clusters * size)), SHAPE::THREADS, size_t(bytes), size, stream_of(launch),
                        work, a_map, b_map, layout);
}

template <typename T> static int matmul_multicast_of(const struct launch *launch) {
    const multicast_config config = matmul_multicast_config(launch);
    if (config.tile.rows == 64) switch (config.tile.columns) {
        case 192: return matmul_multicast_start<multicast_shape<64, 192, 1>, T>(launch, config);
        case 128: return matmul_multicast_start<multicast_shape<64, 128, 1>, T>(launch, config);
        case 64: return matmul_multicast_start<multicast_shape<64, 64, 2>, T>(launch, config);
        case 32: return matmul_multicast_start<multicast_shape<64, 32, 2>, T>(launch, config);
        default: return matmul_multicast_start<multicast_shape<64, 16, 2>, T>(launch, config);
        }
    switch (config.tile.columns) {
    case 256: return matmul_multicast_start<multicast_shape<128, 256, 1>, T>(launch, config);
    case 192: return matmul_multicast_start<multicast_shape<128, 192, 1>, T>(launch, config);
    case 160: return matmul_multicast_start<multicast_shape<128, 160, 1>, T>(launch, config);
    default: return matmul_multicast_start<multicast_shape<128, 128, 1>, T>(launch, config);
    }
}

static int matmul_multicast_launch(const struct launch *launch) {
    return launch->dtype == FLOAT16 ? matmul_multicast_of<__half>(launch) : matmul_multicast_of<__nv_bfloat16>(launch);
}

KERNEL(matmul_multicast) = {
    .name = "multicast",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores, a tile for every shape: blocks of a cluster fetch both operands for each other",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{384, 256, 192, 160, 128, 64, 32, 16},
              {384, 256, 192, 160, 128, 64, 32, 16},
              {TILE_K, 8, 4 * TILE_K, 8 * TILE_K}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "rows", .values = {"auto", "128", "64"}, .help = "of a block's tile"},
                   {.name = "columns",
                    .values = {"auto", "256", "192", "160", "128", "64", "32", "16"},
                    .help = "of a block's tile; auto: what a model predicts to be fastest"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "4"},
                    .help = "of k, each by blocks of its own, added up in their shared memory"},
                   {.name = "turned", .values = {"auto", "no", "yes"}, .help = "the tile's rows lie along n"}},
    .way = matmul_multicast_way,
    .workspace = matmul_multicast_workspace,
    .refuses = matmul_multicast_refuses,
    .seconds = matmul_multicast_seconds,
    .launch = matmul_multicast_launch,
};
