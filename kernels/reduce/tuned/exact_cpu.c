/* exact_cpu.c - sums and means that are rounded once, correctly: the same bits whatever the tiles, the threads and the
 * device. exact.h has the accumulator, exact_bins.h the fast way into it; exact.cu is the same on a GPU.
 *
 * Lanes are the columns of a block or, if the reduced axis is the last, neighbours along it. Each lane has bins of its
 * own, so that a vector instruction adds to several lanes. If the numbers of a lane do not fit its bins, they are added
 * one by one and replaced by zeros in the batch, so that add_rows still adds the other lanes' numbers. The key of a
 * number (exact_bins.h) decides whether it fits.
 *
 * A share of the work is a block of lanes and a chunk of the reduced axis. If an output has several shares or launches,
 * all of them add to its accumulator in the workspace. */
#include "exact_bins.h"

#include "../../core/convert.h"
#include "../../core/cpu.h"

#define LANES    16
#define BATCH    64          /* rows of lanes */
#define CHUNK    (64 * 1024) /* elements of the reduced axis in one share */
#define SHORT    (4 * LANES) /* a row of at most this many elements uses one lane */
#define ADJACENT 1           /* the stride between the words of an accumulator here; on a GPU it is a block's threads */

/* A launch, and what follows from its arguments. */
struct exact_work {
    const struct reduce_args *args;
    enum dtype dtype;
    struct exact_type type;
    int64_t blocks, chunks; /* blocks of columns, chunks of the reduced axis */
    int64_t *sums;          /* [outputs][words]; NULL: a share finishes its outputs */
    int words;
};

/* The sums of one share, in bins and accumulators for each lane. */
struct lane_sums {
    int64_t count;
    struct exact_bins bins[LANES];
    int64_t limbs[LANES][EXACT_MAX_WORDS];
};

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* Finds the largest key of each lane, and its smallest key minus 1 (exact_bins_fit says why). The callers pass a
 * constant type, and mostly a constant number of lanes, so that the compiler unrolls the loops. */
CPU_BODY find_keys_of(struct exact_type type, const double *x, int64_t rows, int64_t count, uint32_t *largest,
                      uint32_t *smallest_minus_1) {
    for (int64_t c = 0; c < count; c++) largest[c] = 0, smallest_minus_1[c] = UINT32_MAX;
    for (int64_t r = 0; r < rows; r++, x += count) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            const uint32_t key = exact_key(type, x[c]);
            largest[c] = largest[c] > key ? largest[c] : key;
            smallest_minus_1[c] = smallest_minus_1[c] < key - 1 ? smallest_minus_1[c] : key - 1;
        }
    }
}

/* Calls find_keys_of with constants for the frequent cases, so that the compiler unrolls its loops. */
CPU_BODY find_keys_body(bool wide, const double *x, int64_t rows, int64_t count, uint32_t *largest,
                        uint32_t *smallest_minus_1) {
    if (!wide && count == LANES)
        find_keys_of(exact_type_of(FLOAT32), x, rows, LANES, largest, smallest_minus_1);
    else if (!wide)
        find_keys_of(exact_type_of(FLOAT32), x, rows, count, largest, smallest_minus_1);
    else if (count == LANES)
        find_keys_of(exact_type_of(FLOAT64), x, rows, LANES, largest, smallest_minus_1);
    else
        find_keys_of(exact_type_of(FLOAT64), x, rows, count, largest, smallest_minus_1);
}
CPU_VERSIONS(find_keys,
             (bool wide, const double *x, int64_t rows, int64_t count, uint32_t *largest, uint32_t *smallest_minus_1),
             (wide, x, rows, count, largest, smallest_minus_1))

/* Adds rows to the bins of all lanes: bin[i][c] is bin number i of lane c. */
CPU_BODY add_rows_of(int bins, const double *x, int64_t rows, int64_t count, double (*bin)[LANES]) {
    for (int64_t r = 0; r < rows; r++, x += count) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            double rest = x[c];
            for (int i = 0; i < bins - 1; i++) rest = exact_bin_add(&bin[i][c], rest);
            bin[bins - 1][c] += rest;
        }
    }
}

/* Calls add_rows_of with constants for the frequent cases, so that the compiler unrolls its loops. */
CPU_BODY add_rows_body(int bins, const double *x, int64_t rows, int64_t count, double (*bin)[LANES]) {
    if (bins == 1)
        add_rows_of(1, x, rows, count, bin);
    else if (bins == 2 && count == LANES)
        add_rows_of(2, x, rows, LANES, bin);
    else if (bins == 2)
        add_rows_of(2, x, rows, count, bin);
    else
        add_rows_of(3, x, rows, count, bin);
}
CPU_VERSIONS(add_rows, (int bins, const double *x, int64_t rows, int64_t count, double (*bin)[LANES]),
             (bins, x, rows, count, bin))

