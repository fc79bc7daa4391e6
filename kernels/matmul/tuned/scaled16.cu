/* scaled16.cu - float32 data at TF32's accuracy from one product of float16.
 *
 * TF32 and float16 both keep 11 bits of a number; TF32 only has more range. Float16 is multiplied twice as fast, from
 * half as many bytes. A product needs little range if each line, a row of A or a column of B, is scaled by a power of
 * two, which is exact and is undone in C.
 *
 *     A   row i times 2^s[i]      float16 --.
 *                                            >-- tensor cores, sums in float32 --  times 2^-(s[i] + t[j])  C
 *     B   column j times 2^t[j]   float16 --'
 *
 * The scale needs the largest number of a line. To read all numbers twice would cost a third of what is gained, so 64
 * numbers of each line, at places that depend on k alone, predict it: the largest of them gets the exponent 12, and
 * numbers 8 times as large still fit. Lines that have larger ones are cut again. The launches of a product:
 *
 *     sample       finds the largest of 64 numbers of each line
 *     cut          scales and rounds all numbers; records too large ones, and counts tiny ones
 *     cut again    lines with too large numbers, by the largest of them      returns at once if there are none
 *     multiply     in the frame of wgmma.cuh; tests the sums, scales them back and stores them
 *     tf32         computes elements of C that failed                        returns at once if there are none
 *
 * A number below 2^-14, scaled, is tiny: float16 has not all 11 bits of it, and rounding changes it by up to 2^-25.
 * Times a number of the other line, below 2^16, this changes a sum by 2^-9. So an element of C whose lines have t tiny
 * numbers has lost t 2^-9 at most. If its sum is at least 64 t, that is 2^-15 of the sum, while rounding both numbers
 * of each product may lose 2^-10, as TF32 does. A smaller sum has failed. Infinities and NaN do not count for a line's
 * scale. A sum with them is what arithmetic makes of the numbers, unless a tiny number became zero: then the sum is
 * NaN, and has failed. All this depends on an element's two lines and its sum only, and so do its bits.
 *
 * Measured on an H100 (700 W), N(0,1), us, in turns with cuBLAS's TF32:
 *
 *     n cubed       1024   2048   4096   8192      of 306 us at 4096: sample 6, cut 66, cut again 3, multiply 210,
 *     scaled16      21.5   70.8    306   1984      tf32 3, each by itself; the clock falls under load
 *     cuBLAS TF32   12.5   52.4    379   3215
 *
 * The limit: before the first multiplication 4 bytes of each number are read and 2 written, at memory's speed. Elements
 * fail if the large numbers of row and column meet only zeros of each other, or if both span more than 2^26 in opposite
 * order: at 4096, 1250 us if nearly all fail. */
#include "scaled16_cut.cuh"
#include "tf32.cuh"

#define SCALED_K     64          /* k of a stage: 128 bytes, one slab row */
#define SCALED_PART  (16 * 128)  /* bytes of 16 rows of 32 sums */
#define FAILS_BELOW  64.f        /* a smaller sum, per tiny number of its lines, has failed */
#define FAILED       0x7fc0fa11u /* as a float: a NaN that arithmetic does not make */
#define NARROW_SHIFT 60          /* largest shift of two lines with which scaled sums stay normal float32 numbers */

/* The operands, and what the workspace holds. */
struct scaled_plan {
    split_pair pair;
    uint32_t *again;    /* must lines be cut again? The first of `words` words that the sample zeroes */
    tf32_wanted failed; /* the elements that are left to tf32: the other words */
    int64_t words;
    uint8_t *retry_workspace; /* for slices, later for operands that tf32 packs */
    size_t bytes;             /* of the workspace */
};

/* ---- multiply ---------------------------------------------------------------------------------------------------- */

/* What the kernel works on. */
struct scaled_work {
    matmul_args args;
    const split_line *a_line, *b_line; /* [matrices][m], [matrices][n] */
    uint32_t *failed;                  /* tf32_wanted */
    bool copies;                       /* does the copy engine store C? */
};

/* What storing needs of a line, packed into a word: the exponent by which the line was scaled, and a power of two that
 * is no less than the number of its tiny numbers. A line that does not exist is taken for a line of ones. */
struct scaled_word {
    int word;

    __device__ scaled_word(const split_line *line, int64_t number, int64_t lines) {
        const split_line known = number < lines ? line_load(line + number) : split_line{0, 0x3f800000, 0, 0};
        const uint32_t tiny = known.high ? known.again : known.tiny;
        word = scaled_shift(known, true) + 256 | (tiny ? 33 - __clz(int(tiny - 1)) : 0) << 16;
    }
    __device__ explicit scaled_word(int word_) : word(word_) {}
    __device__ int shift() const { return (word & 0xffff) - 256; }
    __device__ float tiny() const { return word >> 16 ? power_of_two((word >> 16) - 1) : 0; }
};

