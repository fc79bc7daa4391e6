/* stream.cu - wide loads, many of them in flight, and sums that hardly depend on their order.
 *
 *     one lane per element of 16 bytes                x[length][inner], one output per lane
 *     +----+----+----+----+                           (or inner 1: a thread's lanes merge at the end)
 *     | l0 | l1 | l2 | l3 |  step s
 *     +----+----+----+----+                           8 such loads are in flight before the first is used:
 *     | l0 | l1 | l2 | l3 |  step s + rows            128 bytes per thread, 64 KiB per multiprocessor; 40 KiB would
 *     +----+----+----+----+                           hide the memory's latency at 4.8 TB/s
 *       :    :    :    :     8 steps: a batch
 *
 * reduce/shuffle.cu widens only contiguous rows, has 4 loads in flight, and converts every element to double before it
 * adds or compares. Here every shape is read 16 bytes at a time (8 for 1-byte types, so that lanes fit in registers),
 * and a lane computes in the narrowest type that is right: max of float32 compares float32. Sums are the exception: two
 * doubles hold them (two_doubles.cuh). Adding one float32 to two doubles takes 7 additions, so a batch of 8 is
 * first added in one double. That is exact where their exponents lie within 26 of each other, and costs no time.
 *
 * The same launch adds in the same order every run. The memory budget decides the size of tiles, and another size is
 * another order: it changes a sum by about 2^-50 of the sum of magnitudes (float64: 2^-100). That shows in the last bit
 * if the exact result lies so close to the middle between two floats, and in more bits if numbers cancel that lie
 * further apart than these precisions. Everything else is the same, bit for bit, for any tiles, splits and GPU: least
 * and greatest values, positions, integers, and products not within about 2^-70 of such a middle.
 *
 * A block is an array [groups][rows][columns] over (outer, length, inner); a column is one load wide.
 * Where several blocks share outputs, each takes a chunk of the reduced axis (1 to 2 % faster than interleaved steps),
 * and the last block to finish merges all partial results. 264 blocks, 2 on each of 132 multiprocessors, run at once.
 *
 *     x of one tile    |--chunk--|--chunk--|--chunk--|--chunk--|-|-|-|-|-|-|    pieces, drawn one by one
 *
 * Multiprocessors do not all read equally fast, so equal shares do not end together. Therefore chunks of many batches
 * cover 15/16 of the tile; blocks that finish early take the rest, piece by piece, from an atomic counter (1.0 % faster
 * at 2^30 on an H200). The assignment of pieces to blocks differs from run to run. Where that could show in the result
 * (any_order in lanes.cuh), a block writes one partial result per piece, and the last block merges all partial
 * results in the order of their numbers. In columns that would mean a partial result per piece for each of thousands of
 * outputs, so such reductions of columns keep equal shares.
 *
 * There are four kinds of shape:
 *     inner 1, long rows         The threads of a row stand side by side. Loads are aligned; the first and last load of
 *                                a row hold elements of its neighbours, which the neutral element replaces.
 *     inner 1, up to 256 loads   A kernel of its own: a thread holds 8 loads of up to 8 rows. Two threads with the same
 *                                rows divide them: each keeps half, and merges the other's values for it, so that 8
 *                                rows of 4 threads take 6 merges per thread, not 16. So short a row is summed in one
 *                                double.
 *     between these              A kernel that reads rows whole (stream_whole.cuh), for most operators.
 *     columns                    Lanes are outputs, if a row is a whole number of loads.
 *
 * Where a row is no whole number of loads ("ragged" columns), a few rows together are one glued row of whole loads:
 *
 *     4 rows of 5    0 1 2 3 4
 *                    0 1 2 3 4             one of 20, 5 loads    0 1 2 3|4 0 1 2|3 4 0 1|2 3 4 0|1 2 3 4
 *                    0 1 2 3 4
 *                    0 1 2 3 4             its columns 0, 5, 10 and 15 are each a quarter of column 0
 *
 * The same kernel reduces glued columns and saves their results in the workspace, as if for another launch. A second
 * kernel folds them into one result per column and adds the rows left over. Glued columns also fill blocks better: 17
 * columns are 5 loads for 8 threads, 20 rows of them 85 loads for 96 threads. Rows are not glued for input below
 * GLUE_BYTES (the second launch takes too long), for short columns, or where slices of a stack do not begin on a load.
 * There a load is assembled from the two aligned ones that it straddles: twice the loads from the L1 cache, and 7 %
 * slower than whole columns.
 *
 * Up to 8 blocks that share a tile of long rows form a cluster, on GPUs that have clusters: the first block reads the
 * others' results from their shared memory, which is 0.9 us faster than a counter and partial results in global memory.
 *
 * Loads use the default cache policy. Evict-first loads (ld.global.cs) are 6 % slower while the cache is full of other
 * data; loads that bypass L1 (L1::no_allocate) are 9 % slower.
 *
 * Measured on an H200: sum of 2^30 float32 at 4.58 TB/s (CUB: 4.55); sum of 32768 x 32768 over rows 4.55, over columns
 * 4.50. The limits: with 16 inputs per output the memory alternates between reading and writing; for ragged columns the
 * second launch takes 4 us; the last block's merging takes another few us. */
