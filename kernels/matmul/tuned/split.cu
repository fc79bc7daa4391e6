/* split.cu - float32 results at float32 accuracy from float16 tensor cores, at four times float32's speed.
 *
 * Each operand is cut into two float16 slices, which together hold 22 bits of every number (split_slices.cuh). Three
 * products of slices give the product; the fourth is below the rounding:
 *
 *     A * B  ~  hi * hi  +  (lo * hi + hi * lo) / 4096            lo * lo / 2^24 is left out
 *
 * The tensor core truncates where float32 rounds when it adds to a sum, so errors all have the same direction and grow
 * with k. Therefore it sums only 32 of k, one part, and ordinary float32 additions add the parts up:
 *
 *                k   0 .. 31        32 .. 63       64 .. 95
 *     tensor core    hi*hi  small   hi*hi  small   hi*hi  small   small = lo*hi + hi*lo, one sum over all of k: it is
 *                    |----||-----|  |----||-----|  |----||-----|  2048 times smaller, its truncation does not show
 *     float32              sum+=part      sum+=part      sum+=part
 *
 * The additions run during the instructions for `small`. A thread holds 64 each of `sum`, `part` and `small`, so a
 * block's tile is 128 x 128. Clusters, ring and roles are those of wgmma.cuh. After every 2048 of k the sums are added
 * to sums in memory and start again from zero, because a longer chain of float32 additions rounds too often.
 *
 * Two slices hold numbers down to 2^-28 of the largest in their row of A or column of B. An element of C whose lines
 * have smaller numbers is right all the same if its sum is large enough, else it has failed (split_slices.cuh has the
 * rule and its bounds). So each element is right to 2^-21 |A||B| beside the rounding of its sum
 * (tests/e2e/test_componentwise.py). A tile with elements that failed is done again with three slices of bfloat16,
 * which hold all 24 bits and float32's range, and only these elements are stored:
 *
 *     A * B  ~  a * a  +  (b * a + a * b + b * b + c * a + a * c)          six products instead of three
 *
 * The launches of a product:
 *
 *     measure, cut in two       finds the largest and least of each row and column; makes the slices
 *     tensor cores              multiply all tiles, and list those with elements that failed
 *     cut in three              makes the slices anew, in the memory of the two
 *     tensor cores              multiply the listed tiles, and store their elements that failed
 *
 * In a product of ordinary numbers nothing fails, and the last two launches return at once (2.5 us each). The list and
 * its length stay on the device. Small and narrow products go to exact32.cu or async.cu (split_hands_over).
 *
 * Measured on an H200, cutting included, times cuBLAS's float32: N(0,1) 1.2 at 1000, 3.9 at 4096, 4.1 at 8192 cubed;
 * rows of a softmax 0.55, 2.7, 2.3; numbers spread over 2^-60 .. 2^60 0.54, 2.4, 2.7. The Frobenius error is below
 * cuBLAS's (N(0,1), k = 4096: 2.3e-7 against 5.8e-7; tests/e2e/test_accuracy.py).
 *
 * The limit: two slices hold 22 bits whatever k is. If cuBLAS rounds seldom it is more exact: if nine numbers in
 * ten are zero (1.3e-7 against 0.7e-7), or if k is below 64, which is not cut.
 *
 * Sources: promotion of partial sums, DeepGEMM (for float8); slices, Ootomo and Yokota, "Recovering single precision
 * accuracy from Tensor Cores" (2022). */
#include "cut.cuh"
#include "split_store.cuh"
#include <cfloat>
#include <cmath>
#include <iterator>

DECLARE_KERNEL(matmul_async); /* these take what is not worth cutting */
DECLARE_KERNEL(matmul_exact32);