/* A warp has 16 rows of a tile and handles its sums in parts of 32 columns, 16 sums per thread, in the layout of
 * wgmma.cuh. Each thread holds the words of its two rows and of one column of a part; this fetches the word of sum i's
 * column from the thread that holds it. */
template <typename T> __device__ inline T scaled_of(T x, int i) {
    return __shfl_sync(~0u, x, i / 4 * 8 + int(threadIdx.x) % 4 * 2 + i % 2);
}

/* A thread's lines: its rows, and a column of each part. */
template <int PARTS> struct scaled_lines {
    int row[2], column[PARTS];

    __device__ scaled_lines(const scaled_work &work, const tile_position &tile) {
        const matmul_args &args = work.args;
        const split_line *const a_line = work.a_line + (args.a_batch_stride ? tile.batch * args.m : 0);
        const split_line *const b_line = work.b_line + (args.b_batch_stride ? tile.batch * args.n : 0);
        const int lane = int(threadIdx.x) % 32;
#pragma unroll
        for (int i = 0; i < 2; i++) row[i] = scaled_word(a_line, tile.row + lane / 4 + i * 8, args.m).word;
#pragma unroll
        for (int p = 0; p < PARTS; p++) column[p] = scaled_word(b_line, tile.column + p * 32 + lane, args.n).word;
    }
    /* An upper bound of the number of tiny numbers in the lines of any element of the warp. */
    __device__ float tiny() const {
        int largest = column[0];
        for (const int word : column) largest = max(largest, word);
        return scaled_word(__reduce_max_sync(~0u, max(row[0], row[1]))).tiny() +
               scaled_word(__reduce_max_sync(~0u, largest)).tiny();
    }
    /* Are all powers so near to 1 that no product of two leaves float's range? */
    __device__ bool narrow() const {
        int widest = max(abs(scaled_word(row[0]).shift()), abs(scaled_word(row[1]).shift()));
        for (const int word : column) widest = max(widest, abs(scaled_word(word).shift()));
        return __all_sync(~0u, widest <= NARROW_SHIFT);
    }
};

/* May any of the warp's sums of the part have failed, if no element's lines have more than `tiny` tiny numbers? */
__device__ inline bool scaled_low(float tiny, const float *sum) {
    if (tiny == 0) return false;
    bool low = false;
#pragma unroll
    for (int i = 0; i < 16; i++) low |= !(fabsf(sum[i]) >= FAILS_BELOW * tiny);
    return __any_sync(~0u, low);
}

/* Records which sums have failed, and returns a bit for each; the first sum is C[m][n]. It is rarely called, so its
 * sums pass through memory, and the rest of the kernel keeps its registers. */
__device__ inline uint32_t scaled_test(const scaled_work &work, const int (&row)[2], int column, int64_t batch,
                                       int64_t m, int64_t n, const float *sum) {
    float kept[16];
    uint32_t failed = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) kept[i] = sum[i];
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        const float tiny = scaled_word(i & 2 ? row[1] : row[0]).tiny() + scaled_word(scaled_of(column, i)).tiny();
        const int64_t y = m + i / 2 % 2 * 8, x = n + i / 4 * 8 + i % 2;
        if (y >= work.args.m || x >= work.args.n || tiny == 0 || fabsf(kept[i]) >= FAILS_BELOW * tiny) continue;
        const int64_t at = (batch * work.args.m + y) * work.args.n + x;
        atomicOr(work.failed + 1 + at / 32, 1u << at % 32);
        *work.failed = 1;
        failed |= 1u << i;
    }
    return failed;
}

