/* reduce/blocked.c - vectorised reductions by several threads, with the same bits whatever their number.
 *
 * The work is cut into chunks of a fixed size. Threads take chunks in any order; their results are merged in a fixed
 * order:
 *
 *     inner > 1: a chunk is ROWS x COLUMNS of          inner == 1: a chunk is ROWS x LANES adjacent elements,
 *     one outer slice, a sum for each column           taken as a matrix; a sum for each lane, merged at the end
 *
 * If inner is 1 and the reduced axis has at most SHORT elements, merging LANES sums would take longer than adding the
 * elements. Then SHORT_COLUMNS outputs are columns, and widening their elements transposes them.
 *
 * In all cases the inner loop is  sum[column] += x[row][column]  over adjacent elements. It vectorises, and no
 * addition waits for the one before; rounding errors grow with ROWS and the number of chunks, not with the length.
 * Elements are first widened to double or 64-bit integers, a block that fits in the cache at a time, so that the loops
 * exist for two types instead of twelve. Chunks count from the start of a launch, so splitting a reduction into several
 * launches may change the last bits of sums. Products and norms stay in range in any order (reduce/state.h). For var
 * and std of floats a column has a pivot, the number of deviations from it, their sum and the sum of their squares; for
 * integers it has exact sums (reduce/moments.h). */
#include "../core/convert.h"
#include "../core/cpu.h"
#include "state.h"

#define ROWS    1024 /* of a chunk */
#define COLUMNS 256  /* of a block at most; 256 accumulators are 2 KiB */
#define LANES   64   /* columns that adjacent elements are taken as */
#define BATCH   4096 /* elements widened at a time: 32 KiB */
#define GROUP   64   /* chunks whose results are kept until they are merged */

#define SHORT         1024 /* most elements of a short row */
#define SHORT_COLUMNS 64   /* short rows of a block */

/* The accumulators of each column:
 *     min, max, argmin, argmax    value: the selected element; index: its position
 *     prod, norm2                 value and index of struct reduce_state
 *     var and std of floats       value: the sum of the deviations from `pivot`; squares: the sum of their squares
 *     var and std of integers     value: the sum; high, low: the sums of the upper and lower 32 bits of the squares
 * `numbers`: the number of elements, without NaNs if these are skipped. */
struct column_sums {
    union {
        double f[COLUMNS];
        int64_t i[COLUMNS];
    } value;
    union {
        int64_t index[COLUMNS];
        double squares[COLUMNS];
        uint64_t high[COLUMNS];
    };
    union {
        double pivot[COLUMNS];
        uint64_t low[COLUMNS];
    };
    double numbers[COLUMNS];
};

/* A matrix of widened elements; element (r, c) has position `position + r * row_step + c * column_step` along the
 * reduced axis. */
struct row_batch {
    int64_t rows, columns, position, row_step, column_step;
    union {
        double f[BATCH];
        int64_t i[BATCH];
    } x;
};

/* Sets each column's `sum` to `statement`, for each element x of the column in turn. */
#define EACH_ROW(type, member, statement)                                                                              \
    for (int64_t r = 0; r < batch->rows; r++) {                                                                        \
        const type *restrict row = batch->x.member + r * batch->columns;                                               \
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {                                             \
            type x = row[c], sum = sums->value.member[c];                                                              \
            sums->value.member[c] = (statement);                                                                       \
        }                                                                                                              \
    }

/* min, max and their positions: `sum` is the best element so far, at `index` (-1: there is none yet). KEEPS is a
 * condition on `sum` and `x`: does `sum` stay? It also decides ties. */
#define EACH_ROW_INDEXED(type, member, KEEPS)                                                                          \
    for (int64_t r = 0; r < batch->rows; r++) {                                                                        \
        const type *restrict row = batch->x.member + r * batch->columns;                                               \
        int64_t position = batch->position + r * batch->row_step, step = batch->column_step;                           \
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {                                             \
            type x = row[c], sum = sums->value.member[c];                                                              \
            int64_t index = sums->index[c];                                                                            \
            bool keep = ((index >= 0) & (KEEPS)) | (skip_nan & (x != x));                                              \
            sums->value.member[c] = keep ? sum : x;                                                                    \
            sums->index[c] = keep ? index : position + c * step;                                                       \
        }                                                                                                              \
    }

