/* residues.cu - float64 from Hopper's tensor cores for 8-bit integers: products modulo 15 small numbers, put together
 * by the Chinese remainder theorem (Ozaki scheme II).
 *
 *     A, B        measured, scaled line by line, rounded to integers of up to 58 bits      residues_cut.cuh
 *     A', B'      taken modulo 256, 255, 253 .. 197: 15 pairs of matrices of int8
 *     tensor      15 products, int32 exact for k up to 65536, each taken modulo its
 *     cores       number while it is still in registers: one byte per element
 *     C'          < 2^116: the integer that has these 15 residues, exact                   residues_join.cuh
 *     C           C' scaled back: one rounding
 *
 * The only error is that of rounding A and B to integers, before anything is multiplied: it does not grow with the
 * number of additions as float64's does. Each element's error bound is proven by its two lines or, if they do not
 * suffice, by another product, of 7 bits, which is computed only then. So numbers that do not fit a fixed point are
 * found: an element whose bound is not proven has failed, and is computed again by dmma.cu, whose launch comes last and
 * returns at once if nothing failed. No launch waits for the host.
 *
 * The tensor cores' pipeline is that of wgmma.cuh: tiles of 128 x 256, pairs of blocks that share B, 128 of k per
 * stage, which here are 128 bytes too. 8-bit types are read along k alone, so both operands are cut into lines of
 * adjacent k.
 *
 * A rectangle of at most 8192 x 8192 of C is computed at a time, so that the workspace is bounded: 15 bytes for each of
 * its elements, and 15 for each number of its lines. Products with a k beyond 65536 or with fewer than 32 rows or
 * columns, and those that dmma does sooner, are handed over to dmma.
 *
 * Measured on an H100 that held its limit of 700 W; milliseconds, and units in the last place of N(0,1):
 *
 *                     cuBLAS    dmma    residues         Frobenius error at k     cuBLAS    dmma    residues
 *     2048 cubed       0.290   0.306    0.547            1024                       9.4      9.4      0.73
 *     4096 cubed       2.50    2.59     2.60             8192                       9.6     19.4      1.8
 *     8192 cubed      19.5    21.2     15.2
 *
 * The limit: at 4096 a third of the time goes to cutting and joining, besides the products.
 *
 * Sources: Ozaki, Uchino, Imamura, arXiv 2504.08009 (scheme II); its guard by lines, and the bound by a product of few
 * bits, are our own. */
#include "residues_join.cuh"
#include <iterator>

DECLARE_KERNEL(matmul_dmma); /* takes products that are not worth cutting, and elements that failed */

#define STEP_K          128 /* k of a stage: one slab row */
#define STAGES          4
#define PANEL           int64_t(8192)      /* most rows or columns of a rectangle of C */
#define MIN_PANEL_LINES int64_t(256)       /* fewest rows or columns of a rectangle, unless C has fewer */
#define PANEL_BYTES     (int64_t(1) << 31) /* of an operand's residues for a rectangle, if MIN_PANEL_LINES permits */
#define MIN_LINES       int64_t(32)        /* fewest rows and columns of a product; dmma does narrower ones */

using residues_stage = wgmma_stage<1, UNIT_COLUMNS / 64>;
using residues_shared = wgmma_shared<residues_stage, STAGES>;

/* ---- the tensor cores -------------------------------------------------------------------------------------------- */

/* A consumer multiplies its 64 rows of each tile, and stores their sums as bytes. */
__device__ inline void residues_consume(const residues_rectangle &rectangle, const matmul_args &args,
                                        const residues_divisors &divisors, residues_shared &shared, int consumer,
                                        int64_t tiles) {
    ring_position<STAGES> at;
    wgmma_walk(tiles, [&](int64_t number) {
        int sum[128];
#pragma unroll
        for (int &value : sum) value = 0;
        int reading = -1; /* the stage that pending instructions read */
        for (int64_t k = 0; k < args.k; k += STEP_K, at.advance()) {
            mbarrier_wait(&shared.ring.full[at.stage], at.phase);
            const residues_stage &stage = shared.stage[at.stage];
            const uint64_t a = wgmma_operand(stage.a[0][consumer]), b = wgmma_operand(stage.b[0][0]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < STEP_K / 32; i++)
                wgmma_bytes(sum, a + i * wgmma_step<false>, b + i * wgmma_step<false>);
            wgmma_commit();
            wgmma_wait<1>();
            if (reading >= 0) wgmma_release(shared.ring, reading);
            reading = at.stage;
        }
        wgmma_wait<0>();
        if (reading >= 0) wgmma_release(shared.ring, reading);
#pragma unroll
        for (int &value : sum) asm volatile("" : "+r"(value)::"memory");
        const tile_position tile = wgmma_tile(args, UNIT_COLUMNS, number);
        const int64_t unit = (tile.row / UNIT_ROWS + consumer) * rectangle.unit_columns() + tile.column / UNIT_COLUMNS;
        residues_keep(rectangle, divisors, int(tile.batch), unit, sum);
    });
}