/* Undoes the scaling of a part's sums. `narrow`: scaled_lines::narrow(), which permits single factors. */
__device__ inline void scaled_back(const int (&row)[2], int column, bool narrow, float *sum) {
    const int of_row[] = {-scaled_word(row[0]).shift(), -scaled_word(row[1]).shift()};
    const int of_column = -scaled_word(column).shift();
    if (narrow) {
        const float power[] = {power_of_two(of_row[0]), power_of_two(of_row[1])}, along = power_of_two(of_column);
#pragma unroll
        for (int i = 0; i < 16; i += i % 2 ? 3 : 1) {
            const float both = scaled_of(along, i);
            sum[i] *= power[0] * both, sum[i + 2] *= power[1] * both;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 16; i += i % 2 ? 3 : 1) {
        const int both = scaled_of(of_column, i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int shift = of_row[half] + both;
            sum[i + half * 2] = scaled_by(scaled_by(sum[i + half * 2], shift / 2), shift - shift / 2);
        }
    }
}

/* The address of a part's element in shared memory: in rows of 128 bytes, swizzled (tma.cuh). */
__device__ inline float *scaled_at(uint8_t *part, int row, int column) {
    return reinterpret_cast<float *>(part + row * 128 + (column / 4 ^ row % 8) * 16 + column % 4 * 4);
}

/* Stores the elements of a part one by one, except those that failed. The part begins at C[m][n]. */
__device__ inline void scaled_store_singly(const matmul_args &args, int64_t batch, int64_t m, int64_t n,
                                           uint8_t *part) {
    n += threadIdx.x % 32;
#pragma unroll 4
    for (int row = 0; row < 16; row++) {
        const float sum = *scaled_at(part, row, int(threadIdx.x) % 32);
        if (m + row < args.m && n < args.n && __float_as_uint(sum) != FAILED)
            matmul_store<float>(args, (batch * args.m + m + row) * args.n + n, sum);
    }
}

/* Tests a warp's sums, scales them back and stores them, part by part through its two buffers in shared memory: by the
 * copy engine, or one by one. No warp waits for another. */
template <int SUMS>
__device__ inline void scaled_store(const scaled_work &work, const tile_position &tile,
                                    const scaled_lines<SUMS / 16> &lines, const CUtensorMap *c_map,
                                    uint8_t (&staging)[2][SCALED_PART], float (&sum)[SUMS]) {
    const matmul_args &args = work.args;
    const int down = int(threadIdx.x) % 32 / 4, along = int(threadIdx.x) % 4 * 2;
    const float tiny = lines.tiny();
    const bool narrow = lines.narrow();
#pragma unroll
    for (int p = 0; p < SUMS / 16; p++) {
        float *const part_sums = &sum[p * 16];
        const int64_t first = tile.column + p * 32;
        uint32_t failed = 0;
        if (scaled_low(tiny, part_sums))
            failed =
                scaled_test(work, lines.row, lines.column[p], tile.batch, tile.row + down, first + along, part_sums);
        scaled_back(lines.row, lines.column[p], narrow, part_sums);
        if (work.copies && elect_one()) tma_store_wait<1>();
        __syncwarp();
        uint8_t *const part = staging[p % 2];
#pragma unroll
        for (int i = 0; i < 16; i += 2) {
            float2 pair = make_float2(failed >> i & 1 ? __uint_as_float(FAILED) : part_sums[i],
                                      failed >> (i + 1) & 1 ? __uint_as_float(FAILED) : part_sums[i + 1]);
            if (work.copies && args.alpha != 1)
                pair = make_float2(float(args.alpha * pair.x), float(args.alpha * pair.y));
            *reinterpret_cast<float2 *>(scaled_at(part, down + i / 2 % 2 * 8, i / 4 * 8 + along)) = pair;
        }
        tma_store_fence();
        __syncwarp();
        if (!work.copies) {
            scaled_store_singly(args, tile.batch, tile.row, first, part);
        } else if (elect_one()) {
            if (tile.row < args.m && first < args.n) tma_store(c_map, part, int(first), int(tile.row), int(tile.batch));
            tma_store_commit();
        }
    }
}

/* A block's shared memory: the frame's (wgmma.cuh), and for each consumer warp two buffers for parts of sums. */
template <int TILE_N> struct scaled_shared : wgmma_shared<wgmma_stage<1, TILE_N / 64>, TILE_N == 256 ? 4 : 6> {
    static constexpr int STAGES = TILE_N == 256 ? 4 : 6;
    alignas(1024) uint8_t staging[2 * WARPGROUP / 32][2][SCALED_PART];
};

/* A consumer multiplies its 64 rows of each tile, and stores the sums. A_MN, B_MN: is A, is B MN-major? */
template <int TILE_N, bool A_MN, bool B_MN>
__device__ inline void scaled_consume(const scaled_work &work, const CUtensorMap *c_map, scaled_shared<TILE_N> &shared,
                                      int consumer, int64_t tiles) {
    const int warp = int(threadIdx.x) / 32 - WARPGROUP / 32; /* among both consumers' */
    ring_position<scaled_shared<TILE_N>::STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        tile_position tile = wgmma_tile(work.args, TILE_N, number);
        tile.row += warp * 16;
        const scaled_lines<TILE_N / 32> lines(work, tile); /* while copies are on their way */
        float sum[TILE_N / 2];
#pragma unroll
        for (float &value : sum) value = 0;
        int reading = -1; /* the stage that pending instructions read */
        for (int64_t k = 0; k < work.args.k; k += SCALED_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const auto &stage = shared.stage[at.stage];
            const uint64_t a = wgmma_operand(stage.a[0][consumer]), b = wgmma_operand(stage.b[0][0]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < SCALED_K / 16; i++)
                wgmma<__half, A_MN, B_MN>(sum, a + i * wgmma_step<A_MN>, b + i * wgmma_step<B_MN>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) wgmma_release(shared.ring, reading);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading);
        wgmma_pin(sum);
        scaled_store(work, tile, lines, c_map, shared.staging[warp], sum);
    }
    if (work.copies && elect_one()) tma_store_wait<0>();
}