#define TILE_K     64                   /* k of a stage: 128 bytes, one slab row */
#define CHUNK      32                   /* k that the tensor core sums, one part */
#define SHORT      64                   /* below this k the rounding of slices is the largest error */
#define SPELL      2048                 /* k of one chain of float32 additions */
#define SUMS_ASIDE (64 / 4 * WARPGROUP) /* float4 in which a warpgroup sets its sums aside */

template <typename WAY> using split_stage = wgmma_stage<WAY::SLICES, TILE_N / 64>;
template <typename WAY> constexpr int split_stages = WAY::SLICES == 2 ? 3 : 2;
template <typename WAY> using split_shared = wgmma_shared<split_stage<WAY>, split_stages<WAY>>;

/* ---- sums kept aside ------------------------------------------------------------------------------------------- */

/* Adds a thread's sums to those set aside in memory, and zeroes them; `loaded`: registers for the latter. `first`: the
 * memory is still undefined, so it is overwritten. */
__device__ inline void split_set_aside(float4 *aside, float (&sum)[64], float (&loaded)[64], bool first) {
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float4 before = first ? float4() : __ldcg(aside + i / 4 * WARPGROUP);
        loaded[i] = before.x, loaded[i + 1] = before.y, loaded[i + 2] = before.z, loaded[i + 3] = before.w;
    }
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        __stcg(aside + i / 4 * WARPGROUP, make_float4(loaded[i] + sum[i], loaded[i + 1] + sum[i + 1],
                                                      loaded[i + 2] + sum[i + 2], loaded[i + 3] + sum[i + 3]));
        sum[i] = sum[i + 1] = sum[i + 2] = sum[i + 3] = 0;
    }
}

/* Adds what a thread has set aside to its sums. */
__device__ inline void split_add_aside(const float4 *aside, float (&sum)[64]) {
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float4 before = __ldcg(aside + i / 4 * WARPGROUP);
        sum[i] += before.x, sum[i + 1] += before.y, sum[i + 2] += before.z, sum[i + 3] += before.w;
    }
}

/* ---- consumers ------------------------------------------------------------------------------------------------- */

/* Calls use(number) for each of the cluster's tiles; if there is a list (else NULL), only for listed ones. */
template <typename USE>
__device__ inline void split_walk(const split_failed &failed, const uint32_t *list, int64_t tiles, USE use) {
    wgmma_walk(list ? *failed.count : tiles, [&](int64_t i) { use(list ? list[i] : i); });
}

/* core/wgmma.cuh's wgmma() with `accumulate`, for bfloat16 too. */
template <typename T, bool A_MN, bool B_MN>
__device__ inline void split_wgmma(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    if constexpr (std::is_same_v<T, __half>)
        wgmma<T, A_MN, B_MN>(d, a, b, accumulate);
    else
        asm volatile(WGMMA_SHARED("m64n128k16", "bf16", WGMMA_NAMES_64, 64, 65, 66, 67, 68)
                     : WGMMA_SUMS_64(d)
                     : "l"(a), "l"(b), "r"(int(accumulate)), "n"(A_MN), "n"(B_MN));
}

/* Computes the sums of a consumer's 64 x 128 tile, `sum`. It keeps three sums of each element: `part`, of products of
 * first slices over one chunk of k; `sum`, the float32 sum of the parts; `small`, of the other products over all of k,
 * so small that the tensor core's truncation does not show. While the instructions for `small` run, the part is added
 * to `sum`. After every SPELL of k the sums are set aside in memory. */
