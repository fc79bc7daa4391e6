/* skinny.cu - products with at most 16 rows or columns, a matrix by a vector and nearly so, at the rate of memory.
 *
 *         the large operand X, read once                        S, up to 16 lines, in shared memory
 *         k ->                                                  k ->
 *     l  +---------+---------+---------+---------+          +---------+---------+---------+---------+
 *     i  | warp 0  | warp 1  |   ...   | warp 7  |    x     |         |         |         |         |
 *     n  +---------+---------+---------+---------+          +---------+---------+---------+---------+
 *     e  | the next block's lines ...            |
 *     s       |         |         |         |
 *             +----+----+----+----+----+----+     C: the warps' sums, added in order
 *
 * Tiled variants fill tiles of 64 columns for a result that has one. Here each element of X is used at most 16 times,
 * so nothing but the reading of X counts: it goes from memory straight to registers, 16 bytes at a time, eight loads of
 * every thread in flight, each replaced as soon as its bytes are used. That is 64 KiB per multiprocessor, twice what
 * memory needs to stay busy. (If sums take most registers, one block per multiprocessor has 12 or 16 loads a
 * thread.) C' = B' A', so the large operand may be either one.
 *
 *     16-bit types             tensor cores; a vector as loaded is what their instruction takes     skinny_mma.cuh
 *     16-bit types, a vector   multiply-adds; two lines of S too, if X's lines are adjacent         skinny_fma.cuh
 *     float64, from 5 lines    tensor cores, likewise                                              skinny_dmma.cuh
 *     float32, float64         multiply-adds                                                       skinny_fma.cuh
 *
 * k is split over the warps of a block; if that makes too few blocks, over blocks: they leave their sums in the
 * workspace, and the last to arrive adds them in order, which saves a second launch. The more warps share their k, the
 * more blocks read the same of S from L2; so if S has many lines, warps stand side by side instead. The way with the
 * shortest predicted time is taken (time_of).
 *
 * Lines may begin anywhere, but loads are aligned. With P elements in 16 bytes, lines that are P apart (or, with lines
 * adjacent, k that are P apart) begin at the same distance from a boundary of 16 bytes. So a warp takes such lines or k
 * together, and S or the sums are shifted by that distance. The vectors that a line shares with its neighbours are
 * taken element by element.
 *
 * Measured on an H200 against cuBLAS, 1 to 16 rows by 7168 by 7168. Float32: 1.0 for one row, 1.5 to 1.9 for 2 to 8,
 * 1.2 to 1.3 for 16. Float64: 0.92 to 1.07 up to 3, 0.83 to 1.1 for 5 and 8, 0.62 to 0.74 for 16. 16-bit types: 0.82 to
 * 0.87 for one and two, 0.6 to 0.75 for 3 to 8, 0.4 to 0.6 for 16; with rows of odd width 1.8 to 2.6.
 *
 * The limit is memory; below 10 us, half is the launch, the first loads and the last addition. */
#include "skinny_dmma.cuh"
#include "skinny_fma.cuh"
#include <algorithm>
#include <cmath>

/* ---- which worker ------------------------------------------------------------------------------------------------ */

/* Which operand is X, and how it lies in memory (skinny.cuh: K_ADJACENT, ALIGNED); `small`: lines of S. */
struct skinny_form {
    bool x_is_a, k_adjacent, aligned;
    int64_t lines, small, x_stride;
};

/* The larger of A and B is X. Its lines are aligned if every row of it in memory is a whole number of vectors. */
static skinny_form form_of(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const bool x_is_a = args.m >= args.n, k_adjacent = x_is_a ? !args.transpose_a : args.transpose_b;
    const int64_t stride = x_is_a ? args.a_batch_stride : args.b_batch_stride, lines = std::max(args.m, args.n);
    const int64_t vector = int64_t(16 / dtype_size(launch->dtype)); /* elements of 16 bytes */
    return {.x_is_a = x_is_a,
            .k_adjacent = k_adjacent,
            .aligned = (k_adjacent ? args.k : lines) % vector == 0 && stride % vector == 0,
            .lines = lines,
            .small = std::min(args.m, args.n),
            .x_stride = stride};
}