/* Multiplies the residues: `args` is a stack of PLANES products. The last one, of highest bits, is left out if no
 * element needs it. */
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_residues_kernel(const __grid_constant__ residues_rectangle rectangle,
                           const __grid_constant__ matmul_args args, const __grid_constant__ residues_divisors divisors,
                           const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                           int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];
    residues_shared &shared = *reinterpret_cast<residues_shared *>(memory);
    launch_next();
    launch_wait();
    const int64_t all = residues_bounded(rectangle.words) ? tiles : tiles / PLANES * MODULI;
    wgmma_roles(
        shared.ring,
        [&] {
            ring_position<STAGES> at;
            wgmma_walk(all, [&](int64_t number) {
                wgmma_produce<STEP_K, false, false>(args, &a_map, &b_map, shared, at, number);
            });
        },
        [&](int consumer) { residues_consume(rectangle, args, divisors, shared, consumer, all); });
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* The rows or columns of a rectangle, at most: the lines of an operand that are cut at a time. */
static int64_t residues_lines(int64_t pitch) {
    return std::max(MIN_PANEL_LINES, std::min(PANEL, PANEL_BYTES / (PLANES * pitch) / 256 * 256));
}

/* The bytes of a line of residues: k, a multiple of 16. */
static int64_t residues_pitch(const matmul_args &args) {
    return ceil_div(std::clamp(args.k, int64_t(1), int64_t(MAX_K)), 16) * 16;
}

/* What the workspace holds. First comes dmma's workspace, which begins with its flags. Then come the words and the
 * failure flags, which start as zeros; the lines; the residues and sums, in whose memory dmma later leaves its product.
 * Sizes do not shrink when a dimension grows. */
struct residues_plan {
    residues_pair pair;
    residues_rectangle rectangle;
    double *mended; /* [m][n]: dmma's product, in the memory of the residues and sums */
    size_t to_zero; /* bytes from rectangle.words on that start as zeros */
    size_t bytes;   /* of the workspace */
};

/* Divides the workspace. */
static residues_plan residues_make_plan(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    size_t end = kernel_workspace(&matmul_dmma, launch);
    const auto allocate = [&](int64_t bytes) {
        end = (end + 255) / 256 * 256 + size_t(bytes);
        return static_cast<uint8_t *>(launch->workspace) + (end - size_t(bytes));
    };
    residues_plan plan = {};
    plan.rectangle.words = reinterpret_cast<residues_words *>(allocate(256));
    plan.rectangle.failed = allocate(args.m * args.n);
    plan.to_zero = size_t(256 + args.m * args.n);
    const int64_t pitch = residues_pitch(args), max_lines[2] = {std::min(args.m, PANEL), std::min(args.n, PANEL)};
    for (int i = 0; i < 2; i++) {
        plan.pair.operand[i].line =
            reinterpret_cast<residues_line *>(allocate(max_lines[i] * int64_t(sizeof(residues_line))));
        plan.pair.operand[i].cut_pitch = pitch;
    }
    plan.mended = reinterpret_cast<double *>(allocate(0));
    const size_t begin = end;
    for (int i = 0; i < 2; i++)
        plan.pair.operand[i].cut =
            allocate(PLANES * std::min(max_lines[i] * pitch, std::max(PANEL_BYTES / PLANES, MIN_PANEL_LINES * pitch)));
    plan.rectangle.rows = max_lines[0], plan.rectangle.columns = max_lines[1];
    plan.rectangle.sums = reinterpret_cast<uint4 *>(
        allocate(PLANES * plan.rectangle.units() * UNIT_VECTORS * WARPGROUP * int64_t(sizeof(uint4))));
    plan.bytes = std::max(end, begin + size_t(args.m * args.n) * sizeof(double));
    return plan;
}

/* Rates of an H100 that holds its power limit, rounded so that no prediction is shorter than the measured time. */
#define BYTE_OPS     1.25e15 /* per second, of 132 multiprocessors */
#define MEMORY       2.0e12  /* bytes per second that cutting and joining move */
#define OWN_LAUNCHES 40e-6   /* seconds to start the launches of one rectangle */

