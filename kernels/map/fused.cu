/* map/fused.cu - reduces a map's values, which exist in registers only: the sum of abs(A - B) reads A and B, and writes
 * nothing but the result.
 *
 *     A  --load--\
 *                  abs(A - B)  ---take---> accumulator      8 loads of 16 bytes are in flight in each thread
 *     B  --load--/
 *
 * The kernel (fused_text.cuh) is compiled at run time for an expression, an operator and a kind of shape. A
 * block is an array [groups][rows][columns] over (outer, length, inner), as in reduce/tuned/stream.cu. Along contiguous
 * rows (inner 1) a column is one accumulator, and the elements before the first whole vector of a row and behind the
 * last are added one by one. Across rows a column is a vector, an accumulator for each of its elements; if a row is no
 * whole number of vectors, a column is one element. If there are few outputs, blocks share a tile: each takes a chunk
 * of the reduced axis, and the last to arrive merges all partial results in the order of their numbers.
 *
 * The order is fixed, so every run on every GPU gives the same bits; tiles of another size have another order. Sums are
 * kept in two doubles, where narrow elements of a batch are first added in one. var and std are left to `stream`, which
 * reads the map's values from memory.
 *
 * Short rows (up to 512 float32) pass through shared memory: a block reads many of them at once, and sums them there.
 *
 * Measured on an H200, 2^26 float32, sum of abs(A - B), relative to the rate of stream's sum of one array of the same
 * shape. Over rows: 1.05 (4 long), 1.08 (8), 1.07 (16), 1.17 (52), 1.17 (100), 1.01 (128, 256), 1.54 (300), 0.89 (500),
 * 0.98 (512, 1000); products over rows 2.4 to 4.1 of stream's. On an H100, 2^28: over all 1.03, over columns 1.02. */
#include "compiled.cuh"
#include "fused_text.cuh"

#include <algorithm>
#include <cstdio>

#define BLOCKS         2112 /* at most share tiles: 16 on each of 132 multiprocessors */
#define COLUMN_BLOCKS  528  /* at most share tiles across rows, because each leaves many partial results */
#define MIN_CHUNK      256  /* the fewest steps of a block that shares a tile */
#define LOADS          8    /* of 16 bytes, in flight in each thread */
#define FEW_BATCHES    8    /* of a thread: more batches are divided among more threads */
#define MIN_SHORT_ROWS 8    /* rows are short if a block's shared memory has room for this many */
#define STAGED_BYTES   128  /* of shared memory, for each thread, at most */

/* The second argument of the kernel, as fused_text.cuh declares it too: the reduction, and its layout in blocks. */
struct fused_reduction {
    long long outer, length, inner, offset, chunk, column_tiles, tiles;
    int columns, rows, groups, splits, first, last;
    double divisor;
    void *state, *y, *partial;
    unsigned *tickets;
};

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* What follows from a launch's types and shape. */
struct fused_plan {
    struct map_form form;
    struct fused_reduction blocks;
    bool staged; /* rows pass through shared memory */
};

/* Plans blocks that read many short rows into shared memory, all threads side by side, wherever the rows begin: a
 * single short row has too few vectors to fill its threads' loads (100 float32 are 25 vectors, and 8 threads with 4
 * loads each would leave 7 loads idle). Returns false, and does not change the plan, if the rows are long. */
static bool plan_short_rows(const reduce_args *args, enum dtype out, fused_plan *plan) {
    const int elements = plan->form.elements;
    const int bytes = dtype_size(out) == 8 || out == UINT32 ? 8 : 4; /* of a value in a register */
    const int unroll = std::max(std::min(plan->form.unroll, STAGED_BYTES / (bytes * elements)), 1);
    const int64_t capacity = int64_t(MAP_BLOCK) * unroll * elements;
    const int64_t begun = args->length % elements ? elements - 1 : 0; /* elements of the row before, in a vector */
    if (args->length < 1 || MIN_SHORT_ROWS * args->length > capacity) return false;
    struct fused_reduction &r = plan->blocks;
    plan->form.unroll = unroll;
    const int64_t max_groups = (capacity - begun) / args->length;
    r.groups = int(std::clamp<int64_t>(args->outer / COLUMN_BLOCKS, 1, max_groups));
    r.columns = r.splits = 1, r.column_tiles = 1;
    r.chunk = args->length;
    r.rows = 1;
    while (r.rows * 2 * r.groups <= MAP_BLOCK && r.rows < args->length) r.rows *= 2;
    r.tiles = ceil_div(args->outer, r.groups);
    return true;
}

/* Divides a reduction whose rows do not pass through shared memory: its outer tiles and columns among the rows, columns
 * and groups of a block's threads, and long tiles among blocks. `unroll`: a thread's loads of one batch. */
