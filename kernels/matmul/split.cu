/* matmul/split.cu - float32 results at float32 accuracy from float16 tensor cores, at four times float32's speed.
 *
 * Each operand is cut into two float16 slices, which together hold 22 bits of every number (split_slices.cuh). Three
 * products of slices give the product; the fourth is below the rounding:
 *
 *     A * B  ~  hi * hi  +  (lo * hi + hi * lo) / 4096            lo * lo / 2^24 is left out
 *
 * This alone does not give float32's accuracy. The tensor core truncates where float32 rounds when it adds to a sum, so
 * errors all have the same direction and grow with k. Therefore the tensor core sums only 32 of k, one part, and
 * ordinary float32 additions add the parts up:
 *
 *                k   0 .. 31        32 .. 63       64 .. 95
 *     tensor core    hi*hi  small   hi*hi  small   hi*hi  small   small = lo*hi + hi*lo, one sum over all of k: it is
 *                    |----||-----|  |----||-----|  |----||-----|  2048 times smaller, its truncation does not show
 *     float32              sum+=part      sum+=part      sum+=part
 *
 * The additions run during the instructions for `small`, so the tensor core does not wait for them. A thread holds 64
 * each of `sum`, `part` and `small`, so a block's tile is 128 x 128, half of matmul/wgmma.cu's. Clusters, ring and
 * roles are those of wgmma.cu. A single chain of float32 additions over a long k would round too often: after every
 * 2048 of k the sums are added to a place in memory and start again from zero.
 *
 * Slices hold numbers down to 2^-28 of the largest in their row of A or column of B, and smaller ones where these do
 * not matter (split_slices.cuh gives the rule and its bounds). The elements of C that slices cannot give are those of
 * whole rows and columns, and are computed in plain float32 afterwards, so each element is right to 2^-21 |A||B| beside
 * the rounding of its sum (tests/e2e/test_componentwise.py). The launches of a product:
 *
 *     measure, list, cut    what is known of rows and columns; lists of them; slices
 *     tensor cores          the held rows by the held columns; where many are unheld, slices hold no others
 *     pack, plain           the rest, at the speed of float32 (split_plain.cuh)
 *
 * In a product of ordinary numbers list, pack and plain find nothing to do. No launch waits for the host: lists and
 * their lengths stay on the device. Products that are too narrow or too small to be worth cutting go to matmul/async.cu
 * (split_hands_over).
 *
 * Measured on an H200, cutting included: 3.7 to 4.0 times cuBLAS's float32 at 8192 (192 to 205 TFLOP/s), 1.27 times at
 * 1024. tests/e2e/test_accuracy.py compares errors: the Frobenius error is below cuBLAS's (N(0,1), k = 4096: 2.3e-7
 * against 5.8e-7), except where nine numbers in ten are zero (1.3e-7 against 0.7e-7): there cuBLAS rounds seldom, while
 * slices hold 22 bits whatever k is. For the same reason products with k below 64 are not cut.
 *
 * Parts of 64 of k were no faster and had twice the error; parts of 16 were an eighth slower.
 *
 * The plain part once took tiles of 64 x 64 wherever an element was left out. Data that slices hold badly then ran at a
 * fifth of cuBLAS's speed, and one row with a NaN halved it (split_plain.cuh has today's figures).
 *
 * Sources: promotion of partial sums, DeepGEMM (for float8); slices, Ootomo and Yokota, "Recovering single precision
 * accuracy from Tensor Cores" (2022). */
#include "split_lists.cuh"
#include "split_plain.cuh"
#include "split_slices.cuh"
#include "wgmma.cuh"

DECLARE_KERNEL(matmul_async); /* takes what is not worth cutting */