/* Splits each element and each product into a mantissa and an exponent; `index` sums the exponents. */
#define EACH_ROW_SPLIT()                                                                                               \
    for (int64_t r = 0; r < batch->rows; r++) {                                                                        \
        const double *restrict row = batch->x.f + r * batch->columns;                                                  \
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {                                             \
            int64_t exponent = sums->index[c];                                                                         \
            double x = reduce_split(row[c], &exponent);                                                                \
            sums->value.f[c] = reduce_split(sums->value.f[c] * x, &exponent);                                          \
            sums->index[c] = exponent;                                                                                 \
        }                                                                                                              \
    }

/* Adds the rows of a batch. A NaN stays, and replaces any number, because every comparison with it is false. Between -0
 * and +0 min keeps -0, and max keeps +0. */
CPU_BODY add_doubles_body(enum reduce_operator operator_, bool skip_nan, const struct row_batch *batch,
                          struct column_sums *sums) {
    switch (operator_) {
    case REDUCE_PROD: EACH_ROW_SPLIT() break;
    case REDUCE_NORM2: EACH_ROW(double, f, sum + x * x) break;
    case REDUCE_MIN:
        EACH_ROW_INDEXED(double, f, (sum < x) | (sum != sum) | ((sum == x) & (sums->value.i[c] < 0))) break;
    case REDUCE_MAX:
        EACH_ROW_INDEXED(double, f, (sum > x) | (sum != sum) | ((sum == x) & (sums->value.i[c] >= 0))) break;
    case REDUCE_ARGMIN: EACH_ROW_INDEXED(double, f, (sum <= x) | (sum != sum)) break;
    case REDUCE_ARGMAX: EACH_ROW_INDEXED(double, f, (sum >= x) | (sum != sum)) break;
    case REDUCE_SUM:
    case REDUCE_MEAN: EACH_ROW(double, f, sum + x) break;
    case REDUCE_VAR:
    case REDUCE_STD:
    case REDUCE_COUNT_NAN:
    case REDUCE_OPERATOR_COUNT: break; /* add_piece calls other loops for these */
    }
}
CPU_VERSIONS(add_doubles,
             (enum reduce_operator operator_, bool skip_nan, const struct row_batch *batch, struct column_sums *sums),
             (operator_, skip_nan, batch, sums))

/* Counts the NaNs, or replaces each NaN by `neutral` and counts the other elements. */
CPU_BODY count_or_replace_nans_body(bool counts_nans, double neutral, struct row_batch *batch,
                                    struct column_sums *sums) {
    for (int64_t r = 0; r < batch->rows; r++) {
        double *restrict row = batch->x.f + r * batch->columns;
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {
            bool is_nan = row[c] != row[c];
            sums->value.i[c] += counts_nans & is_nan;
            sums->numbers[c] += !is_nan;
            row[c] = (is_nan & !counts_nans) ? neutral : row[c];
        }
    }
}
CPU_VERSIONS(count_or_replace_nans,
             (bool counts_nans, double neutral, struct row_batch *batch, struct column_sums *sums),
             (counts_nans, neutral, batch, sums))

/* var and std of floats: adds deviations from the pivot. The first number of a column is its first pivot. */
CPU_BODY add_deviations_body(bool skip_nan, const struct row_batch *batch, struct column_sums *sums) {
    for (int64_t r = 0; r < batch->rows; r++) {
        const double *restrict row = batch->x.f + r * batch->columns;
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {
            double x = row[c], pivot = sums->pivot[c];
            bool skips = skip_nan & (x != x);
            pivot = pivot != pivot ? x : pivot;
            double deviation = skips ? 0 : x - pivot;
            sums->pivot[c] = pivot;
            sums->value.f[c] += deviation;
            sums->squares[c] += deviation * deviation;
            sums->numbers[c] += skips ? 0 : 1;
        }
    }
}
CPU_VERSIONS(add_deviations, (bool skip_nan, const struct row_batch *batch, struct column_sums *sums),
             (skip_nan, batch, sums))

