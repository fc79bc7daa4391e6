/* reduce/stream.cu - wide loads, many in flight, and sums that hardly show their order: reduction at memory speed.
 *
 *     a lane for each element of 16 bytes             x[length][inner], one output a lane
 *     +----+----+----+----+                           (or inner 1: lanes of a thread merge at the end)
 *     | l0 | l1 | l2 | l3 |  step s
 *     +----+----+----+----+                           8 such loads are under way before the first is used:
 *     | l0 | l1 | l2 | l3 |  step s + rows            128 bytes a thread, 64 KiB a multiprocessor; 40 KiB would
 *     +----+----+----+----+                           hide the memory's latency at 4.8 TB/s
 *       :    :    :    :     8 steps: a batch
 *
 * reduce/shuffle.cu widens only contiguous rows, has 4 loads in flight, and converts every element to double before it
 * adds or compares. Here every shape is read 16 bytes at a time (8 of the 1-byte types, so that lanes fit in
 * registers), and a lane works in as narrow a type as is right: max of float32 compares float32. Sums are the
 * exception: they are kept in two doubles (reduce/lanes.cuh). Adding each float32 to two doubles would cost 2 % at full
 * speed (7 additions an element, on a pipe half as wide as float32's); batches of 8 are added in one double first,
 * exactly where their exponents lie within 26 of each other, and cost nothing.
 *
 * The same launch adds in the same order every run. Tiles of another size are another order, and they follow the memory
 * budget; what that changes is about 2^-50 of the sum of magnitudes, 2^-100 for float64. It shows in the last bit where
 * the exact result lies so close to the middle between two floats, and in more of them where numbers cancel that lie
 * further apart than these precisions. Everything else is the same bits for any tiles, splits and GPU: least and
 * greatest values, positions, integers, and products but for those within about 2^-70 of such a middle.
 *
 * A block is an array [groups][rows][columns] over (outer, length, inner), as in reduce.cuh, columns counting loads.
 * Each of several blocks that share outputs takes a chunk of the reduced axis: chunks are read 1 to 2 % faster than
 * interleaved steps, and 264 blocks (2 on each of 132 multiprocessors, all at once) faster than more. The last block
 * to finish merges what the others left.
 *
 *     x of one tile    |--chunk--|--chunk--|--chunk--|--chunk--|-|-|-|-|-|-|    pieces, drawn one by one
 *
 * Multiprocessors do not all read equally fast, so equal shares do not end together. Chunks of many batches therefore
 * cover 15/16 of the tile, and blocks that finish early take the rest piece by piece from a counter (prediction: 1 to 3
 * % of 2^30; found: 1.0 %, the same with pieces of 2 to 8 batches and a 32nd to an eighth left; with pieces of 1 and a
 * quarter left, half of it). Which block gets which piece differs from run to run. Where that could show in the result
 * (any_order in reduce/lanes.cuh says where not) a block leaves what it found in a piece as a partial result of that
 * piece, and the last block merges all partial results in the order of their numbers. In columns a piece would leave a
 * partial result for every output, thousands of them for the last block to read: there, shares stay equal for such
 * reductions. Three kinds of shape:
 *     inner 1, long rows         threads of a row side by side. Loads are aligned; the first and last of a row hold
 *                                elements of its neighbours, which are set to what changes nothing
 *     inner 1, up to 256 loads   a kernel of its own: a thread holds 8 loads of up to 8 rows. Of two threads that
 *                                hold the same rows each takes over half of them, so that 8 rows of 4 threads take 6
 *                                merges a thread, not 16. So short a row is summed in one double
 *     columns                    lanes are outputs, as long as a row is a whole number of loads
 *
 * Ragged columns, of rows that begin anywhere, are made whole ones: a few such rows are one glued row.
 *
 *     4 rows of 5    0 1 2 3 4
 *                    0 1 2 3 4             one of 20, 5 loads    0 1 2 3|4 0 1 2|3 4 0 1|2 3 4 0|1 2 3 4
 *                    0 1 2 3 4
 *                    0 1 2 3 4             its columns 0, 5, 10 and 15 are each a quarter of column 0
 *
 * The same kernel leaves what it finds of glued columns in the workspace, as it would for a next launch; a second one
 * folds that into one result a column, and takes in the rows left over. Glued columns fill blocks better, too: 17
 * columns are 5 loads for 8 threads, 20 rows of them 85 for 96. Elsewhere (input of less than GLUE_BYTES, for which a
 * second launch is too long; short columns; slices of a stack that do not begin on a load) a unit is put together out
 * of the two aligned ones that it lies across, the second of which a neighbour reads too: twice the loads out of the
 * first cache, and 7 % slower than whole columns.
 *
 * Few blocks in all, up to 8, are a cluster where the GPU has clusters: the first block reads what the others have
 * found out of their shared memory, without a ticket and a way through global memory, 0.9 us less.
 *
 * Loads are plain. Marked to leave the cache first (ld.global.cs) they are as fast over and over, and 6 % slower while
 * the cache is full of what somebody else wrote: the streaming data then has but a few ways of it. Kept out of the
 * first cache (L1::no_allocate) they are 9 % slower, warm or cold.
 *
 * Measured on the H200, float32, TB/s of input and output, launched over and over (4 GiB are 70 times the cache):
 *     2^30       sum 4.58, CUB 4.55 in the same run (GPUs differ: 4.68 and 4.64 on another)
 *     sum of     32768^2   2^26 x 16   16 x 2^26   1000003 x 1021
 *       rows      4.55      4.39        4.57        4.48
 *       columns   4.50      4.55        4.39        4.37
 *     2^16 in 4.7 us where a kernel of one element takes 3.2; with the cache evicted before 6.4 and 3.3
 * What holds it back: with 16 inputs to an output the memory turns between reading and writing. Of ragged columns the
 * second launch takes 4 us, and the last blocks' merging another few (with one partial result on its way at a time
 * instead of two 1 % of the whole). Glued rows are 2 to 3 % faster than units put together from 30,001 x 1021 to
 * 1,000,003 x 1021, and 24 % of 2^26 x 17, where threads were idle; tiles of 128 or 256 loads' columns, longer pieces
 * of memory, are 1 and 4 % slower, since more blocks then share a tile. Beside CUB, in one run: sum of 2^30 1.006 to
 * 1.009 of its speed, max 1.009 to 1.011, argmax 1.01 to 1.04, sum of 2^20 with the cache evicted 0.91. */