#include "stream_columns.cuh"
#include "stream_rows.cuh"
#include "stream_whole.cuh"
#include <numeric>

/* The values of the parameter `glue`. */
enum { GLUE_AUTO, GLUE_YES };

#define KIB_OF_ROW 64 /* loads of 16 bytes */

/* A row that begins inside a load touches one more load than a row that begins on one. */
static int64_t loads_of_row(const reduce_args &args, int lanes) {
    return ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes);
}

static stream_layout lay_out(const reduce_args &args, int lanes, int batch, int most_columns, bool in_pieces = false) {
    stream_layout layout = {};
    const bool along = args.inner == 1;
    const int64_t width = along ? 1 : ceil_div(args.inner, lanes);
    const int64_t steps = along ? ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes) : args.length;

    /* If a thread has few steps, a block is as wide as the row; else at most `most_columns`, and its other threads take
     * further rows. Whole warps where that wastes fewer threads. */
    layout.columns = power_of_two_up_to(width, steps <= 8 * batch ? THREADS : most_columns);
    if (ceil_div(width, 32) * 32 * 8 < ceil_div(width, layout.columns) * layout.columns * 7) layout.columns = 32;
    layout.column_tiles = ceil_div(width, layout.columns);

    /* 8 batches per thread, unless that leaves multiprocessors or threads idle. */
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

/* Was the kernel compiled for an architecture that has clusters, and does that code run here? */
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

/* The part that whole loads reduce: glued rows. Each of their columns gives a partial result. */
static reduce_args glued(reduce_args args, const stream_glue &glue) {
    args.length = glue.steps;
    args.inner *= glue.rows;
    args.offset = 0;
    args.first = true;
    args.last = false;
    return args;
}

/* Ragged columns: the fewest rows that make a glued row of whole loads, keep seven eighths of the threads busy, and
 * keep seven eighths of the blocks that there would be without gluing. In a stack no rows may be left over, so that
 * each slice begins on a load. Returns no rows where that is impossible or does not pay; `must`: only where it is
 * impossible. */
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

/* The partial results must be enough for a launch and for any smaller one.
 *
 *     workspace:  stream_turns turns[SHARED_TILES]            zero before and after every launch
 *                 a state partial[splits + pieces][outputs], up to partials_of_splits()
 *                 a state found[outer][rows][inner], of glued rows, up to partials_of_glued()
 *
 * A split or a piece covers at least LEAST_STEPS elements. All splits together leave results for at most BLOCKS times
 * THREADS loads of outputs. Pieces leave results only where rows are reduced, at most BLOCKS times PIECES_EACH. */
static int64_t partials_of_splits(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t elements = args.outer * args.inner * args.length, lanes = 16 / int64_t(dtype_size(launch->dtype));
    return std::min(elements / LEAST_STEPS, BLOCKS * THREADS * lanes);
}