#define TILE_N     128
#define TILE_K     64 /* one slab row: 128 bytes */
#define CHUNK      32 /* of k that the tensor core sums */
#define STAGES     3
#define SHORT      64                   /* below this k the rounding of slices is the largest error */
#define SPELL      2048                 /* of k in one chain of float32 additions */
#define SUMS_ASIDE (64 / 4 * WARPGROUP) /* per warpgroup, in float4 */

using stage_t = wgmma_stage<SLICES, TILE_N / 64>;
using shared_t = wgmma_shared<stage_t, STAGES>;

/* What the tensor cores compute: all rows and columns of C, or those in the list, in its order. */
struct split_extent {
    matmul_args args; /* m and n are numbers of places */
    int64_t all_m, all_n;
    const int32_t *a_list, *b_list; /* lines by their place; NULL: each line at its own */
    int64_t tiles;
};

__device__ inline split_extent split_extent_of(const matmul_args &args, const split_pair &pair) {
    split_extent extent = {args, args.m, args.n, nullptr, nullptr, 0};
    const int64_t height = WGMMA_CLUSTER * WGMMA_TILE_M;
    if (split_is_dense(pair, 0)) {
        extent.a_list = pair.operand[0].list;
        extent.args.m = pair.operand[0].ranges->begin[LINE_UNHELD];
    }
    if (split_is_dense(pair, 1)) {
        extent.b_list = pair.operand[1].list;
        extent.args.n = pair.operand[1].ranges->begin[LINE_UNHELD];
    }
    if (split_holds_any(pair))
        extent.tiles = args.batch * ((extent.args.m + height - 1) / height) * ((extent.args.n + TILE_N - 1) / TILE_N);
    return extent;
}

/* Loads what is known of the lines at places at, at + STEP ...; gives their numbers, the shifts that undo their
 * scaling, and their classes. All loads come first. A line that does not exist is unheld. */
template <int COUNT, int STEP>
__device__ inline void split_lines(const split_line *line, const int32_t *list, int64_t at, int64_t places, int64_t k,
                                   int (&number)[COUNT], int (&shift)[COUNT], int (&type)[COUNT]) {
    split_line found[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int64_t place = at + i * STEP;
        number[i] = place >= places ? -1 : list ? list[place] : int(place);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) found[i] = number[i] >= 0 ? line_load(line + number[i]) : split_line();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        shift[i] = -line_shift(found[i].high);
        type[i] = number[i] >= 0 ? line_class(found[i], k) : LINE_UNHELD;
    }
}

/* Stores a warpgroup's 64 x 128 sums, except those that slices do not hold. All loads come before the first store and
 * without branches between them, so that they overlap: each lane loads four of the warp's 128 columns and shares them
 * by shuffles. */
