/* stream.cu - reductions by wide loads, many of them in flight, with sums that hardly depend on their order.
 *
 *     one lane per element of 16 bytes                x[length][inner], one output per lane
 *     +----+----+----+----+                           (or inner 1: a thread's lanes merge at the end)
 *     | l0 | l1 | l2 | l3 |  step s
 *     +----+----+----+----+                           8 such loads are in flight before the first is used:
 *     | l0 | l1 | l2 | l3 |  step s + rows            128 bytes per thread, 64 KiB per multiprocessor; 40 KiB would
 *     +----+----+----+----+                           hide the memory's latency at 4.8 TB/s
 *       :    :    :    :     8 steps: a batch
 *
 * Every shape is read 16 bytes at a time (8 for 1-byte types, so that lanes fit in registers), and a lane computes in
 * the narrowest type that is right: max of float32 compares float32. Sums are the exception: two doubles hold them
 * (two_doubles.cuh). One addition to two doubles takes 7, so a batch of 8 float32 is first added in one double, which
 * is exact if their exponents lie within 26 of each other.
 *
 * A launch adds in the same order in every run. Tiles of another size have another order, which changes a sum by about
 * 2^-50 of the sum of magnitudes (float64: 2^-100). Smallest and largest values, positions and integers are the same,
 * bit for bit, for any tiles, splits and GPU.
 *
 * A block is an array [groups][rows][columns] over (outer, length, inner); a column is one load wide (stream_launch.cuh
 * has an example). If several blocks share outputs, each takes a chunk of the reduced axis, and the last block to
 * finish merges all partial results.
 *
 *     x of one tile    |--chunk--|--chunk--|--chunk--|--chunk--|-|-|-|-|-|-|    pieces, drawn one by one
 *
 * Multiprocessors do not all read equally fast. So chunks of many batches cover 15/16 of the tile; blocks that finish
 * early take the rest, piece by piece, from an atomic counter. Which block takes a piece differs from run to run. If
 * that could show in the result (any_order in lanes.cuh), a block writes one partial result per piece, and the last
 * block merges these in the order of the pieces.
 *
 * There are four kinds of shape:
 *     inner 1, long rows         The threads of a row stand side by side. Loads are aligned; the first and last load of
 *                                a row hold elements of its neighbours, which the neutral element replaces. Up to 8
 *                                blocks that share a row form a cluster and read each other's shared memory.
 *     inner 1, up to 256 loads   A thread holds 8 loads of up to 8 rows. Two threads with the same rows divide them:
 *                                each keeps half, and merges the other's values for it. So short a row is summed in
 *                                one double.
 *     between these              Rows are read whole (stream_whole.cuh), for most operators.
 *     columns                    Lanes are outputs, if a row is a whole number of loads.
 *
 * If a row is no whole number of loads ("ragged" columns), a few rows together are one glued row of whole loads:
 *
 *     4 rows of 5    0 1 2 3 4
 *                    0 1 2 3 4             one of 20, 5 loads    0 1 2 3|4 0 1 2|3 4 0 1|2 3 4 0|1 2 3 4
 *                    0 1 2 3 4
 *                    0 1 2 3 4             its columns 0, 5, 10 and 15 are each a quarter of column 0
 *
 * The same kernel reduces glued columns into the workspace. A second kernel folds them into one result per column and
 * adds the remaining rows. If that does not pay (glue_rows), a load is assembled from the two aligned ones that it
 * straddles, which is 7 % slower than whole columns.
 *
 * Measured on an H200: sum of 2^30 float32 at 4.58 TB/s (CUB: 4.55); sum of 32768 x 32768 over rows 4.55, over columns
 * 4.50. The limits: with 16 inputs per output the memory alternates between reading and writing; for ragged columns the
 * second launch takes 4 us; the last block's merging takes another few us. */
#include "stream_launch.cuh"