/* Adds x[rows][lanes] to the bins of the lanes; x is overwritten. */
static void add_batch(struct exact_type type, struct lane_sums *lanes, double *x, int64_t rows) {
    uint32_t largest[LANES], smallest_minus_1[LANES];
    double bin[EXACT_BINS][LANES];
    find_keys(type.digits == 53, x, rows, lanes->count, largest, smallest_minus_1);
    for (int64_t c = 0; c < lanes->count; c++) {
        struct exact_bins *bins = &lanes->bins[c];
        if (!exact_bins_fit(bins, largest[c], smallest_minus_1[c]))
            exact_bins_move(type, bins, lanes->limbs[c], ADJACENT, largest[c]);
        exact_bins_reserve(type, bins, lanes->limbs[c], ADJACENT, (int)rows);
        if (!exact_bins_fit(bins, largest[c], smallest_minus_1[c]))
            for (int64_t r = 0; r < rows; r++) {
                exact_bins_add_any(type, bins, lanes->limbs[c], ADJACENT, x[r * lanes->count + c]);
                x[r * lanes->count + c] = 0;
            }
        for (int i = 0; i < type.bins; i++) bin[i][c] = bins->bin[i];
    }
    add_rows(type.bins, x, rows, lanes->count, bin);
    for (int64_t c = 0; c < lanes->count; c++)
        for (int i = 0; i < type.bins; i++) lanes->bins[c].bin[i] = bin[i][c];
}

/* ---- a share ----------------------------------------------------------------------------------------------------- */

/* Adds the lanes' columns of `length` rows; the first row begins at element `element` of x. */
static void add_columns(const struct exact_work *work, struct lane_sums *lanes, int64_t element, int64_t length) {
    const char *x = work->args->x;
    int64_t size = (int64_t)dtype_size(work->dtype);
    double batch[BATCH * LANES];
    for (int64_t row = 0; row < length; row += BATCH) {
        int64_t rows = min_int64(BATCH, length - row);
        for (int64_t r = 0; r < rows; r++)
            convert_to_double(work->dtype, x + (element + (row + r) * work->args->inner) * size, lanes->count,
                              batch + r * lanes->count);
        add_batch(work->type, lanes, batch, rows);
    }
}

/* Adds `length` adjacent elements from `element` on, dealt out to the lanes one after another. Zeros fill the last
 * row. */
static void add_neighbours(const struct exact_work *work, struct lane_sums *lanes, int64_t element, int64_t length) {
    const char *x = work->args->x;
    int64_t size = (int64_t)dtype_size(work->dtype);
    double batch[BATCH * LANES];
    for (int64_t at = 0; at < length; at += BATCH * lanes->count) {
        int64_t count = min_int64(BATCH * lanes->count, length - at), rows = ceil_div(count, lanes->count);
        convert_to_double(work->dtype, x + (element + at) * size, count, batch);
        for (int64_t i = count; i < rows * lanes->count; i++) batch[i] = 0;
        add_batch(work->type, lanes, batch, rows);
    }
}

/* Rounds an accumulator and stores the result. Destroys the limbs. */
static void store(const struct exact_work *work, int64_t output, int64_t *limbs) {
    const struct reduce_args *args = work->args;
    const size_t size = dtype_size(work->dtype);
    int64_t divisor = args->operator_ == REDUCE_MEAN ? args->total : 1;
    uint64_t bits = exact_round(work->type, limbs, ADJACENT, divisor);
    memcpy((char *)args->y + (size_t)output * size, &bits, size); /* the low bytes come first */
}

/* Adds one accumulator to another. The word after the limbs holds flags, which are combined by OR. `alone`: no other
 * thread writes `to`, so the additions need not be atomic. */
static void add_to(const struct exact_work *work, int64_t *to, const int64_t *limbs, bool alone) {
    for (int i = 0; i < work->words; i++) {
        if (limbs[i] == 0) continue;
        const bool is_flags = i == work->type.limbs;
        if (alone) {
            to[i] = is_flags ? to[i] | limbs[i] : to[i] + limbs[i];
        } else if (is_flags) {
#pragma omp atomic
            to[i] |= limbs[i];
        } else {
#pragma omp atomic
            to[i] += limbs[i];
        }
    }
}