/* Calls `f` with the type of the worker for up to COLUMNS lines of S: which of the four kinds multiplies. */
template <typename T, int COLUMNS, bool ALIGNED, typename F> static int with_columns(const skinny_form &form, F f) {
    constexpr int TILES = std::max(COLUMNS / 8, 1);
    if constexpr (sizeof(T) == 8 && COLUMNS > 4) {
        return form.k_adjacent ? f(type_is<skinny_dmma_k_adjacent<TILES, ALIGNED>>())
                               : f(type_is<skinny_dmma_lines_adjacent<TILES, ALIGNED>>());
    } else if constexpr (sizeof(T) == 2 && COLUMNS > 2) {
        return form.k_adjacent ? f(type_is<skinny_mma_k_adjacent<T, TILES, ALIGNED>>())
                               : f(type_is<skinny_mma_lines_adjacent<T, TILES, ALIGNED>>());
    } else {
        if (!form.k_adjacent) return f(type_is<skinny_fma_lines_adjacent<T, COLUMNS, ALIGNED>>());
        if constexpr (sizeof(T) == 2 && (COLUMNS > 1 || !ALIGNED))
            return f(type_is<skinny_mma_k_adjacent<T, TILES, ALIGNED>>());
        else
            return f(type_is<skinny_fma_k_adjacent<T, COLUMNS, ALIGNED>>());
    }
}

/* Calls `f` with the type of the worker: rounds the lines of S up to a number that workers are compiled for. */
template <typename T, bool ALIGNED, typename F> static int with_alignment(const skinny_form &form, F f) {
    if (form.small <= 1) return with_columns<T, 1, ALIGNED>(form, f);
    if (form.small <= 2) return with_columns<T, 2, ALIGNED>(form, f);
    if (form.small <= 4) return with_columns<T, 4, ALIGNED>(form, f);
    if (form.small <= 8) return with_columns<T, 8, ALIGNED>(form, f);
    return with_columns<T, 16, ALIGNED>(form, f);
}

/* Calls `f` with the type of the worker for a launch. */
template <typename F> static int with_worker(const struct launch *launch, F f) {
    const skinny_form form = form_of(launch);
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        return form.aligned ? with_alignment<T, true>(form, f) : with_alignment<T, false>(form, f);
    });
}

/* ---- how it is cut, and how long it takes ------------------------------------------------------------------------ */

/* The bytes of all operands and C. */
static double matmul_skinny_traffic(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return double(dtype_size(launch->dtype)) * double(args.batch) *
           (double(args.m) * double(args.k) + double(args.k) * double(args.n) + double(args.m) * double(args.n));
}

/* Should the launch begin before the previous one ends? That saves up to 0.9 us, but its blocks start as others end, so
 * each time on other multiprocessors. If X nearly fills L2, less of it is found there, presumably since both halves of
 * L2 then hold a copy of what was in one: a vector by 3072 x 3072 in float32 took 9.7 us and, early, 15.3. */
static bool begins_early(const struct launch *launch) {
    return matmul_skinny_traffic(launch) <= EARLY_BYTES;
}

/* Seconds, and rates of one multiprocessor, fitted to 3400 timings on an H200. */
#define STARTED    2.2e-6  /* the launch, and the first loads of its blocks */
#define EARLY      0.7e-6  /* saved by a launch that begins before the previous one has ended */
#define WAVE       0.64e-6 /* of each wave of blocks: what a block does besides reading and does not hide */
#define ADDING     6.2e9   /* sums per second that a block adds up at its end */
#define FOLLOWING  1e-6    /* more for a wave in a stack, whose short blocks do not hide the start of the next */
#define AT_ENDS    1.5e-8  /* more for each line whose ends are taken element by element */
#define STAGED     0.64e-6 /* each time that a block copies S to shared memory, */
#define STAGING    49e9    /* at this rate, bytes per second; */
#define PICKED     2.7     /* factor of STAGED if elements are copied one by one, */
#define PICKING    7.3     /* and of their time per byte */
#define GATHERED   0.95e-6 /* blocks that share a tile wait for each other, */
#define GATHERING  12.7e9  /* and the last reads the others' sums at this rate */
#define L2_BYTES   44e6    /* of all operands, up to which they are found in L2 */
#define FROM_L2    62e9
#define STREAMED   36.4e9 /* from memory: 4.8 TB/s over 132 */
#define ALONE      74e9   /* from memory, if few others read: all of its blocks' loads are in flight */
#define ALONE_L2   330e9  /* of L2 */
#define CLOCK      7.6e9  /* cycles per second of four schedulers */
#define NOT_HIDDEN 0.38   /* the share of the shorter of reading and multiplying that is not hidden */