template <typename WAY, bool A_MN, bool B_MN>
__device__ inline void split_consume(const matmul_args &args, float4 *aside, split_shared<WAY> &shared,
                                     ring_position<split_stages<WAY>> &at, int consumer, float (&sum)[64]) {
    using T = typename WAY::type;
    float small[64], part[64];
#pragma unroll
    for (int i = 0; i < 64; i++) sum[i] = small[i] = 0;
    int reading = -1; /* the stage that pending instructions read */
    for (int64_t k = 0; k < args.k; k += TILE_K, at.advance()) {
        mbarrier_wait(&shared.ring.full[at.stage], at.phase);
        const split_stage<WAY> &stage = shared.stage[at.stage];
        uint64_t a[WAY::SLICES], b[WAY::SLICES];
#pragma unroll
        for (int s = 0; s < WAY::SLICES; s++) {
            a[s] = wgmma_operand(stage.a[s][consumer]);
            b[s] = wgmma_operand(stage.b[s][0]);
        }
#pragma unroll
        for (int chunk = 0; chunk < TILE_K / 16; chunk += CHUNK / 16) {
            const auto multiply = [&](float(&d)[64], int i, int of_a, int of_b, bool accumulate) {
                split_wgmma<T, A_MN, B_MN>(d, a[of_a] + i * wgmma_step<A_MN>, b[of_b] + i * wgmma_step<B_MN>,
                                           accumulate);
            };
            wgmma_fence();
#pragma unroll
            for (int i = chunk; i < chunk + CHUNK / 16; i++) multiply(part, i, 0, 0, i > chunk);
            wgmma_commit();
#pragma unroll
            for (int i = chunk; i < chunk + CHUNK / 16; i++) {
                multiply(small, i, 1, 0, true);
                multiply(small, i, 0, 1, true);
                if constexpr (WAY::SLICES == 3) {
                    multiply(small, i, 1, 1, true);
                    multiply(small, i, 2, 0, true);
                    multiply(small, i, 0, 2, true);
                }
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
    if (args.k > SPELL) split_add_aside(aside, sum);
#pragma unroll
    for (int i = 0; i < 64; i++) { /* `small` is NaN if a number is not finite: then it does not count */
        const float with_small = fmaf(small[i], 1 / WAY::LO_SCALE, sum[i]);
        sum[i] = fabsf(sum[i]) <= FLT_MAX ? with_small : sum[i];
    }
}

/* Multiplies the slices. In two: stores the sums, and lists the tiles with elements that failed. In three: computes all
 * elements or, if failed.count is not NULL, those that failed. */
template <typename WAY, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_split_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ CUtensorMap a_map,
                        const __grid_constant__ CUtensorMap b_map, const __grid_constant__ split_pair pair,
                        const split_failed failed, float4 *aside, int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr bool MENDS = WAY::SLICES == 3;
    const bool listed = MENDS && failed.count;
    if (listed && *failed.count == 0) return;
    extern __shared__ __align__(1024) uint8_t memory[];
    split_shared<WAY> &shared = *reinterpret_cast<split_shared<WAY> *>(memory);
    const uint32_t *const list = listed ? failed.list : nullptr;
    wgmma_roles(
        shared.ring,
        [&] {
            ring_position<split_stages<WAY>> at;
            split_walk(failed, list, tiles, [&](int64_t number) {
                wgmma_produce<TILE_K, A_MN, B_MN>(args, &a_map, &b_map, shared, at, number);
            });
        },
        [&](int consumer) {
            ring_position<split_stages<WAY>> at;
            float4 *const own_aside = aside + (blockIdx.x * 2 + consumer) * SUMS_ASIDE + threadIdx.x % WARPGROUP;
            split_walk(failed, list, tiles, [&](int64_t number) {
                float sum[64];
                split_consume<WAY, A_MN, B_MN>(args, own_aside, shared, at, consumer, sum);
                const tile_position tile = wgmma_tile(args, TILE_N, number);
                const int thread = int(threadIdx.x) % WARPGROUP, quad = thread % 32 / 4;
                const split_corner corner = {tile.batch, tile.row + consumer * 64 + thread / 32 * 16 + quad,
                                             tile.column + thread % 4 * 2};
                const split_line *a_line = pair.operand[0].line + (args.a_batch_stride ? tile.batch * args.m : 0);
                const split_line *b_line = pair.operand[1].line + (args.b_batch_stride ? tile.batch * args.n : 0);
                uint64_t *const mine = failed.sums + failed_at(number, consumer);
                if constexpr (MENDS)
                    split_mend(pair, args, a_line, b_line, corner, sum, listed ? *mine : split_existing(args, corner));
                else if (const uint64_t bits = split_store(args, a_line, b_line, corner, sum)) {
                    *mine = bits;
                    if (atomicExch(failed.listed + number, 1) == 0)
                        failed.list[atomicAdd(failed.count, 1)] = uint32_t(number);
                }
            });
        });
#endif
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

/* The operands, and what the workspace holds: which sums failed and the lines, which start as zeros; the list of tiles,
 * the slices, and the sums set aside. */
struct split_plan {
    split_pair pair;
    split_failed failed;
    float4 *aside;  /* sums set aside by running blocks, if k is long */
    size_t to_zero; /* bytes at the begin of the workspace that start as zeros */
    size_t bytes;   /* of the workspace */
};

/* Describes the operands, and divides the workspace. */
static split_plan split_plan_make(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t a_count = args.a_batch_stride ? args.batch : 1, b_count = args.b_batch_stride ? args.batch : 1;
    split_operand a = split_describe(args.a, args.transpose_a, true, args.m, args.k, a_count, args.a_batch_stride);
    split_operand b = split_describe(args.b, args.transpose_b, false, args.n, args.k, b_count, args.b_batch_stride);

    size_t end = 0;
    const auto allocate = [&](auto *&pointer, int64_t count) {
        pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
            static_cast<uint8_t *>(launch->workspace) + end);
        end += (sizeof *pointer * count + 255) / 256 * 256;
    };
    split_plan plan = {};
    const int64_t tiles = wgmma_tiles(args, TILE_N);
    allocate(plan.failed.count, 1);
    allocate(plan.failed.listed, tiles);
    allocate(plan.failed.sums, tiles * FAILED_EACH);
    for (split_operand *o : {&a, &b}) allocate(o->line, o->count * o->lines());
    plan.to_zero = end;
    allocate(plan.failed.list, tiles);
    for (split_operand *o : {&a, &b}) {
        uint16_t *slices;
        allocate(slices, MAX_SLICES * o->count * o->rows * o->pitch);
        o->slice = slices;
    }
    allocate(plan.aside, args.k > SPELL ? int64_t(2) * SUMS_ASIDE * launch->multiprocessors : 0);
    plan.bytes = end;
    plan.pair = {{a, b}};
    return plan;
}

/* Does the job want three slices for all elements? */
static bool split_in_three(const struct launch *launch) {
    return launch->choice[1] == 1;
}

/* The time of cutting and multiplying in one way on an H200: `per_number` seconds for each number of the operands,
 * `stage` seconds for each stage of a tile, and 2.5 us for the rest of a tile, in rounds of the whole device. */
static double split_pass_seconds(const matmul_args &args, double per_number, double rounds, double stage) {
    const double a = double(args.a_batch_stride ? args.batch : 1) * double(args.m) * double(args.k);
    const double b = double(args.b_batch_stride ? args.batch : 1) * double(args.n) * double(args.k);
    return (a + b) * per_number + rounds * (double(ceil_div(args.k, TILE_K)) * stage + 2.5e-6);
}

/* The number of tiles that the busiest cluster does. */
static double split_rounds(const struct launch *launch) {
    const int64_t clusters = std::max(1, launch->multiprocessors / WGMMA_CLUSTER);
    return double(ceil_div(wgmma_tiles(launch->args.matmul, TILE_N), clusters));
}

/* The predicted time without mending: of two slices, or of three if the job wants three everywhere. 14 us are for the
 * launches. */
static double split_own_seconds(const struct launch *launch) {
    return 14e-6 + split_pass_seconds(launch->args.matmul, 3.8e-12, split_rounds(launch),
                                      split_in_three(launch) ? 3.3e-6 : 1.2e-6);
}

/* The predicted time of mending. In products of numbers spread over 2^-60 .. 2^60 by ordinary ones, 0.2 to 0.4 of the
 * tiles need it. */
static double split_mend_seconds(const struct launch *launch) {
    if (split_in_three(launch)) return 0;
    return 5e-6 + split_pass_seconds(launch->args.matmul, 2.8e-12, std::ceil(0.4 * split_rounds(launch)), 3.3e-6);
}

/* cuBLAS's time over that of matmul_async, in float32. */
#define VENDOR       0.95 /* less 5 % */
#define VENDOR_APART 0.78 /* if rows are not in fours: 0.74 to 0.79 at 1000 to 1600 rows, 0.64 and 0.68 below */

/* The kernel that takes a product that is not cut, with its own choice of tiles. */
struct split_other {
    const struct kernel *kernel;
    struct launch launch;
    double seconds; /* of this kernel */
    double plain;   /* of matmul_async */
};

/* matmul_async or matmul_exact32, whichever predicts the shorter time. */
static split_other split_other_of(const struct launch *given) {
    split_other other = {&matmul_async, *given, 0, 0};
    std::fill(std::begin(other.launch.choice), std::end(other.launch.choice), 0);
    other.seconds = other.plain = matmul_async.seconds(&other.launch);
    const double cut = matmul_exact32.seconds(&other.launch);
    if (cut < other.seconds) other.kernel = &matmul_exact32, other.seconds = cut;
    return other;
}

/* Is the product left to the other kernel? Always if k is short: its sums round so little that the rounding of slices
 * would show. Unless the job forbids it, also if the other kernel is faster, or if this one would be slower than
 * cuBLAS's float32 if it had to mend: whether two slices suffice for the numbers is known only afterwards. 1049 x 1573
 * x 2355 of numbers over 2^-60 .. 2^60 ran at 0.89 of cuBLAS's speed, and takes exact32 140 us where cuBLAS takes
 * 207. */
static bool split_hands_over(const struct launch *launch, const split_other &other) {
    if (launch->args.matmul.k < SHORT) return true;
    if (launch->choice[0] != 0) return false;
    const double here = split_own_seconds(launch);
    const double vendor = (matmul_in_groups(launch->args.matmul, 4) ? VENDOR : VENDOR_APART) * other.plain;
    return other.seconds < here || vendor < here + split_mend_seconds(launch);
}

static double matmul_split_seconds(const struct launch *launch) {
    const split_other other = split_other_of(launch);
    return split_hands_over(launch, other) ? other.seconds : split_own_seconds(launch);
}

/* The bytes for this kernel or for the one that it hands over to, whichever are more, since smaller launches of the
 * same run may be handed over. */
static size_t matmul_split_workspace(const struct launch *launch) {
    return std::max(split_plan_make(launch).bytes, kernel_workspace(&matmul_async, launch));
}

static const char *matmul_split_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.m, args.n, args.k, MAX_SLICES * args.batch, wgmma_tiles(args, TILE_N)});
}

