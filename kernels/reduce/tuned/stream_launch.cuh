/* stream_launch.cuh - chooses which of stream.cu's kernels reduces a shape, and with which layout; launches it. */
#ifndef KERNELS_REDUCE_STREAM_LAUNCH_CUH
#define KERNELS_REDUCE_STREAM_LAUNCH_CUH

#include "stream_columns.cuh"
#include "stream_rows.cuh"
#include "stream_whole.cuh"
#include <numeric>

/* The values of the parameter `glue`. */
enum { GLUE_AUTO, GLUE_YES };

#define KIB_OF_ROW 64 /* loads of 16 bytes: 1 KiB of a row */

/* A row that begins inside a load touches one more load than a row that begins on one. */
inline int64_t loads_of_row(const reduce_args &args, int lanes) {
    return ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes);
}

/* Divides a reduction among blocks and threads. `lanes`: elements of a load; `batch`: a thread's loads in flight;
 * `most_columns`: of a block, unless its threads have few steps; `in_pieces`: blocks may draw pieces (stream.cu). */
inline stream_layout lay_out(const reduce_args &args, int lanes, int batch, int most_columns, bool in_pieces = false) {
    stream_layout layout = {};
    const bool along = args.inner == 1;
    const int64_t width = along ? 1 : ceil_div(args.inner, lanes);
    const int64_t steps = along ? ceil_div(args.length + (args.length % lanes ? lanes - 1 : 0), lanes) : args.length;

    /* If a thread has few steps, a block is as wide as the row; else at most `most_columns`, and its other threads take
     * further rows. A row of threads is whole warps where that wastes fewer threads. */
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
inline bool has_clusters(const void *kernel) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

template <typename L, int LANES> int launch_long(const struct launch *launch, uint64_t mirror) {
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
int launch_columns(const struct launch *launch, uint64_t mirror, int most_columns = KIB_OF_ROW) {
    const reduce_args &args = launch->args.reduce;
    const stream_layout layout =
        lay_out(args, LANES, batch_of<typename L::element_type>, most_columns, columns_in_pieces<L> && !RAGGED);
    stream_columns_kernel<L, LANES, RAGGED><<<grid_of(layout.tiles * layout.splits), THREADS, 0, stream_of(launch)>>>(
        args, layout, launch->workspace, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* The arguments of the reduction of glued rows, by whole loads. Each of their columns gives a partial result. */
inline reduce_args glued(reduce_args args, const stream_glue &glue) {
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
inline stream_glue glue_rows(const reduce_args &args, int lanes, int batch, int size, bool must) {
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
inline int64_t partials_of_splits(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t elements = args.outer * args.inner * args.length, lanes = 16 / int64_t(dtype_size(launch->dtype));
    return std::min(elements / LEAST_STEPS, BLOCKS * THREADS * lanes);
}

/* A partial result of glued rows covers at least GLUE_COLUMN bytes, and their number has the same limit as that of
 * splits. With `glue: yes` as few rows are glued as make whole loads, and no glued row is empty. */
inline int64_t partials_of_glued(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const int64_t outputs = args.outer * args.inner, size = int64_t(dtype_size(launch->dtype)), lanes = 16 / size;
    const int64_t elements = outputs * args.length;
    const bool must = launch->choice[0] == GLUE_YES;
    if (args.inner == 1 || (!must && elements * size < GLUE_BYTES)) return 0;
    const int64_t paying = std::min(elements * size / GLUE_COLUMN, BLOCKS * THREADS * lanes);
    return std::max(paying, must ? std::min(elements, outputs * lanes) : 0);
}

inline size_t state_bytes(const struct launch *launch) {
    return reduce_state_size(launch->args.reduce.operator_, launch->args.reduce.skip_nan);
}

inline size_t bytes_before_glued(const struct launch *launch) {
    return SHARED_TILES * sizeof(stream_turns) + size_t(partials_of_splits(launch)) * state_bytes(launch);
}

template <typename L, int LANES>
int launch_glued(const struct launch *launch, const stream_glue &glue, uint64_t mirror) {
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

template <typename L, int LANES> int launch_short(const struct launch *launch, int64_t loads_of_one, uint64_t mirror) {
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
template <typename L> bool is_whole(const reduce_args &args, int64_t loads) {
    const int turns = args.outer < BLOCKS ? 1 : whole_turns<L>;
    return in_one_go<L> && loads > 32 * batch_of<typename L::element_type> && loads <= turns * whole_turn<L>;
}

template <typename L> whole_layout lay_out_whole(int64_t loads) {
    const int turns = int(ceil_div(loads, whole_turn<L>)), warps = int(ceil_div(loads, turns * whole_loads<L> * 32));
    return {.groups = std::max(1, WHOLE_BLOCK / warps), .warps = warps, .turns = turns};
}

template <typename L, int LANES> int launch_whole(const struct launch *launch, int64_t loads, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
    const whole_layout layout = lay_out_whole<L>(loads);
    stream_whole_kernel<L, LANES>
        <<<grid_of(ceil_div(args.outer, layout.groups)), layout.groups * layout.warps * 32, 0, stream_of(launch)>>>(
            args, layout, reduce_divisor(args), mirror);
    return cudaGetLastError();
}

/* Reduces with the lane L. */
template <typename L> int stream_start(const struct launch *launch, uint64_t mirror) {
    const reduce_args &args = launch->args.reduce;
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
    return loads <= 32 * BATCH ? launch_short<L, LANES>(launch, loads, mirror) : launch_long<L, LANES>(launch, mirror);
}

/* Each family of operators is compiled by itself: stream_sums.cu and so on. */
int stream_sums(const struct launch *launch, uint64_t mirror);
int stream_norms(const struct launch *launch, uint64_t mirror);
int stream_products(const struct launch *launch, uint64_t mirror);
int stream_extremes(const struct launch *launch, uint64_t mirror);
int stream_moments(const struct launch *launch, uint64_t mirror);
int stream_skipping(const struct launch *launch, uint64_t mirror);

#endif