/* var and std of integers up to 32 bits: adds sums and squares, exactly, as a chunk has fewer than 2^32 rows. */
CPU_BODY add_exactly_body(const struct row_batch *batch, struct column_sums *sums) {
    for (int64_t r = 0; r < batch->rows; r++) {
        const int64_t *restrict row = batch->x.i + r * batch->columns;
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {
            const uint64_t square = (uint64_t)row[c] * (uint64_t)row[c];
            sums->value.i[c] += row[c];
            sums->high[c] += square >> 32;
            sums->low[c] += square & UINT32_MAX;
        }
    }
}
CPU_VERSIONS(add_exactly, (const struct row_batch *batch, struct column_sums *sums), (batch, sums))

/* norm2 of float64: raises each column to the level of its largest element, and scales the elements to that level
 * (reduce/state.h). */
CPU_BODY scale_columns_body(struct row_batch *batch, struct column_sums *sums) {
    double largest[COLUMNS] = {0}, scale[COLUMNS];
    for (int64_t r = 0; r < batch->rows; r++) {
        const double *restrict row = batch->x.f + r * batch->columns;
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) {
            double magnitude = fabs(row[c]);
            largest[c] = magnitude > largest[c] ? magnitude : largest[c];
        }
    }
    for (int64_t c = 0; c < batch->columns; c++) {
        int64_t level = reduce_square_level(largest[c]);
        if (level > sums->index[c]) {
            sums->value.f[c] = reduce_square_sum(sums->value.f[c], sums->index[c], level);
            sums->index[c] = level;
        }
        scale[c] = reduce_square_scale(sums->index[c]);
    }
    for (int64_t r = 0; r < batch->rows; r++) {
        double *restrict row = batch->x.f + r * batch->columns;
        _Pragma("omp simd") for (int64_t c = 0; c < batch->columns; c++) row[c] *= scale[c];
    }
}
CPU_VERSIONS(scale_columns, (struct row_batch * batch, struct column_sums *sums), (batch, sums))

/* Adds the rows of a batch of integers. Sums and products are computed as uint64_t, whose overflow is defined: modulo
 * 2^64. */
CPU_BODY add_integers_body(enum reduce_operator operator_, const struct row_batch *batch, struct column_sums *sums) {
    const bool skip_nan = false; /* EACH_ROW_INDEXED reads it; an integer is never NaN */
    switch (operator_) {
    case REDUCE_PROD: EACH_ROW(int64_t, i, (int64_t)((uint64_t)sum * (uint64_t)x)) break;
    case REDUCE_MIN:
    case REDUCE_ARGMIN: EACH_ROW_INDEXED(int64_t, i, sum <= x) break;
    case REDUCE_MAX:
    case REDUCE_ARGMAX: EACH_ROW_INDEXED(int64_t, i, sum >= x) break;
    case REDUCE_SUM: EACH_ROW(int64_t, i, (int64_t)((uint64_t)sum + (uint64_t)x)) break;
    case REDUCE_MEAN:
    case REDUCE_NORM2:
    case REDUCE_VAR:
    case REDUCE_STD:
    case REDUCE_COUNT_NAN:
    case REDUCE_OPERATOR_COUNT: break; /* add_piece calls other loops for these */
    }
}
CPU_VERSIONS(add_integers, (enum reduce_operator operator_, const struct row_batch *batch, struct column_sums *sums),
             (operator_, batch, sums))

/* A launch, and what follows from its arguments. */
struct blocked_work {
    const struct reduce_args *args;
    enum dtype dtype;
    struct reduction reduction;
    bool moments;           /* the state is struct reduce_moments */
    bool in_double;         /* elements are widened to double, not to int64_t */
    bool flips;             /* uint64 is compared as int64, with the top bit inverted */
    bool scales;            /* norm2 of float64: squares may overflow or underflow */
    bool is_short;          /* the outputs of short rows are columns: one slice, inner is the launch's outer */
    int64_t inner;          /* outputs of a slice */
    int64_t columns;        /* of a block; the last block of a slice may have fewer */
    int64_t blocks, chunks; /* blocks of columns in an outer slice; chunks of rows along the length */
    int64_t chunk_length;
};