/* Describes an operand's slices to the copy engine. Returns 0 or a cudaError_t. */
template <typename WAY> static int split_encode(CUtensorMap *map, const split_operand &o) {
    const bool two = WAY::SLICES == 2;
    return tma_encode(map, two ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, sizeof(uint16_t),
                      {o.slice, WAY::SLICES * o.count, o.rows, o.columns, o.pitch, o.rows * o.pitch}, 64);
}

/* Starts two launches: one cuts the operands, in `patches` blocks for each, and one multiplies their slices. The host
 * does not know whether an element needs three slices. If no element does, both launches for three return at once. */
template <typename WAY, bool A_MN, bool B_MN>
static int split_start(const struct launch *launch, const split_plan &plan, int64_t patches) {
    const split_operand &a = plan.pair.operand[0], &b = plan.pair.operand[1];
    CUtensorMap a_map = {}, b_map = {};
    int error = split_encode<WAY>(&a_map, a);
    if (!error) error = split_encode<WAY>(&b_map, b);
    if (error) return error;
    dim3 grid = grid_of(patches);
    grid.z = 2;
    split_cut_kernel<WAY>
        <<<grid, PATCH_THREADS, 0, stream_of(launch)>>>(plan.pair, WAY::SLICES == 2 ? nullptr : plan.failed.count);
    return wgmma_start(launch, wgmma_tiles(launch->args.matmul, TILE_N), false, sizeof(split_shared<WAY>),
                       matmul_split_kernel<WAY, A_MN, B_MN>, launch->args.matmul, a_map, b_map, plan.pair, plan.failed,
                       plan.aside);
}

