/* stream_launch.cuh - chooses which of stream.cu's kernels reduces a shape, and with which layout; launches it.
 *
 *     shape                                           launched by       kernel in
 *     inner 1, up to 32 BATCH loads in a row          launch_short      stream_rows.cuh
 *     inner 1, up to what 16 warps hold               launch_whole      stream_whole.cuh; for most operators
 *     inner 1, longer                                 launch_long       stream_rows.cuh
 *     inner > 1, a row is a whole number of loads     launch_columns    stream_columns.cuh
 *     inner > 1, else, if gluing rows pays            launch_glued      stream_columns.cuh, twice
 *     inner > 1, else                                 launch_columns    stream_columns.cuh, RAGGED
 *
 * The layout of launch_long and launch_columns (struct stream_layout), for the sum over axis 0 of 4096 x 1000 float32,
 * so outer 1, length 4096, inner 1000; LANES is 4, BATCH is 8:
 *
 *     count              of                                here    bound
 *     width              loads in a row of columns         250     1 if inner is 1
 *     steps              rows, or loads if inner is 1      4096
 *     columns            threads beside each other         64      max_columns; THREADS for few steps
 *     rows               threads for one column            4       THREADS / columns
 *     groups             outer slices of a block           1       groups * rows * columns = THREADS
 *     tiles              blocks without splits             4       outer / groups * width / columns
 *     splits             blocks of a tile                  64      BLOCKS / tiles; MIN_SPLIT_STEPS for each
 *     chunk              steps of a split                  64
 *
 *                      columns 0-255             256-511    512-767    768-999
 *     rows 0-63        block 0: thread 0-63 takes rows 0, 4, 8 ... 60,
 *                      64-127 rows 1, 5 ... 61, and so on  block 64   block 128  block 192
 *     rows 64-127      block 1                             block 65   block 129  block 193
 *       :                :                                    :          :          :        */
#ifndef KERNELS_REDUCE_STREAM_LAUNCH_CUH
#define KERNELS_REDUCE_STREAM_LAUNCH_CUH

#include "stream_columns.cuh"
#include "stream_rows.cuh"
#include "stream_whole.cuh"
#include <numeric>

/* The values of the parameter `glue`. */
enum { GLUE_AUTO, GLUE_YES };

#define LOADS_PER_KIB    64 /* loads of 16 bytes */
#define FEW_BATCHES      8  /* of a thread that is one of few: more batches are divided among more threads */
#define MIN_THREAD_STEPS 8  /* the fewest steps of a thread in a split */

/* The bits to flip in each element, so that a search for the smallest becomes one for the largest (lanes.cuh). Sums,
 * products and moments ignore it. */
inline uint64_t mirror_of(const struct launch *launch) {
    return reduce_mirror(launch->dtype, launch->args.reduce.operator_);
}

/* The loads that touch a row. A row that begins inside a load touches one more than a row that begins on one. */
inline int64_t loads_of_row(const reduce_args &args, int lanes) {
    return ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes);
}

/* Arranges a block's threads in columns, rows and groups, and counts the tiles. */
inline void arrange_threads(stream_layout &layout, const reduce_args &args, int64_t width, int64_t steps, int batch,
                            int max_columns) {
    const int64_t few_steps = FEW_BATCHES * batch;
    /* If a thread has few steps, a block is as wide as the row; else at most `max_columns`, and its other threads take
     * further rows. A row of threads is one warp if rows that are filled up to whole warps take less than 7/8 of the
     * threads that rows filled up to `columns` take. */
    layout.columns = power_of_two_up_to(width, steps <= few_steps ? THREADS : max_columns);
    if (ceil_div(width, 32) * 32 * 8 < ceil_div(width, layout.columns) * layout.columns * 7) layout.columns = 32;
    layout.column_tiles = ceil_div(width, layout.columns);

    /* FEW_BATCHES per thread, unless that leaves multiprocessors or threads idle. */
    const int max_rows = THREADS / layout.columns;
    const auto outer_tiles = [&] { return ceil_div(args.outer, max_rows / layout.rows); };
    layout.rows = std::max(power_of_two_up_to(ceil_div(steps, few_steps), max_rows), args.inner == 1 ? 32 : 1);
    while (layout.rows < max_rows && layout.rows < steps &&
           (outer_tiles() * layout.column_tiles < BLOCKS || max_rows / layout.rows > args.outer))
        layout.rows *= 2;
    layout.groups = max_rows / layout.rows;
    layout.tiles = outer_tiles() * layout.column_tiles;
}