/* Adds a batch's elements to the sums by the operator's loop; changes the batch. */
static void add_batch(const struct blocked_work *work, struct row_batch *batch, struct column_sums *sums) {
    enum reduce_operator operator_ = work->args->operator_;
    bool skip_nan = work->args->skip_nan;
    if (operator_ == REDUCE_COUNT_NAN) {
        if (work->in_double) count_or_replace_nans(true, 0, batch, sums);
        return;
    }
    if (reduce_is_variance(operator_)) {
        if (work->in_double)
            add_deviations(skip_nan, batch, sums);
        else
            add_exactly(batch, sums);
        return;
    }
    if (skip_nan && !reduce_selects(operator_)) count_or_replace_nans(false, operator_ == REDUCE_PROD, batch, sums);
    if (work->scales) scale_columns(batch, sums);
    if (work->in_double) {
        add_doubles(operator_, skip_nan, batch, sums);
        return;
    }
    if (work->flips)
        for (int64_t e = 0; e < batch->rows * batch->columns; e++) batch->x.i[e] ^= INT64_MIN;
    add_integers(work->args->operator_, batch, sums);
}

/* Widens `count` adjacent elements of x, from `element` on, into the batch, from its element `at` on. */
static void widen(const struct blocked_work *work, int64_t element, int64_t count, struct row_batch *batch,
                  int64_t at) {
    const char *x = (const char *)work->args->x + element * (int64_t)dtype_size(work->dtype);
    if (work->in_double)
        convert_to_double(work->dtype, x, count, batch->x.f + at);
    else
        convert_to_integer(work->dtype, x, count, batch->x.i + at);
}

/* Moves the pivots of var and std to the means so far. */
static void recentre(struct column_sums *sums, int64_t columns) {
    for (int64_t c = 0; c < columns; c++)
        if (sums->numbers[c] > 0)
            moments_recentre(&sums->pivot[c], sums->numbers[c], &sums->value.f[c], &sums->squares[c]);
}

/* Widens `rows` elements of each short row, from `element` on in the first row, into a column of the batch. */
static void widen_short(const struct blocked_work *work, int64_t element, int64_t rows, struct row_batch *batch) {
    struct row_batch lines; /* [column][row] */
    for (int64_t c = 0; c < batch->columns; c++) widen(work, element + c * work->args->length, rows, &lines, c * rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < batch->columns; c++) batch->x.i[r * batch->columns + c] = lines.x.i[c * rows + r];
}

/* Adds a matrix of x, whose rows begin `pitch` elements after each other, batch by batch. */
static void add_matrix(const struct blocked_work *work, int64_t element, int64_t rows, int64_t pitch,
                       struct row_batch *batch, struct column_sums *sums) {
    int64_t columns = batch->columns;
    bool deviates = reduce_is_variance(work->args->operator_) && work->in_double;
    /* The number of rows after which pivots move first. It is the same in narrower blocks, so that the bits are. */
    int64_t first = BATCH / (batch->column_step ? LANES : work->columns);
    for (int64_t row = 0, due = 0; row < rows; row += batch->rows) {
        if (deviates && row == due) { /* after 1, 2, 4 ... times `first` rows */
            recentre(sums, columns);
            due = row > 0 ? 2 * row : first;
        }
        batch->rows = min_int64(BATCH / columns, (deviates ? min_int64(due, rows) : rows) - row);
        if (work->is_short)
            widen_short(work, element + row, batch->rows, batch);
        else if (pitch == columns)
            widen(work, element + row * pitch, batch->rows * columns, batch, 0);
        else
            for (int64_t r = 0; r < batch->rows; r++)
                widen(work, element + (row + r) * pitch, columns, batch, r * columns);
        add_batch(work, batch, sums);
        if (deviates && row == 0) { /* adds the first batch once more, about its mean */
            recentre(sums, columns);
            for (int64_t c = 0; c < columns; c++) sums->value.f[c] = sums->squares[c] = sums->numbers[c] = 0;
            add_batch(work, batch, sums);
        }
        batch->position += batch->rows * batch->row_step;
    }
}