/* The predicted time of a product that is cut in this way. Its blocks run in waves of `slots` blocks. A wave takes the
 * longer of reading and multiplying, NOT_HIDDEN of the shorter, and what a block does beside these: WAVE, staging S and
 * adding up. The last wave has the remaining blocks. Then blocks that share a tile gather its sums. */
template <typename W> static double time_of(const struct launch *launch, const skinny_work &work) {
    constexpr double size = sizeof(typename W::element);
    const double device = launch->multiprocessors, slots = W::RESIDENT * device;
    const double tiles = double(std::max<int64_t>(work.tiles, 1)), k = std::min(work.k, work.k_each);
    const double large = size * double(work.lines) / tiles * k, small = size * work.small * k, bytes = large + small;
    const double vectors = large / 512 * work.abreast * W::LINES / work.tile_lines; /* 512 bytes each, of a warp */
    const bool in_l2 = matmul_skinny_traffic(launch) <= L2_BYTES;

    /* The time of a wave of `blocks` blocks, without what is beside. */
    const auto wave_seconds = [&](double blocks) {
        const double reading = std::max(blocks * bytes / device / (in_l2 ? FROM_L2 : STREAMED),
                                        bytes * W::RESIDENT / (in_l2 ? ALONE_L2 : ALONE));
        const double multiplying = std::ceil(blocks / device) * vectors * W::CLOCKS / CLOCK;
        return std::max(reading, multiplying) + NOT_HIDDEN * std::min(reading, multiplying);
    };
    const bool copies_elements = size == 2 && !(W::K_ADJACENT && W::ALIGNED && work.small_k_adjacent);
    const double sums = work.tile_lines * work.small;
    const double ends =
        W::K_ADJACENT && !W::ALIGNED ? double(std::min<int64_t>(work.lines, work.tile_lines)) * AT_ENDS : 0;
    const double beside = WAVE + (launch->args.matmul.batch > 1 ? FOLLOWING + ends : 0) +
                          sums * std::min(work.parts, WARPS) / ADDING +
                          ceil_div(work.k_each, work.chunk) * STAGED * (copies_elements ? PICKED : 1) +
                          small / STAGING * (copies_elements ? PICKING : 1);
    const double blocks = tiles * double(launch->args.matmul.batch) * work.splits;
    const double full_waves = std::floor(blocks / slots), last_wave = blocks - full_waves * slots;
    double seconds = STARTED - (begins_early(launch) ? EARLY : 0) + full_waves * (wave_seconds(slots) + beside);
    if (last_wave > 0) seconds += wave_seconds(last_wave) + beside;
    if (work.splits > 1) seconds += GATHERED + work.splits * sums * std::max(size, 4.0) / GATHERING;
    return seconds;
}

/* An upper bound of tiles times splits if k is split. */
static int64_t max_blocks(const struct launch *launch) {
    return int64_t(MAX_BLOCK_RATIO) * 2 * launch->multiprocessors;
}

/* Cuts X's lines into tiles, for `abreast` units side by side. If lines are adjacent and unaligned, a tile's vectors
 * begin up to P - 1 lines before it, so P lines of the units' are not the tile's. */
template <typename W> static void cut_lines(skinny_work &work, int abreast) {
    work.abreast = abreast;
    work.parts = W::UNITS / abreast;
    work.tile_lines = abreast * W::LINES - (W::K_ADJACENT || W::ALIGNED ? 0 : W::P);
    work.tiles = ceil_div(ceil_div(work.lines, W::TOGETHER) * W::TOGETHER, work.tile_lines);
}

/* Sets the k that workers step through. If X is unaligned, it differs from k. With k adjacent, a line's first vector
 * may begin up to P - 1 elements before the line. With lines adjacent, a vector may reach P - 1 elements beyond its
 * row, so it must not begin in the operand's last rows, which have at least that many elements. */