/* Multiplies the scaled operands. `tiles`: of the product. */
template <int TILE_N, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_scaled_kernel(const __grid_constant__ scaled_work work, const __grid_constant__ CUtensorMap a_map,
                         const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap c_map,
                         int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    scaled_shared<TILE_N> &shared = *reinterpret_cast<scaled_shared<TILE_N> *>(memory);
    launch_next();
    wgmma_roles(
        shared.ring,
        [&] {
            launch_wait();
            ring_position<scaled_shared<TILE_N>::STAGES> at;
            wgmma_walk(tiles, [&](int64_t number) {
                wgmma_produce<SCALED_K, A_MN, B_MN>(work.args, &a_map, &b_map, shared, at, number);
            });
        },
        [&](int consumer) {
            launch_wait();
            scaled_consume<TILE_N, A_MN, B_MN>(work, &c_map, shared, consumer, tiles);
        });
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* Describes the operands, and divides the workspace. */
static scaled_plan scaled_plan_make(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    split_operand a = split_describe(args.a, args.transpose_a, true, args.m, args.k,
                                     args.a_batch_stride ? args.batch : 1, args.a_batch_stride);
    split_operand b = split_describe(args.b, args.transpose_b, false, args.n, args.k,
                                     args.b_batch_stride ? args.batch : 1, args.b_batch_stride);
    scaled_plan plan = {};
    size_t end = 0;
    const auto allocate = [&](size_t bytes) {
        uint8_t *const address = static_cast<uint8_t *>(launch->workspace) + end;
        end += (bytes + 255) / 256 * 256;
        return address;
    };
    plan.words = 2 + ceil_div(args.batch * args.m * args.n, 32);
    plan.again = reinterpret_cast<uint32_t *>(allocate(size_t(plan.words) * sizeof(uint32_t)));
    plan.failed = {plan.again + 1};
    for (split_operand *o : {&a, &b})
        o->line = reinterpret_cast<split_line *>(allocate(size_t(o->count * o->lines()) * sizeof(split_line)));
    const size_t begin = end;
    for (split_operand *o : {&a, &b}) o->slice = allocate(size_t(o->count * o->rows * o->pitch) * sizeof(__half));
    plan.retry_workspace = static_cast<uint8_t *>(launch->workspace) + begin;
    plan.bytes = std::max(end, begin + tf32_workspace(launch));
    plan.pair = {{a, b}};
    return plan;
}

struct scaled_config {
    int columns;
    double seconds;
};

#define LAUNCHES_SECONDS 12e-6  /* for starting all kernels of a launch */
#define CUT_BYTES        6      /* of memory traffic, to cut a number */
#define CUT_BANDWIDTH    2.6e12 /* bytes per second */

/* Chooses the number of columns of a tile that the job names, else that with the shortest predicted time: of starting
 * the kernels, cutting, and rounds of tiles. */
static scaled_config scaled_choose(const struct launch *launch) {
    static const struct {
        int columns;
        double step, rest; /* seconds for SCALED_K of k; for the rest of a tile */
    } costs[] = {{256, 0.66e-6, 4.5e-6}, {128, 0.40e-6, 2.5e-6}};
    const matmul_args &args = launch->args.matmul;
    const double elements = double((args.a_batch_stride ? args.batch : 1) * args.m * args.k +
                                   (args.b_batch_stride ? args.batch : 1) * args.n * args.k);
    scaled_config best = {};
    for (const auto &cost : costs) {
        const int64_t rounds =
            ceil_div(wgmma_tiles(args, cost.columns) * WGMMA_CLUSTER, std::max(1, launch->multiprocessors));
        const double seconds = LAUNCHES_SECONDS + CUT_BYTES * elements / CUT_BANDWIDTH +
                               double(rounds) * (double(ceil_div(args.k, SCALED_K)) * cost.step + cost.rest);
        if (launch->choice[0] && launch->choice[0] != 1 + (cost.columns == 128)) continue;
        if (!best.columns || seconds < best.seconds) best = {cost.columns, seconds};
    }
    return best;
}

static double matmul_scaled16_seconds(const struct launch *launch) {
    return scaled_choose(launch).seconds;
}

static size_t matmul_scaled16_workspace(const struct launch *launch) {
    return scaled_plan_make(launch).bytes;
}

static const char *matmul_scaled16_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.batch, args.m, args.n, args.k});
}