/* Converts the sums of a column to the state that can be merged with states of other chunks (reduce/state.h). */
static union reduce_any column_state(const struct blocked_work *work, const struct column_sums *sums, int64_t column) {
    union reduce_any any = {.moments = {0}};
    struct reduce_state state = {.index = sums->index[column]};
    if (work->moments && !reduce_is_variance(work->args->operator_)) {
        any.moments.count = (int64_t)sums->numbers[column];
        any.moments.total.sum = sums->value.f[column];
        return any;
    }
    if (work->moments && work->in_double) {
        any.moments = moments_of(sums->pivot[column], (int64_t)sums->numbers[column], sums->value.f[column],
                                 sums->squares[column]);
        return any;
    }
    if (work->moments) {
        wide_uint squares = ((wide_uint)sums->high[column] << 32) + sums->low[column];
        moments_add_exact(&any.moments, sums->value.i[column], squares, 0);
        return any;
    }
    if (work->in_double && work->args->operator_ != REDUCE_COUNT_NAN)
        state.value.f = sums->value.f[column];
    else
        state.value.i = work->flips ? sums->value.i[column] ^ INT64_MIN : sums->value.i[column];
    any.state = state;
    return any;
}

/* The number of columns of block `block`; the last one may have fewer. */
static int64_t block_columns(const struct blocked_work *work, int64_t block) {
    return min_int64(work->columns, work->inner - block * work->columns);
}

/* Reduces `count` adjacent elements one by one, for fewer than LANES. */
static union reduce_any reduce_few(const struct blocked_work *work, int64_t element, int64_t count, int64_t position) {
    union reduce_any sum = reduce_empty(&work->reduction);
    for (int64_t i = 0; i < count; i++) reduce_add(&work->reduction, &sum, element + i, position + i);
    return sum;
}

/* Reduces elements one by one for var and std of 64-bit integers, whose squares fit no vector. */
static void reduce_wide_integers(const struct blocked_work *work, int64_t element, int64_t rows, int64_t columns,
                                 union reduce_any *states) {
    const int64_t row_stride = work->args->inner, column_stride = work->is_short ? work->args->length : 1;
    for (int64_t c = 0; c < columns; c++) states[c] = reduce_empty(&work->reduction);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            reduce_add(&work->reduction, &states[c], element + r * row_stride + c * column_stride, 0);
}

/* Clears the sums of `columns` columns, as the bodies that add to them expect (struct column_sums). */
static void clear_sums(const struct blocked_work *work, int64_t columns, struct column_sums *sums) {
    struct reduce_state empty = reduce_state_empty(work->args->operator_, work->dtype);
    bool plain_squares = work->args->operator_ == REDUCE_NORM2 && !work->scales;
    for (int64_t c = 0; c < columns; c++) {
        sums->value.i[c] = work->moments ? 0 : empty.value.i;
        sums->index[c] = plain_squares || work->moments ? 0 : empty.index;
        sums->numbers[c] = 0;
        if (work->in_double) sums->pivot[c] = NAN;
        if (!work->in_double) sums->low[c] = 0;
    }
}

/* Reduces a chunk of a block (blocks are counted over all outer slices) to a state for each column. A long last axis is
 * one column: LANES neighbours along it are reduced like columns, whose states are then merged. */
static void reduce_chunk(const struct blocked_work *work, int64_t block, int64_t chunk, union reduce_any *states) {
    const struct reduce_args *args = work->args;
    int64_t start = chunk * work->chunk_length, length = min_int64(work->chunk_length, args->length - start);
    int64_t outer = block / work->blocks, column = block % work->blocks * work->columns;
    int64_t element =
        work->is_short ? column * args->length + start : (outer * args->length + start) * args->inner + column;
    int64_t position = args->offset + start;
    bool lanes = args->inner == 1 && !work->is_short;
    if (lanes && length < LANES) {
        states[0] = reduce_few(work, element, length, position);
        return;
    }
    if (reduce_is_variance(args->operator_) && !dtype_is_float(work->dtype) && dtype_size(work->dtype) == 8) {
        int64_t columns = lanes ? 1 : block_columns(work, block % work->blocks);
        reduce_wide_integers(work, element, length, columns, states);
        return;
    }
    struct row_batch batch; /* without an initialiser, which would clear 32 KiB */
    struct column_sums sums;
    batch.columns = lanes ? LANES : block_columns(work, block % work->blocks);
    batch.position = position;
    batch.row_step = lanes ? LANES : 1;
    batch.column_step = lanes;
    clear_sums(work, batch.columns, &sums);
    add_matrix(work, element, lanes ? length / LANES : length, lanes ? LANES : args->inner, &batch, &sums);
    if (!lanes) {
        for (int64_t c = 0; c < batch.columns; c++) states[c] = column_state(work, &sums, c);
        return;
    }
    int64_t rest = length % LANES;
    states[0] = reduce_few(work, element + length - rest, rest, position + length - rest);
    for (int64_t c = 0; c < LANES; c++) {
        union reduce_any lane = column_state(work, &sums, c);
        reduce_merge(&work->reduction, &states[0], &lane);
    }
}