/* Sums one chunk of one block of lanes. Stores the results, or, if other shares add to the same outputs, adds the sums
 * to the accumulators in the workspace. */
static void sum_share(const struct exact_work *work, int64_t block, int64_t chunk) {
    const struct reduce_args *args = work->args;
    int64_t start = chunk * CHUNK, length = min_int64(CHUNK, args->length - start);
    int64_t outer = block / work->blocks, column = block % work->blocks * LANES;
    int64_t element = (outer * args->length + start) * args->inner + column, output = outer * args->inner + column;
    bool along = args->inner == 1; /* the reduced axis is the last: lanes are neighbours on it */
    struct lane_sums lanes;        /* without an initialiser: only what is used is cleared */
    lanes.count = along ? (length > SHORT ? LANES : 1) : min_int64(LANES, args->inner - column);
    for (int64_t c = 0; c < lanes.count; c++) {
        exact_bins_begin(work->type, &lanes.bins[c]);
        memset(lanes.limbs[c], 0, (size_t)work->words * sizeof lanes.limbs[c][0]);
    }
    (along ? add_neighbours : add_columns)(work, &lanes, element, length);
    for (int64_t c = 0; c < lanes.count; c++) {
        exact_bins_empty(work->type, &lanes.bins[c], lanes.limbs[c], ADJACENT);
        exact_carry(work->type, lanes.limbs[c], ADJACENT);
        if (along && c > 0) add_to(work, lanes.limbs[0], lanes.limbs[c], true);
    }
    for (int64_t c = 0; c < (along ? 1 : lanes.count); c++)
        if (work->sums)
            add_to(work, work->sums + (output + c) * work->words, lanes.limbs[c], false);
        else
            store(work, output + c, lanes.limbs[c]);
}

/* ---- a launch ---------------------------------------------------------------------------------------------------- */

/* Do several shares or launches add to one output? The answer is the same for all launches of a run: if tiles divide
 * the reduced axis, every launch is shorter than the whole axis. */
static bool is_shared(const struct reduce_args *args) {
    return args->length < args->total || args->length > CHUNK;
}

/* The bytes of an accumulator for each output, if outputs are shared. */
static size_t reduce_exact_cpu_workspace(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    size_t words = (size_t)exact_words(launch->dtype);
    return is_shared(args) ? (size_t)(args->outer * args->inner) * words * sizeof(int64_t) : 0;
}

/* Sums all shares. If outputs have accumulators in the workspace, the last launch rounds and stores these. */
static int reduce_exact_cpu_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    struct exact_work work = {.args = args, .dtype = launch->dtype, .type = exact_type_of(launch->dtype)};
    work.words = exact_words(launch->dtype);
    work.blocks = ceil_div(args->inner, LANES);
    work.chunks = args->length > CHUNK ? ceil_div(args->length, CHUNK) : 1;
    work.sums = is_shared(args) ? launch->workspace : NULL;
    int64_t blocks = args->outer * work.blocks, outputs = args->outer * args->inner;
    const int threads = cpu_threads(launch, (double)(outputs * args->length));
    (void)threads; /* without OpenMP nothing uses it */
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(threads)
    for (int64_t block = 0; block < blocks; block++)
        for (int64_t chunk = 0; chunk < work.chunks; chunk++) sum_share(&work, block, chunk);
    if (!work.sums) return 0;
#pragma omp parallel for num_threads(threads)
    for (int64_t output = 0; output < outputs; output++) {
        int64_t *sum = work.sums + output * work.words;
        if (!args->last) {
            exact_carry(work.type, sum, ADJACENT);
        } else {
            store(&work, output, sum);
            memset(sum, 0, (size_t)work.words * sizeof *sum); /* zero for the next tile, as kernel.h asks */
        }
    }
    return 0;
}

static const char *reduce_exact_cpu_refuses(const struct launch *launch) {
    return launch->args.reduce.skip_nan ? "exact sums do not skip NaNs" : NULL;
}

KERNEL(reduce_exact_cpu) = {
    .name = "exact_cpu",
    .op = OP_REDUCE,
    .device = DEVICE_CPU,
    .summary = "sums and means of floats rounded once: the same bits on any device, in any tiles",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN),
    .edges = {{1}, {SHORT, BATCH, BIN_NUMBERS, BATCH *LANES, CHUNK}, {LANES}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .workspace = reduce_exact_cpu_workspace,
    .refuses = reduce_exact_cpu_refuses,
    .launch = reduce_exact_cpu_launch,
};