/* The predicted time of this kernel's own launches. */
static double residues_own_seconds(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t lines = residues_lines(residues_pitch(args));
    const double m = double(ceil_div(args.m, 256) * 256), n = double(ceil_div(args.n, 256) * 256), k = double(args.k);
    const double downs = double(ceil_div(args.m, lines)), acrosses = double(ceil_div(args.n, lines));
    const double operations = 2 * MODULI * m * n * k * 132 / std::max(1, launch->multiprocessors);
    const double bytes = (16 + PLANES) * k * (n + m * acrosses) + (2 * MODULI + 8) * m * n;
    return double(args.batch) * (downs * acrosses * OWN_LAUNCHES + operations / BYTE_OPS + bytes / MEMORY);
}

/* The launch for dmma, with its default parameters. */
static struct launch residues_other(const struct launch *launch) {
    struct launch other = *launch;
    std::fill(std::begin(other.choice), std::end(other.choice), 0);
    return other;
}

/* Is the product left to dmma? Always if k or the number of lines is out of range; unless the job forbids it, also if
 * dmma is faster. */
static bool residues_hands_over(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.k > MAX_K || args.k == 0 || std::min(args.m, args.n) < MIN_LINES) return true;
    const struct launch other = residues_other(launch);
    return launch->choice[0] == 0 && matmul_dmma.seconds(&other) < residues_own_seconds(launch);
}

static double matmul_residues_seconds(const struct launch *launch) {
    const struct launch other = residues_other(launch);
    return residues_hands_over(launch) ? matmul_dmma.seconds(&other) : residues_own_seconds(launch);
}

static size_t matmul_residues_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (std::min(args.m, args.n) < MIN_LINES) return kernel_workspace(&matmul_dmma, launch);
    return residues_make_plan(launch).bytes;
}

static const char *matmul_residues_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return wgmma_refuses({args.m, args.n, args.k});
}

/* kernel->way: that of `dmma`, which computes all, or else the elements that failed, matrix by matrix. The last bit
 * tells which. */
static uint64_t matmul_residues_way(const struct launch *launch) {
    struct launch other = residues_other(launch);
    if (residues_hands_over(launch)) return matmul_dmma.way(&other) << 1;
    other.args.matmul.batch = 1;
    return matmul_dmma.way(&other) << 1 | 1;
}

/* Describes `lines` lines of an operand, from `first` on; `size`: the number of all its lines. */
static void residues_describe(residues_operand *o, const void *x, bool k_adjacent, int64_t size, int64_t first,
                              int64_t lines, int64_t k) {
    o->k_adjacent = k_adjacent;
    o->lines = lines;
    o->k = k;
    o->pitch = k_adjacent ? k : size;
    o->x = static_cast<const double *>(x) + first * (k_adjacent ? k : 1);
    o->pairs = uintptr_t(o->x) % 16 == 0 && o->pitch % 2 == 0;
}

/* A grid for `count` operands, with the blocks of the larger one in x. */
template <typename BLOCKS> static dim3 residues_grid(const residues_pair &pair, int count, BLOCKS blocks_of) {
    const int64_t one = blocks_of(pair.operand[0]), other = count > 1 ? blocks_of(pair.operand[1]) : 0;
    dim3 grid = grid_of(std::max(one, other));
    grid.z = unsigned(count);
    return grid;
}

/* Measures and cuts both operands, or A alone: B is cut already. */
static int residues_prepare(const residues_pair &pair, int count, residues_words *words, cudaStream_t stream) {
    using operand = residues_operand;
    int error = launch_early(residues_measure_kernel,
                             residues_grid(pair, count, [](const operand &o) { return ceil_div(o.lines, 32); }),
                             32 * MEASURE_WARPS, 0, 1, stream, pair);
    const auto patches = [](const operand &o) { return ceil_div(o.lines, CUT_LINES) * ceil_div(o.k, CUT_K); };
    if (!error)
        error = launch_early(residues_cut_kernel, residues_grid(pair, count, patches), CUT_THREADS, 0, 1, stream, pair);
    if (error) return error;
    return launch_early(residues_judge_kernel,
                        residues_grid(pair, count, [](const operand &o) { return ceil_div(o.lines, 256); }), 256, 0, 1,
                        stream, pair, words);
}

/* Describes an operand's residues to the copy engine. Returns 0 or a cudaError_t. */
static int residues_encode(CUtensorMap *map, const residues_operand &o) {
    return tma_encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,
                      {o.cut, PLANES, o.lines, o.k, o.cut_pitch, o.lines * o.cut_pitch}, 64);
}

/* Multiplies a rectangle of C whose lines are cut, and stores it. The PLANES pairs of int8 matrices are one stack; its
 * strides only have to be non-zero, so that each pair has matrices of its own, which the maps locate. */