/* Splits each tile over as many blocks as the device has, if that leaves enough steps to each: chunks of whole batches
 * if they have several. The layout has its threads arranged. */
inline void split_tiles(stream_layout &layout, int64_t steps, int batch) {
    layout.splits = 1;
    layout.chunk = std::max<int64_t>(steps, 1);
    const int64_t min_steps = std::max(MIN_THREAD_STEPS * layout.rows, MIN_SPLIT_STEPS);
    const int64_t splits = std::min(BLOCKS / layout.tiles, steps / min_steps);
    if (splits < 2) return;
    const int64_t grain = layout.rows * (steps / splits >= 4 * batch * layout.rows ? batch : 1);
    layout.chunk = ceil_div(ceil_div(steps, splits), grain) * grain;
    layout.splits = int(ceil_div(steps, layout.chunk));
}

/* Cuts the last sixteenth of a tile's steps into pieces, which blocks draw when their chunks are done (stream.cu), if
 * chunks are long and the splits are too many for a cluster. */
inline void cut_pieces(stream_layout &layout, int64_t steps, int batch) {
    const int64_t batch_steps = int64_t(batch) * layout.rows;
    if (layout.groups > 1 || layout.splits <= MAX_CLUSTER || layout.chunk < MIN_CHUNK_BATCHES * batch_steps) return;
    layout.chunk = layout.chunk * 15 / 16 / batch_steps * batch_steps;
    const int64_t remaining = std::max<int64_t>(steps - layout.splits * layout.chunk, 0);
    const int64_t batches = ceil_div(remaining, batch_steps * MAX_PIECES_PER_BLOCK * layout.splits);
    layout.piece = std::max<int64_t>(MIN_PIECE_BATCHES, batches) * batch_steps;
    layout.pieces = int(ceil_div(remaining, layout.piece));
}

/* Divides a reduction among blocks and threads. `lanes`: elements of a load; `batch`: a thread's loads in flight;
 * `max_columns`: limits a block whose threads have many steps; `in_pieces`: blocks may draw pieces. */
inline stream_layout lay_out(const reduce_args &args, int lanes, int batch, int max_columns, bool in_pieces = false) {
    stream_layout layout = {};
    const bool along = args.inner == 1;
    const int64_t width = along ? 1 : ceil_div(args.inner, lanes);
    const int64_t steps = along ? loads_of_row(args, lanes) : args.length;
    arrange_threads(layout, args, width, steps, batch, max_columns);
    split_tiles(layout, steps, batch);
    if (in_pieces) cut_pieces(layout, steps, batch);
    return layout;
}

/* Does this device run code of the kernel that was compiled for an architecture with clusters? */
inline bool has_clusters(const void *kernel) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

/* Launches the kernel of long rows; up to MAX_CLUSTER splits form a cluster. Returns 0 or a cudaError_t, as all
 * functions launch_... */
template <typename L, int LANES> int launch_long(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const auto kernel = stream_long_kernel<L, LANES>;
    stream_layout layout = lay_out(args, LANES, batch_of<typename L::element_type>, LOADS_PER_KIB, true);
    layout.clustered = layout.splits > 1 && layout.splits <= MAX_CLUSTER && has_clusters((const void *)kernel);
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {unsigned(layout.splits), 1, 1};
    const cudaLaunchConfig_t config = {.gridDim = grid_of(layout.tiles * layout.splits),
                                       .blockDim = THREADS,
                                       .stream = stream_of(launch),
                                       .attrs = &cluster,
                                       .numAttrs = layout.clustered};
    return cudaLaunchKernelEx(&config, kernel, args, layout, launch->workspace, reduce_divisor(args),
                              mirror_of(launch));
}

/* Launches the kernel of columns. */
template <typename L, int LANES, bool RAGGED>
int launch_columns(const struct launch *launch, int max_columns = LOADS_PER_KIB) {
    const reduce_args &args = launch->args.reduce;
    const stream_layout layout =
        lay_out(args, LANES, batch_of<typename L::element_type>, max_columns, columns_in_pieces<L> && !RAGGED);
    stream_columns_kernel<L, LANES, RAGGED><<<grid_of(layout.tiles * layout.splits), THREADS, 0, stream_of(launch)>>>(
        args, layout, launch->workspace, reduce_divisor(args), mirror_of(launch));
    return cudaGetLastError();
}