template <typename W> static void set_walked_k(skinny_work &work) {
    if (!W::K_ADJACENT && !W::ALIGNED)
        work.last_rows = int(std::min<int64_t>(work.k, ceil_div(W::P - 1, std::max<int64_t>(work.lines, 1))));
    work.walked = work.k == 0 ? 0 : W::K_ADJACENT && !W::ALIGNED ? work.k + W::P - 1 : work.k - work.last_rows;
}

/* Splits the walked k over up to `splits` blocks, each with a whole number of steps of its units, and cuts a block's k
 * into chunks of which S fits into shared memory. The chunks are equal: a short last one would cost as much. */
template <typename W> static void split_k(skinny_work &work, int64_t splits) {
    const int64_t step = int64_t(work.parts) * W::STEP, walked = std::max(work.walked, 1);
    const int64_t k_each = ceil_div(ceil_div(walked, splits), step) * step;
    work.k_each = int(k_each);
    work.splits = int(ceil_div(walked, k_each));
    const int64_t bytes_of_a_k = int64_t(sizeof(typename W::element)) * std::max(W::rows(work.small), 1);
    const int64_t k_that_fits = STAGED_BYTES / bytes_of_a_k / step * step;
    const int64_t chunks = ceil_div(k_each, std::max(k_that_fits, step));
    work.chunk = int(ceil_div(ceil_div(k_each, chunks), step) * step);
}

/* The product cut for `abreast` units side by side, with k split over up to `splits` blocks. The workspace holds the
 * counters of all tiles, then the planes. */
template <typename W>
static skinny_work work_of(const struct launch *launch, const skinny_form &form, int abreast, int64_t splits) {
    const matmul_args &args = launch->args.matmul;
    skinny_work work = {.x = form.x_is_a ? args.a : args.b,
                        .s = form.x_is_a ? args.b : args.a,
                        .x_stride = form.x_stride,
                        .s_stride = form.x_is_a ? args.b_batch_stride : args.a_batch_stride,
                        .lines = form.lines,
                        .small = int(form.small),
                        .k = int(args.k),
                        .small_k_adjacent = form.x_is_a ? args.transpose_b : !args.transpose_a,
                        .small_last = form.x_is_a,
                        .counters = static_cast<unsigned *>(launch->workspace),
                        .planes = static_cast<unsigned *>(launch->workspace) + max_blocks(launch)};
    cut_lines<W>(work, abreast);
    set_walked_k<W>(work);
    split_k<W>(work, splits);
    return work;
}

/* The bytes of shared memory, which holds S, and at the end the sums. */
template <typename W> static size_t bytes_of(const skinny_work &work) {
    using T = typename W::element;
    const size_t staged = size_t(W::staged(work.chunk, W::rows(work.small))) * sizeof(T);
    return std::max(staged, size_t(WARPS) * W::SUMS * sizeof(accumulator<T>));
}

/* Returns the fastest way to cut the product, by time_of, and sets *seconds to its time. Tries all numbers of units
 * side by side, each without a split of k and with splits whose blocks fill the device once, twice and so on. */
template <typename W> static skinny_work plan_of(const struct launch *launch, double *seconds) {
    const skinny_form form = form_of(launch);
    const matmul_args &args = launch->args.matmul;
    skinny_work best = {};
    *seconds = INFINITY;
    for (int abreast = 1; abreast <= W::WIDEST; abreast *= 2)
        for (int full = 0; full <= MAX_BLOCK_RATIO; full++) {
            skinny_work work = work_of<W>(launch, form, abreast, 1);
            const int64_t tiles = std::max<int64_t>(work.tiles * args.batch, 1);
            const int64_t splits =
                std::min(full * int64_t(W::RESIDENT) * launch->multiprocessors / tiles, args.k / MIN_K);
            if (full > 0 && splits < 2) continue;
            if (splits > 1) work = work_of<W>(launch, form, abreast, splits);
            if (abreast < W::WIDEST && bytes_of<W>(work) > SHARED_BYTES) continue;
            const double time = time_of<W>(launch, work);
            if (time < *seconds) *seconds = time, best = work;
        }
    return best;
}

/* Products with 9 to 16 lines of float32 and float64 took 1.1 to 1.5 times as long as time_of predicts. */
#define MANY          8
#define MANY_SLOWDOWN 1.25