/* Starts the launches that cut and multiply: in two and then in three or, if the job wants it, in three for all. */
template <bool A_MN, bool B_MN> static int split_multiply(const struct launch *launch, split_plan &plan) {
    const int64_t patches = std::max(split_patches(plan.pair.operand[0]), split_patches(plan.pair.operand[1]));
    if (split_in_three(launch)) {
        plan.failed.count = nullptr;
        return split_start<split_three, A_MN, B_MN>(launch, plan, patches);
    }
    const int64_t few = std::min(patches, int64_t(3) * launch->multiprocessors);
    const int error = split_start<split_two, A_MN, B_MN>(launch, plan, patches);
    return error ? error : split_start<split_three, A_MN, B_MN>(launch, plan, few);
}

/* kernel->launch: hands the launch over to another variant, or measures the operands' lines, cuts them and
 * multiplies. */
static int matmul_split_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const split_other other = split_other_of(launch);
    if (split_hands_over(launch, other)) return other.kernel->launch(&other.launch);
    if (wgmma_tiles(args, TILE_N) == 0) return 0;
    split_plan plan = split_plan_make(launch);
    const cudaStream_t stream = stream_of(launch);
    const int error = cudaMemsetAsync(launch->workspace, 0, plan.to_zero, stream);
    if (error) return error;
    dim3 grid = grid_of(std::max(split_patches(plan.pair.operand[0]), split_patches(plan.pair.operand[1])));
    grid.z = 2;
    split_measure_kernel<<<grid, PATCH_THREADS, 0, stream>>>(plan.pair);
    if (args.transpose_a)
        return args.transpose_b ? split_multiply<true, false>(launch, plan) : split_multiply<true, true>(launch, plan);
    return args.transpose_b ? split_multiply<false, false>(launch, plan) : split_multiply<false, true>(launch, plan);
}

/* A number of the order of additions (kernel->way). Whether an element fails depends on that element alone. */
static uint64_t matmul_split_way(const struct launch *launch) {
    const split_other other = split_other_of(launch);
    if (!split_hands_over(launch, other)) return 1;
    return other.kernel->way(&other.launch) << 2 | (other.kernel == &matmul_async ? 2 : 0);
}

KERNEL(matmul_split) = {
    .name = "split",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float32 at float32 accuracy from float16 tensor cores: two slices, three products, sums promoted",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{WGMMA_CLUSTER * WGMMA_TILE_M, PATCH_ROWS}, {PATCH_COLUMNS, TILE_N, 8}, {TILE_K, CHUNK, SPELL}},
    .accuracy = ACCURACY_FULL,
    .speed = 4,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "hand_over",
                    .values = {"yes", "no"},
                    .help = "hands products that are too small or narrow to exact32 or async"},
                   {.name = "slices",
                    .values = {"two", "three"},
                    .help = "two: three slices only for elements for which two do not suffice; three: for all"}},
    .way = matmul_split_way,
    .workspace = matmul_split_workspace,
    .refuses = matmul_split_refuses,
    .seconds = matmul_split_seconds,
    .launch = matmul_split_launch,
};