/* The arguments of the reduction of glued rows. Each column of a glued row gets a partial result. */
inline reduce_args glued(reduce_args args, const stream_glue &glue) {
    args.length = glue.steps;
    args.inner *= glue.rows;
    args.offset = 0;
    args.first = true;
    args.last = false;
    return args;
}

/* Ragged columns: the smallest number of rows that make a glued row of whole loads, keep seven eighths of the threads
 * busy, and keep seven eighths of the blocks that there would be without gluing. In a stack (outer > 1) no rows may
 * remain, so that each slice begins on a load. Returns no rows if gluing is impossible or, unless `always`, if it does
 * not pay. */
inline stream_glue glue_rows(const reduce_args &args, int lanes, int batch, int size, bool always) {
    const int64_t min_rows = lanes / std::gcd(args.inner, int64_t(lanes));
    const auto fits = [&](int64_t rows) { return args.length >= rows && (args.outer == 1 || args.length % rows == 0); };
    const auto blocks_of = [](const stream_layout &layout) { return layout.tiles * layout.splits; };
    if (min_rows == 1) return {};
    if (always || args.outer * args.length * args.inner * size >= MIN_GLUED_BYTES) {
        const int64_t blocks = std::min<int64_t>(BLOCKS, blocks_of(lay_out(args, lanes, batch, LOADS_PER_KIB)));
        for (int64_t rows = min_rows; rows <= 64 * min_rows && args.length / rows * size >= MIN_PARTIAL_BYTES;
             rows += min_rows)
            for (int columns = LOADS_PER_KIB; columns <= THREADS; columns *= 2) {
                const stream_glue glue = {rows, args.length / rows, columns};
                const stream_layout layout = lay_out(glued(args, glue), lanes, batch, columns);
                if (fits(rows) && layout.tiles <= BLOCKS && blocks_of(layout) * 8 >= blocks * 7 &&
                    rows * args.inner / lanes * 8 >= layout.column_tiles * layout.columns * 7)
                    return glue;
            }
    }
    return always && fits(min_rows) ? stream_glue{min_rows, args.length / min_rows, LOADS_PER_KIB} : stream_glue{};
}

/* The workspace must suffice for a launch and for any smaller one:
 *
 *     stream_counters counters[MAX_SPLIT_TILES]        zero before and after every launch
 *     states partial[splits + pieces][outputs]         at most partials_of_splits()
 *     states partials[outer][rows][inner]              of glued rows: at most partials_of_glued()
 *
 * A split or a piece covers at least MIN_SPLIT_STEPS elements. All splits together leave results for at most BLOCKS
 * times THREADS loads of outputs. Pieces leave results only if inner is 1, at most BLOCKS times
 * MAX_PIECES_PER_BLOCK. */
inline int64_t partials_of_splits(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t elements = args.outer * args.inner * args.length, lanes = 16 / int64_t(dtype_size(launch->dtype));
    return std::min(elements / MIN_SPLIT_STEPS, BLOCKS * THREADS * lanes);
}

/* A partial result of glued rows covers at least MIN_PARTIAL_BYTES. There are at most as many of them as of splits.
 * `glue: yes` glues the smallest number of rows that makes whole loads, and no glued row is empty. */
inline int64_t partials_of_glued(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, size = int64_t(dtype_size(launch->dtype)), lanes = 16 / size;
    const int64_t elements = outputs * args.length;
    const bool always = launch->choice[0] == GLUE_YES;
    if (args.inner == 1 || (!always && elements * size < MIN_GLUED_BYTES)) return 0;
    const int64_t paying = std::min(elements * size / MIN_PARTIAL_BYTES, BLOCKS * THREADS * lanes);
    return std::max(paying, always ? std::min(elements, outputs * lanes) : 0);
}

/* The bytes of one partial result. */
inline size_t state_bytes(const struct launch *launch) {
    return reduce_state_size(launch->args.reduce.operator_, launch->args.reduce.skip_nan);
}

/* The offset in the workspace of the partial results of glued rows. */
inline size_t bytes_before_glued(const struct launch *launch) {
    return MAX_SPLIT_TILES * sizeof(stream_counters) + size_t(partials_of_splits(launch)) * state_bytes(launch);
}