static void divide_blocks(struct fused_reduction *r, const reduce_args &args, int elements, int unroll) {
    const bool along = args.inner == 1;
    const int max_blocks = along ? BLOCKS : COLUMN_BLOCKS;
    const int64_t width = along ? 1 : args.inner / elements, steps = along ? args.length / elements : args.length;
    r->columns = power_of_two_up_to(width, 64);
    r->column_tiles = ceil_div(width, r->columns);
    /* FEW_BATCHES per thread, unless that leaves multiprocessors or threads idle. */
    const int max_rows = MAP_BLOCK / r->columns;
    const auto tiles = [&] { return ceil_div(args.outer, max_rows / r->rows) * r->column_tiles; };
    r->rows = power_of_two_up_to(ceil_div(steps, FEW_BATCHES * unroll), max_rows);
    if (along) r->rows = std::max(r->rows, power_of_two_up_to(steps, 32)); /* at least a warp reads a row */
    while (r->rows < max_rows && r->rows < steps && (tiles() < max_blocks || max_rows / r->rows > args.outer))
        r->rows *= 2;
    r->groups = max_rows / r->rows;
    r->tiles = tiles();
    r->splits = 1;
    r->chunk = std::max<int64_t>(steps, 1);
    const int64_t batch_steps = int64_t(unroll) * r->rows;
    const int64_t splits =
        std::min<int64_t>(max_blocks / r->tiles, steps / std::max<int64_t>(2 * batch_steps, MIN_CHUNK));
    if (splits > 1) {
        r->chunk = ceil_div(ceil_div(steps, splits), batch_steps) * batch_steps;
        r->splits = int(ceil_div(steps, r->chunk));
    }
}

/* Chooses the block's layout and each thread's loads in flight: at least LOADS of 16 bytes, and enough blocks to keep
 * the GPU busy. */
static fused_plan plan_of(const struct launch *launch, bool aligned) {
    const reduce_args &args = launch->args.reduce;
    const struct map_args *map = &launch->before;
    const bool along = args.inner == 1;
    fused_plan plan = {map_form(map, /* max_elements */ aligned ? 8 : 1), {}, false};
    if (!along && args.inner % plan.form.elements != 0) plan.form = map_form(map, 1);
    plan.form.unroll = std::max(LOADS / map->map->inputs, 1);
    plan.staged = along && plan_short_rows(&args, map->out, &plan);
    /* A number for each kernel text: operator, skip_nan, and one of three ways (columns, rows, staged rows). */
    plan.form.reduction = 1 + (args.operator_ * 2 + args.skip_nan) * 3 + (plan.staged ? 2 : along);
    if (!plan.staged) divide_blocks(&plan.blocks, args, plan.form.elements, plan.form.unroll);
    return plan;
}

/* The structure of fused_text.cuh that reduces elements of this type; NULL: the operator has none. */
static const char *accumulator_of(enum reduce_operator operator_, enum dtype dtype, bool skip_nan) {
    const bool real = dtype_is_float(dtype);
    switch (operator_) {
    case REDUCE_SUM: return real ? "total<false>" : "whole_number<SUM>";
    case REDUCE_PROD: return real ? "product" : "whole_number<PRODUCT>";
    case REDUCE_MIN: return "extreme<false>";
    case REDUCE_MAX: return "extreme<true>";
    case REDUCE_MEAN: return skip_nan ? "mean_of_numbers" : "total<false>";
    case REDUCE_NORM2: return dtype == FLOAT64 ? "scaled_squares" : "total<true>";
    case REDUCE_ARGMIN: return "position<false>";
    case REDUCE_ARGMAX: return "position<true>";
    case REDUCE_COUNT_NAN: return "whole_number<NANS>";
    default: return NULL;
    }
}

/* The type of the results. */
static enum dtype result_type(enum reduce_operator operator_, enum dtype dtype) {
    const bool selects = operator_ == REDUCE_MIN || operator_ == REDUCE_MAX;
    const bool counts = operator_ == REDUCE_ARGMIN || operator_ == REDUCE_ARGMAX || operator_ == REDUCE_COUNT_NAN;
    if (counts) return INT64;
    if (selects || dtype_is_float(dtype)) return dtype;
    return operator_ == REDUCE_MEAN || operator_ == REDUCE_NORM2 ? FLOAT64 : INT64;
}

/* The text of stored() behind "STORED stored(": it rounds a result once, and makes one NaN of all. */
static const char *storing_of(enum dtype result) {
    switch (result) {
    case FLOAT16: return "double x) { return x == x ? float16_bits(odd(x)) : 0x7e00; }";
    case BFLOAT16: return "double x) { return x == x ? bfloat16_bits(odd(x)) : 0x7fc0; }";
    case FLOAT32: return "double x) { return x == x ? (float)x : __int_as_float(0x7fc00000); }";
    case FLOAT64: return "double x) { return x == x ? x : __longlong_as_double(0x7ff8000000000000ll); }";
    default: return "long long x) { return (STORED)x; }";
    }
}