/* Describes a cut operand to the copy engine. Returns 0 or a cudaError_t. */
static int scaled_encode(CUtensorMap *map, const split_operand &o) {
    return tma_encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, sizeof(__half),
                      {o.slice, o.count, o.rows, o.columns, o.pitch, o.rows * o.pitch}, 64);
}

/* Launches the multiplication by tiles of TILE_N columns. Returns 0 or a cudaError_t. */
template <int TILE_N> static int scaled_multiply(const struct launch *launch, const scaled_plan &plan) {
    const matmul_args &args = launch->args.matmul;
    const split_operand &a = plan.pair.operand[0], &b = plan.pair.operand[1];
    const bool copies = args.first && args.last && args.n % 4 == 0, a_mn = args.transpose_a, b_mn = !args.transpose_b;
    CUtensorMap a_map = {}, b_map = {}, c_map = {};
    int error = args.k > 0 ? scaled_encode(&a_map, a) : 0;
    if (!error && args.k > 0) error = scaled_encode(&b_map, b);
    if (!error && copies)
        error = tma_encode(&c_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, sizeof(float),
                           {args.c, args.batch, args.m, args.n, args.n, args.m * args.n}, 16);
    if (error) return error;
    const auto kernel =
        a_mn   ? b_mn ? matmul_scaled_kernel<TILE_N, true, true> : matmul_scaled_kernel<TILE_N, true, false>
          : b_mn ? matmul_scaled_kernel<TILE_N, false, true>
               : matmul_scaled_kernel<TILE_N, false, false>;
    return wgmma_start(launch, wgmma_tiles(args, TILE_N), true, sizeof(scaled_shared<TILE_N>), kernel,
                       scaled_work{args, a.line, b.line, plan.again + 1, copies}, a_map, b_map, c_map);
}

/* Starts the launches that the head of this file lists. */
static int matmul_scaled16_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.batch * args.m * args.n == 0) return 0;
    const scaled_plan plan = scaled_plan_make(launch);
    const cudaStream_t stream = stream_of(launch);
    int64_t groups = 1, patches = 0;
    for (const split_operand &o : plan.pair.operand) {
        groups = std::max(groups, o.count * ceil_div(o.lines(), SAMPLE_LINES));
        patches = std::max(patches, split_patches(o));
    }
    const auto both = [](int64_t blocks) {
        dim3 grid = grid_of(blocks);
        grid.z = 2;
        return grid;
    };
    int error = launch_early(scaled_sample_kernel, both(groups), 8 * SAMPLE_LINES, 0, 1, stream, plan.pair, plan.again,
                             plan.words);
    if (!error && patches > 0)
        error =
            launch_early(scaled_cut_kernel<false>, both(patches), PATCH_THREADS, 0, 1, stream, plan.pair, plan.again);
    if (!error && patches > 0)
        error = launch_early(scaled_cut_kernel<true>, both(std::min(patches, int64_t(2) * launch->multiprocessors)),
                             PATCH_THREADS, 0, 1, stream, plan.pair, plan.again);
    if (error) return error;
    error =
        scaled_choose(launch).columns == 256 ? scaled_multiply<256>(launch, plan) : scaled_multiply<128>(launch, plan);
    struct launch rest = *launch;
    rest.workspace = plan.retry_workspace;
    return error ? error : tf32_start<true>(&rest, plan.failed);
}

KERNEL(matmul_scaled16) = {
    .name = "scaled16",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float32 at TF32's accuracy from float16 tensor cores: lines scaled by powers of two, one product",
    .dtypes = DTYPE_BIT(FLOAT32),
    .edges = {{128, 256, 64, PATCH_ROWS, 8}, {PATCH_COLUMNS, 128, 32, 8, 4}, {SCALED_K, SAMPLE, 4 * SCALED_K, 8}},
    .accuracy = ACCURACY_TF32,
    .speed = 11,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "columns",
                    .values = {"auto", "256", "128"},
                    .help = "columns of a block's tile; auto: what a model predicts to be fastest"}},
    .workspace = matmul_scaled16_workspace,
    .refuses = matmul_scaled16_refuses,
    .seconds = matmul_scaled16_seconds,
    .launch = matmul_scaled16_launch,
};