__device__ inline void split_store(const split_extent &extent, const split_line *a_line, const split_line *b_line,
                                   int64_t batch, int64_t row, int64_t column, float (&sum)[64]) {
    const matmul_args &args = extent.args;
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const int64_t m = row + warp * 16 + quad, n = column + lane * 2;             /* row and column of the first sum */
    const auto holder = [&](int i) { return i / 4 % 4 * 8 + lane * 2 + i % 2; }; /* the lane with sum i's column */
    int up[2], rows[2], row_type[2], along[TILE_N / 32], columns[TILE_N / 32], column_type[TILE_N / 32];
    split_lines<2, 8>(a_line, extent.a_list, m, args.m, args.k, rows, up, row_type);
    split_lines<TILE_N / 32, 32>(b_line, extent.b_list, column + threadIdx.x % 32, args.n, args.k, columns, along,
                                 column_type);
    int all = row_type[0] & row_type[1];
#pragma unroll
    for (int i = 0; i < TILE_N / 32; i++) all &= column_type[i];
    /* Every sum is stored, and in pairs. */
    const bool whole = __all_sync(~0u, args.n % 2 == 0 && !extent.a_list && !extent.b_list && all & LINE_GOOD);
#pragma unroll
    for (int i = 0; i < 64; i++) {
        /* In two factors, because the power may exceed float's range where the product does not. */
        const int shift = up[i / 2 % 2] + __shfl_sync(~0u, along[i / 16], holder(i)), first = shift / 2;
        sum[i] = sum[i] * power_of_two(first) * power_of_two(shift - first);
    }
    if (!whole) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int type = __shfl_sync(~0u, column_type[i / 16], holder(i));
            const int right = __shfl_sync(~0u, columns[i / 16], holder(i)), down = i / 2 % 2;
            if (lines_held(row_type[down], type))
                matmul_store<float>(args, (batch * extent.all_m + rows[down]) * extent.all_n + right, sum[i]);
        }
        return;
    }

    const int64_t place = (batch * args.m + m) * args.n + n;
    float *const to = static_cast<float *>(args.last ? args.c : args.partial) + place;
    if (!args.first) {
        const float *const partial = static_cast<const float *>(args.partial) + place;
        float2 earlier[32];
#pragma unroll
        for (int i = 0; i < 32; i++)
            earlier[i] = *reinterpret_cast<const float2 *>(partial + i % 2 * 8 * args.n + i / 2 * 8);
#pragma unroll
        for (int i = 0; i < 32; i++) sum[i * 2] += earlier[i].x, sum[i * 2 + 1] += earlier[i].y;
    }
    if (args.last && args.alpha != 1)
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = float(args.alpha * sum[i]);
#pragma unroll
    for (int i = 0; i < 32; i++)
        *reinterpret_cast<float2 *>(to + i % 2 * 8 * args.n + i / 2 * 8) = make_float2(sum[i * 2], sum[i * 2 + 1]);
}

/* Adds a thread's sums to its place in memory and zeroes them; `room` holds what is loaded. `first`: the place is still
 * undefined, so it is overwritten. */
__device__ inline void split_set_aside(float4 *aside, float (&sum)[64], float (&room)[64], bool first) {
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float4 before = first ? float4() : __ldcg(aside + i / 4 * WARPGROUP);
        room[i] = before.x, room[i + 1] = before.y, room[i + 2] = before.z, room[i + 3] = before.w;
    }
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        __stcg(aside + i / 4 * WARPGROUP, make_float4(room[i] + sum[i], room[i + 1] + sum[i + 1],
                                                      room[i + 2] + sum[i + 2], room[i + 3] + sum[i + 3]));
        sum[i] = sum[i + 1] = sum[i + 2] = sum[i + 3] = 0;
    }
}

__device__ inline void split_add_aside(const float4 *aside, float (&sum)[64]) {
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float4 before = __ldcg(aside + i / 4 * WARPGROUP);
        sum[i] += before.x, sum[i + 1] += before.y, sum[i + 2] += before.z, sum[i + 3] += before.w;
    }
}

/* A consumer keeps three sums of its 64 x 128 tile: `part`, hi * hi over one chunk of k; `sum`, the float32 sum of the
 * parts; `small`, lo * hi + hi * lo over all of k, so small that the tensor core's truncation does not show. While the
 * instructions for `small` run, the part is added to `sum`. After every SPELL of k the sums are set aside in memory. */
