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
 * not matter (split_slices.cuh gives the bounds). The elements of C that slices cannot give are computed in plain
 * float32 afterwards, so each element is right to 2^-21 |A||B| beside the rounding of its sum
 * (tests/e2e/test_componentwise.py). Products that are too narrow or too small to be worth cutting go to
 * matmul/async.cu (split_hands_over).
 *
 * Measured on an H200, cutting included: 3.7 to 4.0 times cuBLAS's float32 at 8192 (192 to 205 TFLOP/s), 1.27 times at
 * 1024. tests/e2e/test_accuracy.py compares errors: the Frobenius error is below cuBLAS's (N(0,1), k = 4096: 2.3e-7
 * against 5.8e-7), except where nine numbers in ten are zero (1.3e-7 against 0.7e-7): there cuBLAS rounds seldom, while
 * slices hold 22 bits whatever k is. For the same reason products with k below 64 are not cut.
 *
 * Parts of 64 of k were no faster and had twice the error; parts of 16 were an eighth slower.
 *
 * Sources: promotion of partial sums, DeepGEMM (for float8); slices, Ootomo and Yokota, "Recovering single precision
 * accuracy from Tensor Cores" (2022). */
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

/* Loads what is known of lines at, at + STEP ...; gives the shifts that undo their scaling, and their weights. All
 * loads come first. A line beyond the last one has the weight of an odd line. */
template <int COUNT, int STEP>
__device__ inline void split_lines(const split_line *line, int64_t at, int64_t lines, int (&shift)[COUNT],
                                   uint32_t (&weight)[COUNT]) {
    uint4 found[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        found[i] = at + i * STEP < lines ? *reinterpret_cast<const uint4 *>(line + at + i * STEP) : uint4();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const split_line known = {found[i].x, found[i].y, found[i].z};
        shift[i] = -line_shift(known.high);
        weight[i] = at + i * STEP < lines ? line_weight(known) : 0;
    }
}

/* Stores a warpgroup's 64 x 128 sums, except those that slices do not hold; sets `left_out` if there are any. All loads
 * come before the first store and without branches between them, so that they overlap: each lane loads four of the
 * warp's 128 columns and shares them by shuffles. */
__device__ inline void split_store(const matmul_args &args, const split_line *a_line, const split_line *b_line,
                                   uint32_t *left_out, int64_t batch, int64_t row, int64_t column, float (&sum)[64]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const int64_t m = row + warp * 16 + quad, n = column + lane * 2; /* row and column of the first sum */
    const int64_t place = (batch * args.m + m) * args.n + n;
    const auto holder = [&](int i) { return i / 4 % 4 * 8 + lane * 2 + i % 2; }; /* the lane with sum i's column */
    int up[2], along[TILE_N / 32];
    uint32_t row_weight[2], column_weight[TILE_N / 32];
    split_lines<2, 8>(a_line, m, args.m, up, row_weight);
    split_lines<TILE_N / 32, 32>(b_line, column + threadIdx.x % 32, args.n, along, column_weight);
    uint32_t all = row_weight[0] & row_weight[1];
#pragma unroll
    for (int i = 0; i < TILE_N / 32; i++) all &= column_weight[i];
    const bool whole = __all_sync(~0u, args.n % 2 == 0 && all & LINE_GOOD); /* every sum is stored, and in pairs */
#pragma unroll
    for (int i = 0; i < 64; i++) {
        /* In two factors, because the power may exceed float's range where the product does not. */
        const int shift = up[i / 2 % 2] + __shfl_sync(~0u, along[i / 16], holder(i)), first = shift / 2;
        sum[i] = sum[i] * power_of_two(first) * power_of_two(shift - first);
    }
    if (!whole) {
        bool left = false;
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const uint32_t weight = __shfl_sync(~0u, column_weight[i / 16], holder(i));
            const int down = i / 2 % 2 * 8, right = i / 4 * 8 + i % 2;
            if (m + down >= args.m || n + right >= args.n) continue;
            if (lines_held(row_weight[i / 2 % 2], weight, args.k))
                matmul_store<float>(args, place + down * args.n + right, sum[i]);
            else
                left = true;
        }
        if (left) atomicOr(left_out, 1);
        return;
    }

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
__device__ inline void split_consume(const matmul_args &args, const split_line *a_line, const split_line *b_line,
                                     uint32_t *left_out, float4 *aside, shared_t &shared, int consumer, int64_t tiles) {
    aside += (blockIdx.x * 2 + consumer) * SUMS_ASIDE + threadIdx.x % WARPGROUP;
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
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
        split_store(args, a_line + (args.a_batch_stride ? tile.batch * args.m : 0),
                    b_line + (args.b_batch_stride ? tile.batch * args.n : 0), left_out, tile.batch,
                    tile.row + consumer * 64, tile.column, sum);
    }
}