#include "stream_columns.cuh"
#include "stream_rows.cuh"
#include <numeric>

/* The values of the parameter `glue`. */
enum { GLUE_AUTO, GLUE_YES };

#define KIB_OF_ROW 64 /* loads of 16 bytes */

static stream_layout lay_out(const reduce_args &args, int lanes, int batch, int most_columns, bool in_pieces = false) {
    stream_layout layout = {};
    const bool along = args.inner == 1;
    const int64_t width = along ? 1 : ceil_div(args.inner, lanes);
    const int64_t steps = along ? ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes) : args.length;

    /* So much of a row where threads below take the next rows, else as much as there is; whole warps if that fits
     * better. */
    layout.columns = power_of_two_up_to(width, steps <= 8 * batch ? THREADS : most_columns);
    if (ceil_div(width, 32) * 32 * 8 < ceil_div(width, layout.columns) * layout.columns * 7) layout.columns = 32;
    layout.column_tiles = ceil_div(width, layout.columns);

    /* 8 batches a thread, unless that leaves multiprocessors or threads idle. */
    const int most_rows = THREADS / layout.columns;
    const auto outer_tiles = [&] { return ceil_div(args.outer, most_rows / layout.rows); };
    layout.rows = std::max(power_of_two_up_to(ceil_div(steps, 8 * batch), most_rows), along ? 32 : 1);
    while (layout.rows < most_rows && layout.rows < steps &&
           (outer_tiles() * layout.column_tiles < BLOCKS || most_rows / layout.rows > args.outer))
        layout.rows *= 2;
    layout.groups = most_rows / layout.rows;
    layout.tiles = outer_tiles() * layout.column_tiles;

    layout.splits = 1;
    layout.chunk = std::max<int64_t>(steps, 1);
    const int64_t splits = std::min(BLOCKS / layout.tiles, steps / std::max(8 * layout.rows, LEAST_STEPS));
    if (splits > 1) {
        const int64_t grain = layout.rows * (steps / splits >= 4 * batch * layout.rows ? batch : 1);
        layout.chunk = ceil_div(ceil_div(steps, splits), grain) * grain;
        layout.splits = int(ceil_div(steps, layout.chunk));
        const int64_t batch_steps = int64_t(batch) * layout.rows;
        if (in_pieces && layout.groups == 1 && layout.splits > CLUSTER && layout.chunk >= MANY * batch_steps) {
            layout.chunk = layout.chunk * 15 / 16 / batch_steps * batch_steps;
            const int64_t left = std::max<int64_t>(steps - layout.splits * layout.chunk, 0);
            const int64_t batches = ceil_div(left, batch_steps * PIECES_EACH * layout.splits);
            layout.piece = std::max<int64_t>(PIECE, batches) * batch_steps;
            layout.pieces = int(ceil_div(left, layout.piece));
        }
    }
    return layout;
}