static double matmul_skinny_seconds(const struct launch *launch) {
    double seconds = 0;
    with_worker(launch, [&](auto worker) {
        plan_of<typename decltype(worker)::type>(launch, &seconds);
        return 0;
    });
    return seconds * (form_of(launch).small > MANY && dtype_size(launch->dtype) > 2 ? MANY_SLOWDOWN : 1);
}

/* A number of the order of additions: launches with the same number give the same bits. With k adjacent and lines that
 * begin anywhere, that order depends on where a line lies: the number then holds all sizes of the product. */
static uint64_t matmul_skinny_way(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const skinny_form form = form_of(launch);
    uint64_t way = 0;
    with_worker(launch, [&](auto worker) {
        using W = typename decltype(worker)::type;
        double seconds;
        const skinny_work work = plan_of<W>(launch, &seconds);
        /* Each number in bits of its own: k_each has up to 30, parts up to 7, COLUMNS up to 5, last_rows up to 4. */
        way = uint64_t(work.k_each) << 19 | uint64_t(work.last_rows) << 15 | uint64_t(W::COLUMNS) << 10 |
              uint64_t(work.parts) << 3 | uint64_t(form.x_is_a) << 2 | uint64_t(W::K_ADJACENT) << 1 | W::ALIGNED;
        if (W::K_ADJACENT && !W::ALIGNED)
            for (const int64_t extent : {args.batch, args.m, args.n, args.k})
                way = (way ^ uint64_t(extent)) * UINT64_C(0x9e3779b97f4a7c15), way ^= way >> 29;
        return 0;
    });
    return way;
}

/* The bytes of the counters and the planes: an upper bound that does not shrink when an extent grows. A piece of k is
 * at least MIN_K long, and each block leaves the sums of one tile. */
static size_t matmul_skinny_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.k < 2 * MIN_K) return 0; /* k is not split */
    const double sums_of_all_pieces = double(args.k / MIN_K) * double(args.batch) * double(args.m) * double(args.n);
    const double sums_of_all_blocks = double(max_blocks(launch)) * MAX_LINES * double(std::min(args.m, args.n));
    const size_t counters_bytes = size_t(max_blocks(launch)) * sizeof(unsigned);
    return counters_bytes + size_t(std::min(sums_of_all_pieces, sums_of_all_blocks)) *
                                (launch->dtype == FLOAT64 ? sizeof(double) : sizeof(float));
}

static const char *matmul_skinny_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    static_assert(SKINNY == 16, "as the message says");
    if (args.k > 1 << 30) return "k is longer than 2^30"; /* it is counted in int */
    return std::min(args.m, args.n) > SKINNY ? "the product has more than 16 rows and more than 16 columns" : NULL;
}

/* kernel->launch: starts the kernel with the worker and the plan for this launch. */
static int matmul_skinny_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.batch == 0 || args.m == 0 || args.n == 0) return 0;
    return with_worker(launch, [&](auto worker) -> int {
        using W = typename decltype(worker)::type;
        double seconds;
        const skinny_work work = plan_of<W>(launch, &seconds);
        const size_t bytes = bytes_of<W>(work);
        const auto kernel = skinny_kernel<W>;
        const cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
        if (code != cudaSuccess) return code;
        return launch_clusters_of(begins_early(launch), kernel, grid_of(work.tiles * args.batch * work.splits), THREADS,
                                  bytes, /* cluster */ 1, stream_of(launch), args, work);
    });
}

KERNEL(matmul_skinny) = {
    .name = "skinny",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "at most 16 rows or columns: reads the large operand once, to registers; k split over warps and blocks",
    .dtypes = DTYPES_FLOAT,
    .edges = {{8, 16, 64, 120, 124, 128, 256}, {8, 16, 64, 120, 124, 128, 256}, {4, 8, 32, 128, 256, 512, 1024}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .traffic = "every operand and C once",
    .traffic_bytes = matmul_skinny_traffic,
    .way = matmul_skinny_way,
    .workspace = matmul_skinny_workspace,
    .refuses = matmul_skinny_refuses,
    .seconds = matmul_skinny_seconds,
    .launch = matmul_skinny_launch,
};