/* Merges the states of a block's next chunk into the outputs' states; the last chunk of the last launch stores the
 * results. */
static void merge_chunk(const struct blocked_work *work, int64_t block, int64_t chunk, const union reduce_any *states) {
    const struct reduce_args *args = work->args;
    struct reduce_args end = *args;
    const struct reduction merged = {&end, work->dtype};
    end.first = args->first && chunk == 0;
    end.last = args->last && chunk == work->chunks - 1;
    int64_t columns = block_columns(work, block % work->blocks);
    int64_t out = block / work->blocks * work->inner + block % work->blocks * work->columns;
    for (int64_t c = 0; c < columns; c++, out++) {
        union reduce_any sum = reduce_load(&merged, out);
        reduce_merge(&merged, &sum, &states[c]);
        reduce_store(&merged, &sum, out);
    }
}

/* Divides a launch into blocks of columns and chunks of the reduced axis. */
static struct blocked_work divide_work(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    struct blocked_work work = {.args = args, .dtype = launch->dtype, .reduction = {args, launch->dtype}};
    work.moments = reduce_has_moments(args->operator_, args->skip_nan);
    work.in_double = args->operator_ == REDUCE_COUNT_NAN ? dtype_is_float(launch->dtype)
                                                         : reduce_in_double(args->operator_, launch->dtype);
    work.scales = args->operator_ == REDUCE_NORM2 && launch->dtype == FLOAT64;
    work.flips = launch->dtype == UINT64 && reduce_selects(args->operator_);
    work.is_short = args->inner == 1 && args->total <= SHORT;
    work.inner = work.is_short ? args->outer : args->inner;
    work.columns = work.is_short ? SHORT_COLUMNS : COLUMNS;
    work.chunk_length = args->inner == 1 && !work.is_short ? ROWS * LANES : ROWS;
    work.blocks = ceil_div(work.inner, work.columns);
    work.chunks = args->length > 0 ? ceil_div(args->length, work.chunk_length) : 1;
    return work;
}

/* Reduces all chunks of all blocks in parallel. Merges their states in the order of the chunks, GROUP at a time, so
 * that the result does not depend on the threads. */
static int reduce_blocked_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    const struct blocked_work work = divide_work(launch);
    int64_t blocks = (work.is_short ? 1 : args->outer) * work.blocks, shares = blocks * work.chunks;
    const int threads = cpu_threads(launch, (double)(args->outer * args->length * args->inner));
    (void)threads; /* without OpenMP nothing uses it */
    if (work.chunks == 1) {
#pragma omp parallel for num_threads(threads)
        for (int64_t block = 0; block < blocks; block++) {
            union reduce_any states[COLUMNS];
            reduce_chunk(&work, block, 0, states);
            merge_chunk(&work, block, 0, states);
        }
        return 0;
    }
    union reduce_any states[GROUP][COLUMNS];
    for (int64_t group = 0; group < shares; group += GROUP) {
        int64_t count = min_int64(GROUP, shares - group);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int64_t i = 0; i < count; i++)
            reduce_chunk(&work, (group + i) / work.chunks, (group + i) % work.chunks, states[i]);
        for (int64_t i = 0; i < count; i++)
            merge_chunk(&work, (group + i) / work.chunks, (group + i) % work.chunks, states[i]);
    }
    return 0;
}

KERNEL(reduce_blocked) = {
    .name = "blocked",
    .op = OP_REDUCE,
    .device = DEVICE_CPU,
    .summary = "vectorised chunks, which several threads take and which are merged in one order",
    .dtypes = DTYPES_ALL,
    .operators = REDUCE_ALL_OPERATORS,
    .edges = {{GROUP}, {LANES, SHORT, ROWS, BATCH, ROWS *LANES}, {COLUMNS, BATCH / COLUMNS}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .roof_share = 0.5, /* measured on two Xeon cores: 0.24 to 0.78 */
    .divisible = true,
    .launch = reduce_blocked_launch,
};