/* Was the kernel compiled for an architecture that has clusters, and is that what runs here? */
static bool has_clusters(const void *kernel) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

template <typename L, int LANES> static int launch_long(const struct launch *launch, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    const auto kernel = stream_long_kernel<L, LANES>;
    stream_layout layout = lay_out(args, LANES, batch_of<typename L::element_type>, KIB_OF_ROW, true);
    layout.clustered = layout.splits > 1 && layout.splits <= CLUSTER && has_clusters((const void *)kernel);
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {unsigned(layout.splits), 1, 1};
    const cudaLaunchConfig_t config = {.gridDim = grid_of(layout.tiles * layout.splits),
                                       .blockDim = THREADS,
                                       .stream = stream_of(launch),
                                       .attrs = &cluster,
                                       .numAttrs = layout.clustered};
    return cudaLaunchKernelEx(&config, kernel, args, layout, launch->workspace, reduce_divisor(args), mirror);
}

template <typename L, int LANES, bool RAGGED>
static int launch_columns(const struct launch *launch, uint64_t mirror, int most_columns = KIB_OF_ROW) {
    const reduce_args &args = launch->args.reduce;
    const stream_layout layout =
        lay_out(args, LANES, batch_of<typename L::element_type>, most_columns, columns_in_pieces<L> && !RAGGED);
    stream_columns_kernel<L, LANES, RAGGED><<<grid_of(layout.tiles * layout.splits), THREADS, 0, stream_of(launch)>>>(
        args, layout, launch->workspace, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* What is left to reduce by whole loads: the glued rows, whose columns are as many partial results. */
static reduce_args glued(reduce_args args, const stream_glue &glue) {
    args.length = glue.steps;
    args.inner *= glue.rows;
    args.offset = 0;
    args.first = true;
    args.last = false;
    return args;
}

/* Ragged columns: as few rows as make a glued row of whole loads that keeps seven eighths of the threads busy, and so
 * many of the blocks that would be otherwise. In a stack no rows may be left over, so that each slice begins on a load.
 * None where that cannot be, or does not pay; `must`: where it does not pay, too. */
static stream_glue glue_rows(const reduce_args &args, int lanes, int batch, int size, bool must) {
    const int64_t whole = lanes / std::gcd(args.inner, int64_t(lanes));
    const auto fits = [&](int64_t rows) { return args.length >= rows && (args.outer == 1 || args.length % rows == 0); };
    const auto blocks_of = [](const stream_layout &layout) { return layout.tiles * layout.splits; };
    if (whole == 1) return {};
    if (must || args.outer * args.length * args.inner * size >= GLUE_BYTES) {
        const int64_t blocks = std::min<int64_t>(BLOCKS, blocks_of(lay_out(args, lanes, batch, KIB_OF_ROW)));
        for (int64_t rows = whole; rows <= 64 * whole && args.length / rows * size >= GLUE_COLUMN; rows += whole)
            for (int columns = KIB_OF_ROW; columns <= THREADS; columns *= 2) {
                const stream_glue glue = {rows, args.length / rows, columns};
                const stream_layout layout = lay_out(glued(args, glue), lanes, batch, columns);
                if (fits(rows) && layout.tiles <= BLOCKS && blocks_of(layout) * 8 >= blocks * 7 &&
                    rows * args.inner / lanes * 8 >= layout.column_tiles * layout.columns * 7)
                    return glue;
            }
    }
    return must && fits(whole) ? stream_glue{whole, args.length / whole, KIB_OF_ROW} : stream_glue{};
}

/* Partial results: in all this has to be enough for a launch and any smaller one.
 *
 *     workspace:  stream_turns turns[SHARED_TILES]            zero before and after every launch
 *                 struct reduce_state partial[splits + pieces][outputs], up to partials_of_splits()
 *                 struct reduce_state found[outer][rows][inner], of glued rows, up to partials_of_glued()
 *
 * Of splits and pieces one stands for LEAST_STEPS elements or more, and there are BLOCKS times THREADS loads of them at
 * most; of pieces, which only rows leave results of, BLOCKS times PIECES_EACH. */
static int64_t partials_of_splits(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t elements = args.outer * args.inner * args.length, lanes = 16 / int64_t(dtype_size(launch->dtype));
    return std::min(elements / LEAST_STEPS, BLOCKS * THREADS * lanes);
}

/* Of glued rows one stands for GLUE_COLUMN bytes or more, and there are as many at most. Where rows are glued though it
 * does not pay, they are as few as make whole loads, and none is empty. */
static int64_t partials_of_glued(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, size = int64_t(dtype_size(launch->dtype)), lanes = 16 / size;
    const int64_t elements = outputs * args.length;
    const bool must = launch->choice[0] == GLUE_YES;
    if (args.inner == 1 || (!must && elements * size < GLUE_BYTES)) return 0;
    const int64_t paying = std::min(elements * size / GLUE_COLUMN, BLOCKS * THREADS * lanes);
    return std::max(paying, must ? std::min(elements, outputs * lanes) : 0);
}

static size_t bytes_before_glued(const struct launch *launch) {
    return SHARED_TILES * sizeof(stream_turns) + size_t(partials_of_splits(launch)) * sizeof(struct reduce_state);
}

static size_t reduce_stream_workspace(const struct launch *launch) {
    const int64_t of_glued = partials_of_glued(launch);
    if (partials_of_splits(launch) + of_glued == 0) return 0;
    return bytes_before_glued(launch) + size_t(of_glued) * sizeof(struct reduce_state);
}

template <typename L, int LANES>
static int launch_glued(const struct launch *launch, const stream_glue &glue, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    struct launch wide = *launch;
    wide.args.reduce = glued(args, glue);
    auto *const found =
        reinterpret_cast<struct reduce_state *>(static_cast<char *>(launch->workspace) + bytes_before_glued(launch));
    wide.args.reduce.state = found;
    const int error = launch_columns<L, LANES, false>(&wide, mirror, glue.columns);
    if (error) return error;
    stream_fold_kernel<L><<<grid_of(ceil_div(args.outer * args.inner, THREADS)), THREADS, 0, stream_of(launch)>>>(
        args, glue, found, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

template <typename L, int LANES>
static int launch_short(const struct launch *launch, int64_t loads_of_row, uint64_t mirror) {
    constexpr int BATCH = batch_of<typename L::element_type>;
    const reduce_args &args = launch->args.reduce;
    int threads = power_of_two_up_to(loads_of_row, 4);
    const int loads = power_of_two_up_to(ceil_div(loads_of_row, threads), BATCH);
    threads = std::max(threads, power_of_two_up_to(ceil_div(loads_of_row, loads), 32));
    const short_layout layout = {.threads = threads, .loads_log = loads == 8 ? 3 : loads / 2};
    const int64_t rows_of_block = THREADS / threads * (BATCH / loads);
    stream_short_kernel<L, LANES><<<grid_of(ceil_div(args.outer, rows_of_block)), THREADS, 0, stream_of(launch)>>>(
        args, layout, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

static int reduce_stream_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    const uint64_t mirror = reduce_mirror(launch->dtype, args.operator_);
    return dispatch_lanes(launch->dtype, args.operator_, [&](auto lane) -> int {
        using L = typename decltype(lane)::type;
        using T = typename L::element_type;
        constexpr int LANES = lanes_of<T>, BATCH = batch_of<T>;
        if (args.inner % LANES != 0 && args.inner != 1) {
            const stream_glue glue = glue_rows(args, LANES, BATCH, sizeof(T), launch->choice[0] == GLUE_YES);
            return glue.rows > 0 ? launch_glued<L, LANES>(launch, glue, mirror)
                                 : launch_columns<L, LANES, true>(launch, mirror);
        }
        if (args.inner != 1) return launch_columns<L, LANES, false>(launch, mirror);
        /* A row that begins anywhere touches one more unit than one that begins on one. */
        const int64_t loads_of_row = ceil_div(args.length + (args.length % LANES ? LANES - 1 : 0), LANES);
        return loads_of_row <= 32 * BATCH ? launch_short<L, LANES>(launch, loads_of_row, mirror)
                                          : launch_long<L, LANES>(launch, mirror);
    });
}

KERNEL(reduce_stream) = {
    .name = "stream",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "16-byte loads wherever rows begin; another memory budget shows in sums only where numbers cancel",
    .dtypes = DTYPES_ALL,
    .edges = {{THREADS, 8}, {16, LEAST_STEPS, 512, 1024, 4096}, {8, KIB_OF_ROW, 256, 512, 2048}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .parameters = {{.name = "glue",
                    .values = {"auto", "yes"},
                    .help = "columns: rows of no whole number of loads glued together, where it pays or always"}},
    .workspace = reduce_stream_workspace,
    .launch = reduce_stream_launch,
};