/* A partial result of glued rows covers at least GLUE_COLUMN bytes, and their number has the same limit as that of
 * splits. With `glue: yes` as few rows are glued as make whole loads, and no glued row is empty. */
static int64_t partials_of_glued(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, size = int64_t(dtype_size(launch->dtype)), lanes = 16 / size;
    const int64_t elements = outputs * args.length;
    const bool must = launch->choice[0] == GLUE_YES;
    if (args.inner == 1 || (!must && elements * size < GLUE_BYTES)) return 0;
    const int64_t paying = std::min(elements * size / GLUE_COLUMN, BLOCKS * THREADS * lanes);
    return std::max(paying, must ? std::min(elements, outputs * lanes) : 0);
}

static size_t state_bytes(const struct launch *launch) {
    return reduce_state_size(launch->args.reduce.operator_, launch->args.reduce.skip_nan);
}

static size_t bytes_before_glued(const struct launch *launch) {
    return SHARED_TILES * sizeof(stream_turns) + size_t(partials_of_splits(launch)) * state_bytes(launch);
}

static size_t reduce_stream_workspace(const struct launch *launch) {
    const int64_t of_glued = partials_of_glued(launch);
    if (partials_of_splits(launch) + of_glued == 0) return 0;
    return bytes_before_glued(launch) + size_t(of_glued) * state_bytes(launch);
}