/* Returns the bytes of unsigned tickets[BLOCKS], zero before and after a launch, and of accumulators
 * partial[splits][outputs], of at most 3 doubles each. Each accumulator covers MIN_CHUNK elements or more, and each
 * thread of at most BLOCKS blocks leaves at most 16 accumulators. */
static size_t reduce_fused_workspace(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t max_by_elements = ceil_div(args.outer * args.length * args.inner, MIN_CHUNK);
    const int64_t max_by_threads = int64_t(BLOCKS) * MAP_BLOCK * 16;
    const size_t accumulator_bytes = 3 * sizeof(double);
    return BLOCKS * sizeof(unsigned) + size_t(std::min(max_by_elements, max_by_threads)) * accumulator_bytes;
}

/* For kernel->way: a hash of all that decides the order in which elements are added; 0 if no order shows. */
static uint64_t reduce_fused_way(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const bool selects = args.operator_ == REDUCE_MIN || args.operator_ == REDUCE_MAX;
    uint64_t way = 1;
    if (!launch->before.map || args.outer == 0 || args.inner == 0) return 0;
    if (selects || result_type(args.operator_, launch->before.out) == INT64) return 0; /* no order shows */
    const fused_plan plan = plan_of(launch, true);
    for (int64_t part : {int64_t(plan.form.elements), int64_t(plan.form.unroll), int64_t(plan.blocks.rows),
                         int64_t(plan.blocks.splits), int64_t(plan.blocks.chunk)})
        way = way * 0x9e3779b97f4a7c15 + uint64_t(part);
    return way;
}

static const char *reduce_fused_refuses(const struct launch *launch) {
    return launch->before.map ? NULL : "the operation has no `map:`, whose values this variant reduces";
}

/* Makes the kernel for this expression, operator and shape, unless there is one already, and launches it. */
static int reduce_fused_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const struct map_args *map = &launch->before;
    struct map_kernel_args values = map_kernel_args(map);
    const struct loaded_kernel *kernel = NULL;
    if (args.outer == 0 || args.inner == 0) return 0;
    fused_plan plan = plan_of(launch, values.aligned);
    const enum dtype result = result_type(args.operator_, map->out);
    char constants[512];
    snprintf(constants, sizeof constants,
             "#define ACCUMULATOR %s\nconstexpr bool ALONG = %d, STAGED = %d, SKIP = %d;\nconstexpr int UNROLL = %d;\n"
             "typedef %s STORED;\n__device__ inline STORED stored(%s\n",
             accumulator_of(args.operator_, map->out, args.skip_nan), args.inner == 1, plan.staged, args.skip_nan,
             plan.form.unroll, map_memory_type(result), storing_of(result));
    const int failed = map_kernel(map, &plan.form, constants, fused_text, &kernel);
    if (failed) return failed;
    struct fused_reduction &r = plan.blocks;
    r.outer = args.outer, r.length = args.length, r.inner = args.inner, r.offset = args.offset;
    r.first = args.first, r.last = args.last;
    r.divisor = args.operator_ == REDUCE_MEAN ? double(args.total) : 1.0;
    r.state = args.state, r.y = args.y;
    r.tickets = static_cast<unsigned *>(launch->workspace);
    r.partial = r.tickets + BLOCKS;
    const dim3 grid = grid_of(r.tiles * r.splits);
    const unsigned blocks[3] = {grid.x, grid.y, 1}, threads[3] = {MAP_BLOCK, 1, 1};
    void *arguments[] = {&values, &r};
    return loaded_launch(kernel, blocks, threads, 0, launch->stream, arguments);
}

KERNEL(reduce_fused) = {
    .name = "fused",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "only with `map:`: reduces the map's values in registers, by a kernel compiled at run time",
    .dtypes = DTYPES_ALL,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_PROD) | REDUCE_BIT(REDUCE_MIN) | REDUCE_BIT(REDUCE_MAX) |
                 REDUCE_BIT(REDUCE_MEAN) | REDUCE_BIT(REDUCE_NORM2) | REDUCE_BIT(REDUCE_ARGMIN) |
                 REDUCE_BIT(REDUCE_ARGMAX) | REDUCE_BIT(REDUCE_COUNT_NAN),
    .edges = {{1}, {16, 64, 1024}, {8, 64}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .fuses = true,
    .compute_capability = 80,
    .way = reduce_fused_way,
    .workspace = reduce_fused_workspace,
    .missing = map_missing,
    .refuses = reduce_fused_refuses,
    .launch = reduce_fused_launch,
};