static int residues_multiply(const struct launch *launch, const residues_plan &plan) {
    const residues_rectangle &rectangle = plan.rectangle;
    CUtensorMap a_map = {}, b_map = {};
    int error = residues_encode(&a_map, plan.pair.operand[0]);
    if (!error) error = residues_encode(&b_map, plan.pair.operand[1]);
    if (error) return error;
    constexpr residues_table table = residues_make_table();
    residues_divisors divisors = {};
    for (int p = 0; p < MODULI; p++)
        divisors.plane[p] = {table.modulus[p].p, table.modulus[p].of_sum, table.modulus[p].sum_start};
    matmul_args stack = rectangle.args;
    stack.batch = PLANES;
    stack.m = rectangle.rows;
    stack.n = rectangle.columns;
    stack.a_batch_stride = stack.b_batch_stride = 1;
    error = wgmma_start(launch, wgmma_tiles(stack, UNIT_COLUMNS), /* early */ true, sizeof(residues_shared),
                        matmul_residues_kernel, rectangle, stack, divisors, a_map, b_map);
    if (error) return error;
    return launch_early(residues_join_kernel, grid_of(rectangle.units()), WARPGROUP, 0, 1, stream_of(launch),
                        rectangle);
}

/* Computes the product of a launch of one matrix, rectangle by rectangle, and mends what failed. */
static int residues_matrix(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const cudaStream_t stream = stream_of(launch);
    residues_plan plan = residues_make_plan(launch);
    residues_rectangle &rectangle = plan.rectangle;
    int error = cudaMemsetAsync(rectangle.words, 0, plan.to_zero, stream);
    rectangle.args = args;
    rectangle.a_line = plan.pair.operand[0].line, rectangle.b_line = plan.pair.operand[1].line;
    const int64_t max_lines = residues_lines(residues_pitch(args));
    for (rectangle.column = 0; rectangle.column < args.n && !error; rectangle.column += max_lines) {
        rectangle.columns = std::min(max_lines, args.n - rectangle.column);
        residues_describe(&plan.pair.operand[1], args.b, args.transpose_b, args.n, rectangle.column, rectangle.columns,
                          args.k);
        for (rectangle.row = 0; rectangle.row < args.m && !error; rectangle.row += max_lines) {
            rectangle.rows = std::min(max_lines, args.m - rectangle.row);
            residues_describe(&plan.pair.operand[0], args.a, !args.transpose_a, args.m, rectangle.row, rectangle.rows,
                              args.k);
            error = residues_prepare(plan.pair, rectangle.row == 0 ? 2 : 1, rectangle.words, stream);
            if (!error) error = residues_multiply(launch, plan);
        }
    }
    if (error) return error;
    struct launch again = residues_other(launch);
    again.timed = false;
    again.wanted = &rectangle.words->failed;
    again.args.matmul.first = again.args.matmul.last = true;
    again.args.matmul.alpha = 1;
    again.args.matmul.c = again.args.matmul.partial = plan.mended;
    error = matmul_dmma.launch(&again);
    if (error) return error;
    const int64_t blocks = std::min(ceil_div(args.m * args.n, 256), int64_t(8) * launch->multiprocessors);
    return launch_early(residues_mend_kernel, grid_of(blocks), 256, 0, 1, stream, rectangle,
                        static_cast<const double *>(plan.mended));
}

/* kernel->launch: hands the launch over to `dmma`, or computes one matrix of the stack after the other. */
static int matmul_residues_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (residues_hands_over(launch)) {
        const struct launch other = residues_other(launch);
        return matmul_dmma.launch(&other);
    }
    if (args.batch * args.m * args.n == 0) return 0;
    struct launch one = *launch;
    matmul_args &each = one.args.matmul;
    each.batch = 1;
    int error = 0;
    for (int64_t b = 0; b < args.batch && !error; b++) {
        error = residues_matrix(&one);
        each.a = static_cast<const double *>(each.a) + args.a_batch_stride;
        each.b = static_cast<const double *>(each.b) + args.b_batch_stride;
        each.c = static_cast<double *>(each.c) + args.m * args.n;
        each.partial = static_cast<double *>(each.partial) + args.m * args.n;
    }
    return error;
}

KERNEL(matmul_residues) = {
    .name = "residues",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "float64 at float64's accuracy from int8 tensor cores: products modulo 15 numbers, joined exactly",
    .dtypes = DTYPE_BIT(FLOAT64),
    .edges = {{256, 64, CUT_LINES, 8}, {UNIT_COLUMNS, 32, 8, 2}, {STEP_K, DENSE_K, CUT_EACH, 2}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "hand_over", .values = {"yes", "no"}, .help = "hands over to dmma what it does sooner"}},
    .way = matmul_residues_way,
    .workspace = matmul_residues_workspace,
    .refuses = matmul_residues_refuses,
    .seconds = matmul_residues_seconds,
    .launch = matmul_residues_launch,
};