template <bool A_MN, bool B_MN>
__device__ inline void split_consume(const split_extent &extent, const split_pair &pair, float4 *aside,
                                     shared_t &shared, int consumer) {
    const matmul_args &args = extent.args;
    aside += (blockIdx.x * 2 + consumer) * SUMS_ASIDE + threadIdx.x % WARPGROUP;
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < extent.tiles; number += gridDim.x / WGMMA_CLUSTER) {
        float sum[64], small[64], part[64];
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = small[i] = 0;
        int reading = -1; /* the stage that pending instructions read */
        for (int64_t k = 0; k < args.k; k += TILE_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const stage_t &stage = shared.stage[at.stage];
            const uint64_t a_hi = wgmma_operand(stage.a[HI][consumer]), a_lo = wgmma_operand(stage.a[LO][consumer]);
            const uint64_t b_hi = wgmma_operand(stage.b[HI][0]), b_lo = wgmma_operand(stage.b[LO][0]);
#pragma unroll
            for (int chunk = 0; chunk < TILE_K / 16; chunk += CHUNK / 16) {
                wgmma_fence();
#pragma unroll
                for (int i = chunk; i < chunk + CHUNK / 16; i++)
                    wgmma<__half, A_MN, B_MN>(part, a_hi + i * wgmma_step<A_MN>, b_hi + i * wgmma_step<B_MN>,
                                              i > chunk);
                wgmma_commit();
#pragma unroll
                for (int i = chunk; i < chunk + CHUNK / 16; i++) {
                    wgmma<__half, A_MN, B_MN>(small, a_lo + i * wgmma_step<A_MN>, b_hi + i * wgmma_step<B_MN>, true);
                    wgmma<__half, A_MN, B_MN>(small, a_hi + i * wgmma_step<A_MN>, b_lo + i * wgmma_step<B_MN>, true);
                }
                wgmma_commit();
                wgmma_wait<1>();
                wgmma_pin(part);
                if (chunk == 0 && reading >= 0) wgmma_release(shared.ring, reading);
#pragma unroll
                for (int i = 0; i < 64; i++) sum[i] += part[i];
                wgmma_pin(sum);
            }
            reading = at.stage;
            if ((k + TILE_K) % SPELL == 0 && k + TILE_K < args.k) split_set_aside(aside, sum, part, k < SPELL);
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading);
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = fmaf(small[i], 1 / LO_SCALE, sum[i]);
        if (args.k > SPELL) split_add_aside(aside, sum);
        const tile_place tile = wgmma_tile(args, TILE_N, number);
        split_store(extent, pair.operand[0].line + (args.a_batch_stride ? tile.batch * extent.all_m : 0),
                    pair.operand[1].line + (args.b_batch_stride ? tile.batch * extent.all_n : 0), tile.batch,
                    tile.row + consumer * 64, tile.column, sum);
    }
}

template <bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_split_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, const __grid_constant__ split_pair pair,
                        float4 *aside, int64_t) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    shared_t &shared = *reinterpret_cast<shared_t *>(memory);
    wgmma_roles(
        shared.ring,
        [&] {
            const split_extent extent = split_extent_of(args, pair);
            wgmma_produce<TILE_K, A_MN, B_MN>(extent.args, &a_map, &b_map, shared, extent.tiles, wgmma_all_of_k(args));
        },
        [&](int consumer) { split_consume<A_MN, B_MN>(split_extent_of(args, pair), pair, aside, shared, consumer); });
#endif
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

/* The operands and the layout of the workspace: what starts as zero (tally, counters, lines of both), lists of both,
 * slices of both, sums set aside. */
struct split_plan {
    split_pair pair;
    plain_counters plain;
    float4 *aside;         /* sums set aside by running blocks, where k is long */
    size_t to_zero, bytes; /* of the workspace */
};

static split_operand split_describe(const void *x, bool transposed, bool by_row, int64_t lines, int64_t k,
                                    int64_t count, int64_t stride) {
    split_operand o = {};
    o.x = static_cast<const float *>(x);
    o.by_row = by_row != transposed;
    o.rows = o.by_row ? lines : k;
    o.columns = o.by_row ? k : lines;
    o.count = count;
    o.stride = stride;
    o.pitch = ceil_div(o.columns, 8) * 8;
    o.fours = o.columns % 4 == 0 && stride % 4 == 0 && uintptr_t(x) % 16 == 0;
    return o;
}