/* kernel->workspace; stream_launch.cuh says what the workspace holds. */
static size_t reduce_stream_workspace(const struct launch *launch) {
    const int64_t of_glued = partials_of_glued(launch);
    if (partials_of_splits(launch) + of_glued == 0) return 0;
    return bytes_before_glued(launch) + size_t(of_glued) * state_bytes(launch);
}

/* A hash of all that decides which elements a thread or a block adds. */
static uint64_t way_of(const stream_layout &layout, const stream_glue &glue) {
    uint64_t way = 1;
    for (int64_t part : {int64_t(layout.rows), int64_t(layout.splits), layout.chunk, layout.piece,
                         int64_t(layout.pieces), glue.rows, glue.steps})
        way = way * 0x9e3779b97f4a7c15 + uint64_t(part);
    return way;
}

/* kernel->way. Rows of up to 256 loads are always summed alike. */
static uint64_t reduce_stream_way(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    uint64_t way = 0;
    if (args.outer == 0 || args.inner == 0) return way;
    dispatch_lanes(launch->dtype, args, [&](auto lane_type) -> int {
        using L = typename decltype(lane_type)::type;
        using T = typename L::element_type;
        constexpr int LANES = lanes_of<T>, BATCH = batch_of<T>;
        const bool ragged = args.inner % LANES != 0 && args.inner != 1;
        const stream_glue glue =
            ragged ? glue_rows(args, LANES, BATCH, sizeof(T), launch->choice[0] == GLUE_YES) : stream_glue{};
        if (glue.rows > 0)
            way = way_of(lay_out(glued(args, glue), LANES, BATCH, glue.max_columns, columns_in_pieces<L>), glue);
        else if (args.inner != 1)
            way = way_of(lay_out(args, LANES, BATCH, LOADS_PER_KIB, columns_in_pieces<L> && !ragged), glue);
        else if (is_middle_length<L>(args, loads_of_row(args, LANES)))
            way = uint64_t(lay_out_whole<L>(loads_of_row(args, LANES)).warps);
        else if (loads_of_row(args, LANES) > 32 * BATCH)
            way = way_of(lay_out(args, LANES, BATCH, LOADS_PER_KIB, true), glue);
        return 0;
    });
    return way;
}

/* kernel->launch: calls the file that is compiled for this operator. */
static int reduce_stream_launch(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (args.outer == 0 || args.inner == 0) return 0;
    if (reduce_has_no_nans(launch)) return reduce_no_nans(launch);
    if (args.operator_ == REDUCE_COUNT_NAN || reduce_is_variance(args.operator_)) return stream_moments(launch);
    if (args.skip_nan) return stream_skipping(launch);
    switch (args.operator_) {
    case REDUCE_MIN:
    case REDUCE_MAX:
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX: return stream_extremes(launch);
    case REDUCE_PROD: return stream_products(launch);
    case REDUCE_NORM2: return stream_norms(launch);
    default: return stream_sums(launch);
    }
}

static const char *reduce_stream_refuses(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const bool rare = args.operator_ == REDUCE_PROD || args.operator_ == REDUCE_NORM2;
    return args.skip_nan && rare ? "this variant does not skip NaNs in products and norms: `scaled` does" : NULL;
}

KERNEL(reduce_stream) = {
    .name = "stream",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "16-byte loads wherever rows begin; the memory budget shows in sums only where numbers cancel",
    .dtypes = DTYPES_ALL,
    .edges = {{THREADS, 8}, {16, MIN_SPLIT_STEPS, 512, 1024, 4096}, {8, LOADS_PER_KIB, 256, 512, 2048}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .parameters = {{.name = "glue",
                    .values = {"auto", "yes"},
                    .help = "glues rows of columns that are no whole number of loads: where it pays, or always"}},
    .way = reduce_stream_way,
    .workspace = reduce_stream_workspace,
    .refuses = reduce_stream_refuses,
    .launch = reduce_stream_launch,
};