template <bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_split_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, const split_line *a_line, const split_line *b_line,
                        uint32_t *left_out, float4 *aside, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    shared_t &shared = *reinterpret_cast<shared_t *>(memory);
    wgmma_roles(
        shared.ring,
        [&] { wgmma_produce<TILE_K, A_MN, B_MN>(args, &a_map, &b_map, shared, tiles, wgmma_all_of_k(args)); },
        [&](int consumer) {
            split_consume<A_MN, B_MN>(args, a_line, b_line, left_out, aside, shared, consumer, tiles);
        });
#endif
}

/* ---- what slices do not hold ----------------------------------------------------------------------------------- */

#define PLAIN_TILE  64
#define PLAIN_K     16
#define PLAIN_CHUNK 32 /* of k in one chain, before it is added to the rest */

/* Computes in plain float32 the elements of C that were left out, in tiles of 64 x 64, 4 x 4 elements per thread. A
 * tile without such elements costs one check. */
__global__ void __launch_bounds__(256)
    split_plain_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ split_pair pair,
                       const uint32_t *left_out) {
    __shared__ float a_tile[PLAIN_K][PLAIN_TILE + 1], b_tile[PLAIN_K][PLAIN_TILE + 1];
    if (*left_out == 0) return;
    const split_operand &a = pair.operand[0], &b = pair.operand[1];
    const int64_t rows = (args.m + PLAIN_TILE - 1) / PLAIN_TILE, columns = (args.n + PLAIN_TILE - 1) / PLAIN_TILE;
    const int thread = int(threadIdx.x), x = thread % 16, y = thread / 16;
    const int64_t a_row = args.transpose_a ? 1 : args.k, a_k = args.transpose_a ? args.m : 1;
    const int64_t b_column = args.transpose_b ? args.k : 1, b_k = args.transpose_b ? 1 : args.n;

    for (int64_t number = blockIdx.x; number < args.batch * rows * columns; number += gridDim.x) {
        const int64_t batch = number / (rows * columns), row = number / columns % rows * PLAIN_TILE;
        const int64_t column = number % columns * PLAIN_TILE;
        const split_line *a_line = a.line + (a.count > 1 ? batch * args.m : 0);
        const split_line *b_line = b.line + (b.count > 1 ? batch * args.n : 0);
        uint32_t row_weight[4], column_weight[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t m = row + y + i * 16, n = column + x + i * 16;
            row_weight[i] = m < args.m ? line_weight(a_line[m]) : 0;
            column_weight[i] = n < args.n ? line_weight(b_line[n]) : 0;
        }
        const auto is_left = [&](int i, int j) {
            return row + y + i * 16 < args.m && column + x + j * 16 < args.n &&
                   !lines_held(row_weight[i], column_weight[j], args.k);
        };
        bool any = false;
#pragma unroll
        for (int i = 0; i < 16; i++) any = any || is_left(i / 4, i % 4);
        if (!__syncthreads_or(any)) continue;

        float total[4][4] = {}, sum[4][4] = {}, part[4][4] = {}; /* over all of k, over a spell, over a chunk */
        for (int64_t k0 = 0; k0 < args.k; k0 += PLAIN_K) {
            for (int i = thread; i < PLAIN_K * PLAIN_TILE; i += 256) {
                /* Neighbouring threads fetch along the operand's rows in memory. */
                const int am = args.transpose_a ? i % PLAIN_TILE : i / PLAIN_K,
                          ak = args.transpose_a ? i / PLAIN_TILE : i % PLAIN_K;
                const int bn = args.transpose_b ? i / PLAIN_K : i % PLAIN_TILE,
                          bk = args.transpose_b ? i % PLAIN_K : i / PLAIN_TILE;
                a_tile[ak][am] = row + am < args.m && k0 + ak < args.k
                                     ? a.x[batch * args.a_batch_stride + (row + am) * a_row + (k0 + ak) * a_k]
                                     : 0;
                b_tile[bk][bn] = column + bn < args.n && k0 + bk < args.k
                                     ? b.x[batch * args.b_batch_stride + (column + bn) * b_column + (k0 + bk) * b_k]
                                     : 0;
            }
            __syncthreads();
#pragma unroll
            for (int l = 0; l < PLAIN_K; l++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        part[i][j] = fmaf(a_tile[l][y + i * 16], b_tile[l][x + j * 16], part[i][j]);
            __syncthreads();
            const int64_t done = k0 + PLAIN_K;
            if (done % PLAIN_CHUNK != 0 && done < args.k) continue;
            const bool spell = done % SPELL == 0 || done >= args.k;
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sum[i][j] += part[i][j];
                    part[i][j] = 0;
                    if (spell) total[i][j] += sum[i][j], sum[i][j] = 0;
                }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (is_left(i, j))
                    matmul_store<float>(args, (batch * args.m + row + y + i * 16) * args.n + column + x + j * 16,
                                        total[i][j]);
    }
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

/* The operands and the layout of the workspace: the left-out flag, lines of both, slices of both, sums set aside. */
struct split_plan {
    split_pair pair;
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

    size_t end = 256;
    const auto take = [&](size_t bytes) {
        uint8_t *place = static_cast<uint8_t *>(launch->workspace) + end;
        end += (bytes + 255) / 256 * 256;
        return place;
    };
    a.line = reinterpret_cast<split_line *>(take(sizeof(split_line) * a_count * args.m));
    b.line = reinterpret_cast<split_line *>(take(sizeof(split_line) * b_count * args.n));
    const size_t to_zero = end;
    for (split_operand *o : {&a, &b})
        o->slice = reinterpret_cast<__half *>(take(sizeof(__half) * SLICES * o->count * o->rows * o->pitch));
    uint8_t *const aside = take(args.k > SPELL ? sizeof(float4) * 2 * SUMS_ASIDE * launch->multiprocessors : 0);
    return {{a, b}, reinterpret_cast<float4 *>(aside), to_zero, end};
}

/* The time by slices (H200): five launches, two passes over the operands, tiles in rounds of the whole device. */
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

static int64_t split_patches(const split_operand &o) {
    return o.count * ceil_div(o.rows, PATCH_ROWS) * ceil_div(o.columns, PATCH_COLUMNS);
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
    uint32_t *left_out = static_cast<uint32_t *>(launch->workspace);
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
        split_cut_kernel<<<grid, PATCH_THREADS, 0, stream>>>(plan.pair);
    }
    const auto kernel =
        args.transpose_a ? matmul_split_choose<true>(!args.transpose_b) : matmul_split_choose<false>(!args.transpose_b);
    error = wgmma_start(launch, {tiles}, sizeof(shared_t), kernel, args, a_map, b_map, a.line, b.line, left_out,
                        plan.aside);
    if (error) return error;
    split_plain_kernel<<<unsigned(launch->multiprocessors * 2), 256, 0, stream>>>(args, plan.pair, left_out);
    return cudaGetLastError();
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
              {PATCH_COLUMNS, TILE_N, PLAIN_TILE, 8},
              {TILE_K, CHUNK, PLAIN_K, SPELL}},
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