static split_plan split_plan_make(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t a_count = args.a_batch_stride ? args.batch : 1, b_count = args.b_batch_stride ? args.batch : 1;
    split_operand a = split_describe(args.a, args.transpose_a, true, args.m, args.k, a_count, args.a_batch_stride);
    split_operand b = split_describe(args.b, args.transpose_b, false, args.n, args.k, b_count, args.b_batch_stride);

    size_t end = 0;
    const auto take = [&](auto *&place, int64_t count) {
        place =
            reinterpret_cast<std::remove_reference_t<decltype(place)>>(static_cast<uint8_t *>(launch->workspace) + end);
        end += (sizeof *place * count + 255) / 256 * 256;
    };
    split_plan plan = {};
    take(plan.pair.tally, 1);
    take(plan.plain.next, args.batch);
    take(plan.plain.done, PLAIN_DONE);
    for (split_operand *o : {&a, &b}) {
        take(o->counted, o->count);
        take(o->line, o->count * o->lines());
    }
    plan.to_zero = end;
    for (split_operand *o : {&a, &b}) {
        take(o->ranges, o->count);
        take(o->list, o->count * o->list_room());
        /* The plain part's copy takes as much as the slices, and a little more. */
        const int64_t slices = SLICES * o->rows * o->pitch, packed = 2 * o->k() * split_packed_pitch(*o);
        take(o->slice, o->count * std::max(slices, packed));
    }
    take(plan.aside, args.k > SPELL ? int64_t(2) * SUMS_ASIDE * launch->multiprocessors : 0);
    plan.bytes = end;
    plan.pair.operand[0] = a;
    plan.pair.operand[1] = b;
    plan.pair.single = args.batch == 1;
    return plan;
}

/* The time by slices (H200): launches, two passes over the operands, tiles in rounds of the whole device. */
static double split_own_seconds(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const double a = double(args.a_batch_stride ? args.batch : 1) * double(args.m) * double(args.k);
    const double b = double(args.b_batch_stride ? args.batch : 1) * double(args.n) * double(args.k);
    const int64_t clusters = std::max(1, launch->multiprocessors / WGMMA_CLUSTER);
    const double rounds = double(ceil_div(wgmma_tiles(args, TILE_N), clusters));
    return 22e-6 + (a + b) * 3.8e-12 + rounds * (double(ceil_div(args.k, TILE_K)) * 1.3e-6 + 2.5e-6);
}

/* A short k is never cut: its sums round so little that the rounding of slices would show. What is too small or narrow
 * goes to matmul/async.cu. */
static bool split_hands_over(const struct launch *launch) {
    return launch->args.matmul.k < SHORT ||
           (launch->choice[0] == 0 && matmul_async.seconds(launch) < split_own_seconds(launch));
}

static double matmul_split_seconds(const struct launch *launch) {
    return split_hands_over(launch) ? matmul_async.seconds(launch) : split_own_seconds(launch);
}

/* Enough for both ways: smaller tiles of the same run may go the other way. */
static size_t matmul_split_workspace(const struct launch *launch) {
    return std::max(split_plan_make(launch).bytes, kernel_workspace(&matmul_async, launch));
}

static const char *matmul_split_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.m, args.n, args.k, SLICES * args.batch});
}

static int split_encode(CUtensorMap *map, const split_operand &o) {
    return tma_encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, sizeof(__half),
                      {o.slice, SLICES * o.count, o.rows, o.columns, o.pitch, o.rows * o.pitch}, 64);
}