template <typename L, int LANES>
static int launch_glued(const struct launch *launch, const stream_glue &glue, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    struct launch wide = *launch;
    wide.args.reduce = glued(args, glue);
    void *const found = static_cast<char *>(launch->workspace) + bytes_before_glued(launch);
    wide.args.reduce.state = found;
    const int error = launch_columns<L, LANES, false>(&wide, mirror, glue.columns);
    if (error) return error;
    stream_fold_kernel<L><<<grid_of(ceil_div(args.outer * args.inner, THREADS)), THREADS, 0, stream_of(launch)>>>(
        args, glue, found, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

template <typename L, int LANES>
static int launch_short(const struct launch *launch, int64_t loads_of_one, uint64_t mirror) {
    constexpr int BATCH = batch_of<typename L::element_type>;
    const reduce_args &args = launch->args.reduce;
    int threads = power_of_two_up_to(loads_of_one, 4);
    const int loads = power_of_two_up_to(ceil_div(loads_of_one, threads), BATCH);
    threads = std::max(threads, power_of_two_up_to(ceil_div(loads_of_one, loads), 32));
    const short_layout layout = {.threads = threads, .loads_log = loads == 8 ? 3 : loads / 2};
    const int64_t rows_of_block = THREADS / threads * (BATCH / loads);
    stream_short_kernel<L, LANES><<<grid_of(ceil_div(args.outer, rows_of_block)), THREADS, 0, stream_of(launch)>>>(
        args, layout, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* Is a row of middling length? Several turns only where blocks need not share rows. */
template <typename L> static bool is_whole(const reduce_args &args, int64_t loads) {
    const int turns = args.outer < BLOCKS ? 1 : whole_turns<L>;
    return in_one_go<L> && loads > 32 * batch_of<typename L::element_type> && loads <= turns * whole_turn<L>;
}

template <typename L> static whole_layout lay_out_whole(int64_t loads) {
    const int turns = int(ceil_div(loads, whole_turn<L>)), warps = int(ceil_div(loads, turns * whole_loads<L> * 32));
    return {.groups = std::max(1, WHOLE_BLOCK / warps), .warps = warps, .turns = turns};
}

template <typename L, int LANES> static int launch_whole(const struct launch *launch, int64_t loads, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    const whole_layout layout = lay_out_whole<L>(loads);
    stream_whole_kernel<L, LANES>
        <<<grid_of(ceil_div(args.outer, layout.groups)), layout.groups * layout.warps * 32, 0, stream_of(launch)>>>(
            args, layout, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* For kernel->way: which threads and blocks take what of an output's elements. */
static uint64_t way_of(const stream_layout &layout, const stream_glue &glue) {
    uint64_t way = 1;
    for (int64_t part : {int64_t(layout.rows), int64_t(layout.splits), layout.chunk, layout.piece,
                         int64_t(layout.pieces), glue.rows, glue.steps})
        way = way * 0x9e3779b97f4a7c15 + uint64_t(part);
    return way;
}

/* Rows of up to 256 loads are always summed alike. */
static uint64_t reduce_stream_way(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    uint64_t way = 0;
    if (args.outer == 0 || args.inner == 0) return way;
    dispatch_lanes(launch->dtype, args, [&](auto lane) -> int {
        using L = typename decltype(lane)::type;
        using T = typename L::element_type;
        constexpr int LANES = lanes_of<T>, BATCH = batch_of<T>;
        const bool ragged = args.inner % LANES != 0 && args.inner != 1;
        const stream_glue glue =
            ragged ? glue_rows(args, LANES, BATCH, sizeof(T), launch->choice[0] == GLUE_YES) : stream_glue{};
        if (glue.rows > 0)
            way = way_of(lay_out(glued(args, glue), LANES, BATCH, glue.columns, columns_in_pieces<L>), glue);
        else if (args.inner != 1)
            way = way_of(lay_out(args, LANES, BATCH, KIB_OF_ROW, columns_in_pieces<L> && !ragged), glue);
        else if (is_whole<L>(args, loads_of_row(args, LANES)))
            way = uint64_t(lay_out_whole<L>(loads_of_row(args, LANES)).warps);
        else if (loads_of_row(args, LANES) > 32 * BATCH)
            way = way_of(lay_out(args, LANES, BATCH, KIB_OF_ROW, true), glue);
        return 0;
    });
    return way;
}

static int reduce_stream_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    const uint64_t mirror = reduce_mirror(launch->dtype, args.operator_);
    if (reduce_has_no_nans(launch)) return reduce_no_nans(launch);
    return dispatch_lanes(launch->dtype, args, [&](auto lane) -> int {
        using L = typename decltype(lane)::type;
        using T = typename L::element_type;
        constexpr int LANES = lanes_of<T>, BATCH = batch_of<T>;
        if (args.inner % LANES != 0 && args.inner != 1) {
            const stream_glue glue = glue_rows(args, LANES, BATCH, sizeof(T), launch->choice[0] == GLUE_YES);
            return glue.rows > 0 ? launch_glued<L, LANES>(launch, glue, mirror)
                                 : launch_columns<L, LANES, true>(launch, mirror);
        }
        if (args.inner != 1) return launch_columns<L, LANES, false>(launch, mirror);
        const int64_t loads = loads_of_row(args, LANES);
        if constexpr (in_one_go<L>)
            if (is_whole<L>(args, loads)) return launch_whole<L, LANES>(launch, loads, mirror);
        return loads <= 32 * BATCH ? launch_short<L, LANES>(launch, loads, mirror)
                                   : launch_long<L, LANES>(launch, mirror);
    });
}

static const char *reduce_stream_refuses(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const bool rare = args.operator_ == REDUCE_PROD || args.operator_ == REDUCE_NORM2;
    return args.skip_nan && rare ? "products and norms that skip NaNs are left to scaled" : NULL;
}

KERNEL(reduce_stream) = {
    .name = "stream",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "16-byte loads wherever rows begin; another memory budget shows in sums only where numbers cancel",
    .dtypes = DTYPES_ALL,
    .edges = {{THREADS, 8}, {16, LEAST_STEPS, 512, 1024, 4096}, {8, KIB_OF_ROW, 256, 512, 2048}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .parameters = {{.name = "glue",
                    .values = {"auto", "yes"},
                    .help = "columns: rows of no whole number of loads glued together, where it pays or always"}},
    .way = reduce_stream_way,
    .workspace = reduce_stream_workspace,
    .refuses = reduce_stream_refuses,
    .launch = reduce_stream_launch,
};