/* Launches the kernel of columns on glued rows, and the kernel that folds its partial results. */
template <typename L, int LANES> int launch_glued(const struct launch *launch, const stream_glue &glue) {
    const reduce_args &args = launch->args.reduce;
    struct launch wide = *launch;
    wide.args.reduce = glued(args, glue);
    void *const partials = static_cast<char *>(launch->workspace) + bytes_before_glued(launch);
    wide.args.reduce.state = partials;
    const int error = launch_columns<L, LANES, false>(&wide, glue.max_columns);
    if (error) return error;
    stream_fold_kernel<L><<<grid_of(ceil_div(args.outer * args.inner, THREADS)), THREADS, 0, stream_of(launch)>>>(
        args, glue, partials, reduce_divisor(args), mirror_of(launch));
    return cudaGetLastError();
}

/* Launches the kernel of short rows, of `loads_of_one` loads each. A row is divided among up to 4 threads; if a thread
 * then has more loads than a batch, among more threads. */
template <typename L, int LANES> int launch_short(const struct launch *launch, int64_t loads_of_one) {
    constexpr int BATCH = batch_of<typename L::element_type>;
    const reduce_args &args = launch->args.reduce;
    int threads = power_of_two_up_to(loads_of_one, 4);
    const int loads = power_of_two_up_to(ceil_div(loads_of_one, threads), BATCH);
    threads = std::max(threads, power_of_two_up_to(ceil_div(loads_of_one, loads), 32));
    const int loads_log = loads == 8 ? 3 : loads / 2; /* of 1, 2, 4 or 8 loads */
    const short_layout layout = {.threads = threads, .loads_log = loads_log};
    const int64_t rows_of_block = THREADS / threads * (BATCH / loads);
    stream_short_kernel<L, LANES><<<grid_of(ceil_div(args.outer, rows_of_block)), THREADS, 0, stream_of(launch)>>>(
        args, layout, reduce_divisor(args), mirror_of(launch));
    return cudaGetLastError();
}

/* Is a row of `loads` loads one for launch_whole? Blocks read a row in several rounds only if there are BLOCKS rows. */
template <typename L> bool is_middle_length(const reduce_args &args, int64_t loads) {
    const int rounds = args.outer < BLOCKS ? 1 : whole_rounds<L>;
    return in_one_go<L> && loads > 32 * batch_of<typename L::element_type> && loads <= rounds * loads_per_round<L>;
}

/* The layout for rows of `loads` loads: as few rounds, and then as few warps per row, as hold them. */
template <typename L> whole_layout lay_out_whole(int64_t loads) {
    const int rounds = int(ceil_div(loads, loads_per_round<L>)),
              warps = int(ceil_div(loads, rounds * whole_loads<L> * 32));
    return {.groups = std::max(1, WHOLE_BLOCK / warps), .warps = warps, .rounds = rounds};
}

/* Launches the kernel that reads rows of `loads` loads whole. */
template <typename L, int LANES> int launch_whole(const struct launch *launch, int64_t loads) {
    const reduce_args &args = launch->args.reduce;
    const whole_layout layout = lay_out_whole<L>(loads);
    stream_whole_kernel<L, LANES>
        <<<grid_of(ceil_div(args.outer, layout.groups)), layout.groups * layout.warps * 32, 0, stream_of(launch)>>>(
            args, layout, reduce_divisor(args), mirror_of(launch));
    return cudaGetLastError();
}

/* Launches the kernel for the shape, with the lane type L (lanes.cuh). */
template <typename L> int stream_start(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    using T = typename L::element_type;
    constexpr int LANES = lanes_of<T>, BATCH = batch_of<T>;
    if (args.inner % LANES != 0 && args.inner != 1) {
        const stream_glue glue = glue_rows(args, LANES, BATCH, sizeof(T), launch->choice[0] == GLUE_YES);
        return glue.rows > 0 ? launch_glued<L, LANES>(launch, glue) : launch_columns<L, LANES, true>(launch);
    }
    if (args.inner != 1) return launch_columns<L, LANES, false>(launch);
    const int64_t loads = loads_of_row(args, LANES);
    if constexpr (in_one_go<L>)
        if (is_middle_length<L>(args, loads)) return launch_whole<L, LANES>(launch, loads);
    return loads <= 32 * BATCH ? launch_short<L, LANES>(launch, loads) : launch_long<L, LANES>(launch);
}

/* Call stream_start for one family of operators each, in files of their own (stream_sums.cu and so on), because they
 * take long to compile. */
int stream_sums(const struct launch *launch);
int stream_norms(const struct launch *launch);
int stream_products(const struct launch *launch);
int stream_extremes(const struct launch *launch);
int stream_moments(const struct launch *launch);
int stream_skipping(const struct launch *launch);

#endif