/* What slices do not give: in a product of good lines, two launches that return at once. */
static int split_plain_launch(const struct launch *launch, const split_plan &plan) {
    const matmul_args &args = launch->args.matmul;
    const cudaStream_t stream = stream_of(launch);
    const int64_t most = std::max(plan.pair.operand[0].count, plan.pair.operand[1].count), high = 65535;
    const int64_t packers = ceil_div(launch->multiprocessors * 2, most), blocks = launch->multiprocessors * 2;
    const dim3 pack_grid(unsigned(packers), unsigned(std::min(most, high)), 2);
    split_pack_kernel<<<pack_grid, PACK_THREADS, 0, stream>>>(plan.pair);
    const int error =
        cudaFuncSetAttribute(split_plain_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(PLAIN_SHARED));
    if (error) return error;
    /* Of a stack each matrix has its own blocks, no more than tiles: where unheld lines are few, those are thin. */
    const int64_t tiles = ceil_div(args.m, PLAIN_THIN) * ceil_div(args.n, PLAIN_TILE) +
                          ceil_div(args.m, PLAIN_TILE) * ceil_div(args.n, PLAIN_THIN);
    const dim3 grid(unsigned(args.batch > 1 ? std::min(blocks, tiles) : blocks), unsigned(std::min(args.batch, high)));
    split_plain_kernel<<<grid, PLAIN_THREADS, PLAIN_SHARED, stream>>>(args, plan.pair, plan.plain);
    return cudaGetLastError();
}

template <bool A_MN> static auto matmul_split_choose(bool b_mn) {
    return b_mn ? matmul_split_kernel<A_MN, true> : matmul_split_kernel<A_MN, false>;
}

static int matmul_split_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (split_hands_over(launch)) return matmul_async.launch(launch);
    const int64_t tiles = wgmma_tiles(args, TILE_N);
    if (tiles == 0) return 0;
    const split_plan plan = split_plan_make(launch);
    const split_operand &a = plan.pair.operand[0], &b = plan.pair.operand[1];
    const cudaStream_t stream = stream_of(launch);
    int error = cudaMemsetAsync(launch->workspace, 0, plan.to_zero, stream);
    if (error) return error;

    CUtensorMap a_map = {}, b_map = {};
    if (args.k > 0) {
        error = split_encode(&a_map, a);
        if (!error) error = split_encode(&b_map, b);
        if (error) return error;
        dim3 grid = grid_of(std::max(split_patches(a), split_patches(b)));
        grid.z = 2;
        split_measure_kernel<<<grid, PATCH_THREADS, 0, stream>>>(plan.pair);
        dim3 lines = grid_of(ceil_div(std::max(a.count * a.lines(), b.count * b.lines()), PATCH_THREADS));
        lines.z = 2;
        split_tally_kernel<<<lines, PATCH_THREADS, 0, stream>>>(plan.pair);
        split_list_kernel<<<unsigned(launch->multiprocessors * 2), PATCH_THREADS, 0, stream>>>(plan.pair);
        split_cut_kernel<<<grid, PATCH_THREADS, 0, stream>>>(plan.pair);
    }
    const auto kernel =
        args.transpose_a ? matmul_split_choose<true>(!args.transpose_b) : matmul_split_choose<false>(!args.transpose_b);
    error = wgmma_start(launch, {tiles}, sizeof(shared_t), kernel, args, a_map, b_map, plan.pair, plan.aside);
    if (error) return error;
    return split_plain_launch(launch, plan);
}

/* What slices cannot hold is known of a line by itself. */
static uint64_t matmul_split_way(const struct launch *launch) {
    return split_hands_over(launch) ? matmul_async.way(launch) << 1 : 1;
}

KERNEL(matmul_split) = {
    .name = "split",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float32 at float32 accuracy from float16 tensor cores: two slices, three products, sums promoted",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{WGMMA_CLUSTER * WGMMA_TILE_M, PLAIN_TILE, PATCH_ROWS},
              {PATCH_COLUMNS, TILE_N, PLAIN_THIN, 8},
              {TILE_K, CHUNK, PLAIN_BK, SPELL}},
    .accuracy = ACCURACY_FULL,
    .speed = 4,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "hand_over",
                    .values = {"yes", "no"},
                    .help = "what is too small or narrow for it goes to async"}},
    .way = matmul_split_way,
    .workspace = matmul_split_workspace,
    .refuses = matmul_split_refuses,
    .seconds = matmul_split_seconds,
    .launch = matmul_split_launch,
};
