/* matmul/op.c - C = alpha A B: [m,k] x [k,n], stacks of matrices, and a stack with one matrix. */
#include "../core/reference.h"

#include "../core/cpu.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reports inputs whose types or shapes cannot be multiplied. */
static enum status check(const struct op_options *options, const struct shape shapes[], const enum dtype dtypes[],
                         struct error *error) {
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    for (int i = 0; i < 2; i++) {
        if (!dtype_is_float(dtypes[i]))
            return fail_key(error, "inputs", i,
                            "matmul takes float types, input %d is %s: `dtype: float32` of the input converts it",
                            i + 1, dtype_name(dtypes[i]));
        if (shapes[i].rank < 2)
            return fail_key(error, "inputs", i, "matmul takes matrices or stacks of them, input %d has shape %s", i + 1,
                            shape_format(&shapes[i], a));
    }
    if (dtypes[0] != dtypes[1])
        return fail_key(error, "inputs", 1, "matmul takes two inputs of one type, not %s and %s", dtype_name(dtypes[0]),
                        dtype_name(dtypes[1]));
    int64_t k_of_a = shapes[0].size[shapes[0].rank - (options->transpose_a ? 2 : 1)];
    int64_t k_of_b = shapes[1].size[shapes[1].rank - (options->transpose_b ? 1 : 2)];
    if (k_of_a != k_of_b)
        return fail_key(error, "inputs", 1, "inner dimensions differ: %s%s x %s%s (%lld and %lld)",
                        shape_format(&shapes[0], a), options->transpose_a ? " transposed" : "",
                        shape_format(&shapes[1], b), options->transpose_b ? " transposed" : "", (long long)k_of_a,
                        (long long)k_of_b);
    if (shapes[0].rank == 3 && shapes[1].rank == 3 && shapes[0].size[0] != shapes[1].size[0])
        return fail_key(error, "inputs", 1, "the stacks have different numbers of matrices: %s x %s",
                        shape_format(&shapes[0], a), shape_format(&shapes[1], b));
    return STATUS_OK;
}

/* Names the loops along an operand's axes and takes over their extents. */
static struct operand operand_of(const struct shape *shape, enum dtype dtype, enum loop row, enum loop column,
                                 int64_t extent[LOOPS]) {
    struct operand operand = {.dtype = dtype, .shape = *shape};
    enum loop *loop = operand.loop;
    if (shape->rank == 3) *loop++ = LOOP_B;
    loop[0] = row, loop[1] = column;
    for (int axis = 0; axis < shape->rank; axis++) extent[operand.loop[axis]] = shape->size[axis];
    return operand;
}

/* The type that sums of products are kept in. */
static enum dtype accumulator_of(enum dtype dtype) {
    return dtype == FLOAT64 ? FLOAT64 : FLOAT32;
}

/* Writes "512x512x512" (m, n and k), or "8x512x512x512" for a stack of 8 matrices. */
static void format_loops(const int64_t extent[LOOPS], bool stack, char shape_text[SHAPE_TEXT]) {
    const struct shape mnk = {3, {extent[LOOP_M], extent[LOOP_N], extent[LOOP_K]}};
    int length = stack ? snprintf(shape_text, SHAPE_TEXT, "%lldx", (long long)extent[LOOP_B]) : 0;
    char text[SHAPE_TEXT];
    snprintf(shape_text + length, SHAPE_TEXT - (size_t)length, "%s", shape_format(&mnk, text));
}

/* operation->geometry, for matrices and for stacks along one axis. */
static enum status matmul_geometry(const struct op_options *options, const struct shape shapes[],
                                   const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    TRY(check(options, shapes, dtypes, error));
    enum dtype dtype = dtypes[0];
    *geometry = (struct geometry){.op = OP_MATMUL, .options = *options, .extent = {1, 1, 1, 1}, .inputs = 2};
    int64_t *extent = geometry->extent;
    bool ta = options->transpose_a, tb = options->transpose_b;
    geometry->in[0] = operand_of(&shapes[0], dtype, ta ? LOOP_K : LOOP_M, ta ? LOOP_M : LOOP_K, extent);
    geometry->in[1] = operand_of(&shapes[1], dtype, tb ? LOOP_N : LOOP_K, tb ? LOOP_K : LOOP_N, extent);
    bool stack = shapes[0].rank == 3 || shapes[1].rank == 3;
    int64_t b = extent[LOOP_B], m = extent[LOOP_M], n = extent[LOOP_N], k = extent[LOOP_K];
    struct shape out = stack ? (struct shape){3, {b, m, n}} : (struct shape){2, {m, n}};
    if (!shape_countable(&out))
        return fail_key(error, "inputs", 1, "the product has more elements than 64 bits can count");
    geometry->out = operand_of(&out, dtype, LOOP_M, LOOP_N, extent);
    geometry->reduces[LOOP_K] = true;
    enum dtype accumulator = accumulator_of(dtype);
    geometry->partial_size = accumulator == dtype ? 0 : dtype_size(accumulator);
    geometry->flops = 2.0 * (double)b * (double)m * (double)n * (double)k;
    geometry->bytes = (double)dtype_size(dtype) * ((double)shape_elements(&shapes[0]) +
                                                   (double)shape_elements(&shapes[1]) + (double)shape_elements(&out));
    format_loops(extent, stack, geometry->shape_text);
    return STATUS_OK;
}

static enum dtype matmul_computes_in(const struct op_options *options, const enum dtype dtypes[], enum dtype as) {
    (void)options;
    return dtype_is_float(as) ? dtype_common(as, dtypes, 2) : DTYPE_COUNT;
}

/* operation->launch. If the result's type also holds the sums, C takes the place of `partial`. */
static void matmul_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                          const void *const in[], void *partial, void *out, struct launch *launch) {
    const int64_t *count = tile->count;
    launch->op = OP_MATMUL;
    launch->dtype = geometry->in[0].dtype;
    launch->args.matmul = (struct matmul_args){
        .batch = count[LOOP_B],
        .m = count[LOOP_M],
        .n = count[LOOP_N],
        .k = count[LOOP_K],
        .a = in[0],
        .b = in[1],
        .a_batch_stride = geometry->in[0].shape.rank == 3 ? count[LOOP_M] * count[LOOP_K] : 0,
        .b_batch_stride = geometry->in[1].shape.rank == 3 ? count[LOOP_K] * count[LOOP_N] : 0,
        .transpose_a = geometry->options.transpose_a,
        .transpose_b = geometry->options.transpose_b,
        .alpha = geometry->options.alpha,
        .partial = geometry->partial_size ? partial : out,
        .c = out,
        .first = first,
        .last = last,
    };
}

/* ---- the truth --------------------------------------------------------------------------------------------------- */

#define BLOCK  512  /* rows and columns of the output that are summed at a time */
#define PANEL  1024 /* elements of k that are read at a time for a full block; a smaller block reads more of k */
#define RUN    64   /* adjacent elements of a row or column of the output that one thread sums */
#define CACHED 64   /* elements of k that are added to a run at a time: these operands stay in the L1 cache */

struct element_sums {
    long double value;
    double magnitude; /* the sum of the absolute products of finite elements */
    double plain; /* the sum as the plain loop computes it: one product after the other, in the accumulator's type */
};

/* The sums of up to RUN adjacent elements of the output. A long double has 11 bits more than the float64 results
 * that it judges; products of narrower types are exact in double, so `value` suffices for them. (Rounding `plain`
 * through double loses nothing that matters: it only measures the size of errors.) */
struct run_sums {
    long double wide[RUN];
    double value[RUN], magnitude[RUN], plain[RUN];
};

/* Does the part of add_run (below) for its wide sums. Keeps four sums in registers, because loading and storing a sum
 * takes longer than adding to it. */
static void add_wide(int64_t k, const double *left, int64_t stride, const double *right, int64_t pitch, int64_t count,
                     long double *sums) {
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        long double sum0 = sums[j], sum1 = sums[j + 1], sum2 = sums[j + 2], sum3 = sums[j + 3];
        for (int64_t p = 0; p < k; p++) {
            const double *x = right + p * pitch + j;
            long double factor = left[p * stride];
            sum0 += factor * x[0], sum1 += factor * x[1], sum2 += factor * x[2], sum3 += factor * x[3];
        }
        sums[j] = sum0, sums[j + 1] = sum1, sums[j + 2] = sum2, sums[j + 3] = sum3;
    }
    for (; j < count; j++)
        for (int64_t p = 0; p < k; p++) sums[j] += (long double)left[p * stride] * right[p * pitch + j];
}

/* Adds left[p * stride] * right[p * pitch + j] for all p < k to sum j of the run, for all j < count. `wide`: sums are
 * of type float64, so that run->wide takes the place of run->value, and `plain` is not rounded to float. */
CPU_BODY add_run_body(bool wide, int64_t k, const double *left, int64_t stride, const double *right, int64_t pitch,
                      int64_t count, struct run_sums *run) {
    double *value = run->value, *magnitude = run->magnitude, *plain = run->plain;
    for (int64_t p = 0; wide && p < k; p += CACHED)
        add_wide(min_int64(CACHED, k - p), left + p * stride, stride, right + p * pitch, pitch, count, run->wide);
    for (int64_t p = 0; p < k; p++, left += stride, right += pitch) {
        const double factor = *left;
        if (wide) {
#pragma omp simd
            for (int64_t j = 0; j < count; j++) plain[j] += factor * right[j];
        } else {
#pragma omp simd
            for (int64_t j = 0; j < count; j++) {
                double term = factor * right[j];
                value[j] += term;
                plain[j] = (float)(plain[j] + term);
            }
        }
        if (!isfinite(factor)) continue;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) magnitude[j] += fabs(right[j]) <= DBL_MAX ? fabs(factor * right[j]) : 0;
    }
}
CPU_VERSIONS(add_run,
             (bool wide, int64_t k, const double *left, int64_t stride, const double *right, int64_t pitch,
              int64_t count, struct run_sums *run),
             (wide, k, left, stride, right, pitch, count, run))

/* A part of an operand. A line is a row of A or a column of B. Its element p is value[line * line_stride + p *
 * k_stride]. */
struct operand_panel {
    const double *value;
    int64_t lines, line_stride, k_stride;
};

/* Adds the product of line i of `left` and line j of `right`, both with k elements, to sums[i * line_stride + j *
 * element_stride], for all i and j. The line_stride of `right` must be 1. */
static void add_products(bool wide, int64_t k, const struct operand_panel *left, const struct operand_panel *right,
                         struct element_sums *sums, int64_t line_stride, int64_t element_stride) {
#pragma omp parallel for collapse(2) if ((double)left->lines * (double)right->lines * (double)k > CPU_ALONE_ONCE)
    for (int64_t line = 0; line < left->lines; line++)
        for (int64_t first = 0; first < right->lines; first += RUN) {
            struct run_sums run;
            struct element_sums *to = sums + line * line_stride + first * element_stride;
            int64_t count = min_int64(RUN, right->lines - first);
            for (int64_t j = 0; j < count; j++) run.plain[j] = to[j * element_stride].plain;
            for (int64_t p = 0; p < k; p += PANEL) {
                for (int64_t j = 0; j < count; j++) run.wide[j] = run.value[j] = run.magnitude[j] = 0;
                add_run(wide, min_int64(PANEL, k - p), left->value + line * left->line_stride + p * left->k_stride,
                        left->k_stride, right->value + first + p * right->k_stride, right->k_stride, count, &run);
                for (int64_t j = 0; j < count; j++) {
                    to[j * element_stride].value += wide ? run.wide[j] : run.value[j];
                    to[j * element_stride].magnitude += run.magnitude[j];
                }
            }
            for (int64_t j = 0; j < count; j++) to[j * element_stride].plain = run.plain[j];
        }
}

/* Makes line_stride 1: transposes a panel of lines with k adjacent elements into `to`. Leaves a panel whose line_stride
 * is 1 already as it is. */
static void transpose_panel(struct operand_panel *panel, int64_t k, double *to) {
    if (panel->line_stride == 1) return;
#pragma omp parallel for if (panel->lines * k > CPU_ALONE_ONCE)
    for (int64_t first = 0; first < k; first += RUN)
        for (int64_t line = 0; line < panel->lines; line++)
            for (int64_t p = first; p < k && p < first + RUN; p++)
                to[p * panel->lines + line] = panel->value[line * panel->line_stride + p];
    *panel = (struct operand_panel){to, panel->lines, 1, panel->lines};
}

/* Sums the products of a block, `tile` of the output, over all of k; changes the tile's k. Vector instructions run
 * along the longer side of the block. */
static enum status sum_block(const struct geometry *geometry, const struct host_reader *reader, struct tile *tile,
                             struct piece pieces[2], struct element_sums *sums, struct error *error) {
    int64_t k = geometry->extent[LOOP_K], m = tile->count[LOOP_M], n = tile->count[LOOP_N];
    int64_t max_k = BLOCK * (int64_t)PANEL / (m > n ? m : n);
    bool wide = geometry->out.dtype == FLOAT64, swapped = m > n;
    memset(sums, 0, (size_t)(m * n) * sizeof *sums);
    for (int64_t start = 0; start < k; start += max_k) {
        tile->start[LOOP_K] = start;
        int64_t count = tile->count[LOOP_K] = min_int64(max_k, k - start);
        for (int input = 0; input < 2; input++) {
            struct box box = box_of_tile(&geometry->in[input], tile);
            TRY(piece_read(&pieces[input], geometry, reader, input, &box, error));
        }
        struct operand_panel a = {pieces[0].value, m, count, 1}, b = {pieces[1].value, n, count, 1};
        if (geometry->options.transpose_a) a.line_stride = 1, a.k_stride = m;
        if (!geometry->options.transpose_b) b.line_stride = 1, b.k_stride = n;
        transpose_panel(swapped ? &a : &b, count, pieces[swapped ? 0 : 1].raw); /* `raw` is not needed any more */
        if (swapped)
            add_products(wide, count, &b, &a, sums, 1, n);
        else
            add_products(wide, count, &a, &b, sums, n, 1);
    }
    return STATUS_OK;
}

/* operation->tolerance, relative to |alpha| |A||B|: rounding errors of k additions in the accumulator's type, taken as
 * independent, and the rounding of the result. Classes below full add twice what rounding one input to fewer bits may
 * cost (tensor cores may cut TF32 off instead of rounding, hence 2^-9). Absolute: each of the k products may fall among
 * the accumulator's subnormal numbers and be rounded there, and so may the result. */
static struct tolerance matmul_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    static const double inputs[ACCURACY_COUNT] = {
        [ACCURACY_TF32] = 0x1p-9, [ACCURACY_FLOAT16] = 0x1p-10, [ACCURACY_BFLOAT16] = 0x1p-7};
    enum dtype dtype = geometry->out.dtype, accumulator = accumulator_of(dtype);
    double k = (double)geometry->extent[LOOP_K], result = dtype == accumulator ? 0 : dtype_epsilon(dtype);
    double absolute = (1 + fabs(geometry->options.alpha) * k) * dtype_smallest(accumulator) + dtype_smallest(dtype);
    return (struct tolerance){dtype_epsilon(accumulator) * (2 + sqrt(k)) + result + inputs[accuracy], absolute};
}

/* The error that is allowed to other orders of addition than the plain loop's: this many times the plain loop's error
 * in the same element, or this many times the largest in the block. */
enum { ELEMENT_DRIFTS = 4, BLOCK_DRIFTS = 2 };

/* The largest drift (error of the plain loop) in a block of sums, relative to their magnitudes. */
static double block_drift(const struct element_sums sums[], int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double drift = (double)fabsl(sums[i].plain - sums[i].value) / sums[i].magnitude;
        if (isfinite(drift) && drift > largest) largest = drift;
    }
    return largest;
}

/* Rounding errors of equal products are not independent: they have the same sign. The drift, the plain loop's error,
 * shows this; if it happens to be small, the drifts of other elements in the block show it. Returns the magnitude that
 * makes the tolerance, `relative` times it, as large as the error that other orders of addition may have. */
static double drift_magnitude(const struct element_sums *sum, double largest_in_block, double relative) {
    double drift = (double)fabsl(sum->plain - sum->value);
    if (!isfinite(drift)) return 0;
    return fmax(ELEMENT_DRIFTS * drift, BLOCK_DRIFTS * largest_in_block * sum->magnitude) / relative;
}

/* Sets an element: alpha times a sum, with a magnitude of at least |alpha| drift_magnitude. Variants keep the sum in an
 * accumulator first: above `largest`, the accumulator's largest number, it is infinite, and 0 times infinity is NaN. */
static void set_truth(struct truth *truth, int64_t at, double alpha, const struct element_sums *sum, double drift,
                      double largest) {
    double factor = fabs(alpha);
    if (alpha != 0) {
        truth_set(truth, at, alpha * sum->value, factor * (long double)sum->magnitude, factor * (long double)largest);
    } else {
        truth_set(truth, at, sum->value, sum->magnitude, largest);
        bool beyond = fabsl(sum->value) > 1.01L * largest; /* 0.01: more than roundings could bring back */
        truth->value[at] = beyond ? (double)NAN : alpha * truth->value[at];
        if (truth->overflow[at] != OVERFLOW_NONE) truth->overflow[at] = OVERFLOW_NAN;
        truth->magnitude[at] = 0;
    }
    if (factor * drift > truth->magnitude[at]) truth->magnitude[at] = factor * drift;
}

/* Sets the truth of a block of a matrix of the output, which begins at element `at`; a row of the matrix has `pitch`
 * elements. */
static void set_truths(struct truth *truth, int64_t at, int64_t pitch, double alpha, const struct element_sums sums[],
                       int64_t rows, int64_t columns, enum dtype accumulator, double relative) {
    double largest = dtype_largest(accumulator), drift = block_drift(sums, rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, sums++)
            set_truth(truth, at + i * pitch + j, alpha, sums, drift_magnitude(sums, drift, relative), largest);
}

/* operation->reference: computes blocks of BLOCK x BLOCK elements, which bounds the memory. */
static enum status matmul_reference(const struct geometry *geometry, const struct host_reader *reader,
                                    const struct box *box, struct truth *truth, struct error *error) {
    int stack = box->rank - 2; /* 1 when the first axis counts matrices */
    int64_t batch = stack ? box->count[0] : 1, m = box->count[stack], n = box->count[stack + 1];
    double alpha = geometry->options.alpha;
    double relative = matmul_tolerance(geometry, ACCURACY_FULL).relative;
    enum dtype accumulator = accumulator_of(geometry->out.dtype);
    struct piece pieces[2] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
    struct element_sums *sums = malloc(sizeof *sums * BLOCK * BLOCK);
    if (!sums) return fail(error, STATUS_RUN, "no host memory left to compute the reference result");
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) status = piece_allocate(&pieces[i], BLOCK * PANEL, error);
    for (int64_t matrix = 0; matrix < batch && status == STATUS_OK; matrix++)
        for (int64_t row = 0; row < m && status == STATUS_OK; row += BLOCK)
            for (int64_t column = 0; column < n && status == STATUS_OK; column += BLOCK) {
                int64_t rows = min_int64(BLOCK, m - row), columns = min_int64(BLOCK, n - column);
                struct tile tile = {.start = {stack ? box->start[0] + matrix : 0, box->start[stack] + row,
                                              box->start[stack + 1] + column},
                                    .count = {1, rows, columns}};
                status = sum_block(geometry, reader, &tile, pieces, sums, error);
                if (status == STATUS_OK)
                    set_truths(truth, (matrix * m + row) * n + column, n, alpha, sums, rows, columns, accumulator,
                               relative);
            }
    for (int i = 0; i < 2; i++) piece_free(&pieces[i]);
    free(sums);
    return status;
}

static double matmul_factor(const struct op_options *options) {
    return options->alpha;
}

/* ---- the cost ---------------------------------------------------------------------------------------------------- */

#define BLOCK_ELEMENTS 32768 /* elements of the output that a multiprocessor works on at a time in a fast variant */
#define FILL_K         200.0 /* elements of k that take as long as filling and draining a block's pipelines (speed 1) */

/* operation->slowdown: the last blocks leave multiprocessors idle, and if k is split, each block fills and drains its
 * pipelines anew. */
static double matmul_slowdown(const int64_t tile[LOOPS], const int64_t tiles[LOOPS], int multiprocessors,
                              double speed) {
    double out_elements = (double)(tile[LOOP_B] * tile[LOOP_M] * tile[LOOP_N]);
    double waves = out_elements / ((double)multiprocessors * BLOCK_ELEMENTS);
    double idle = waves > 0 ? ceil(waves) / waves : 1;
    return tiles[LOOP_K] > 1 ? idle * (1 + FILL_K * speed / (double)tile[LOOP_K]) : idle;
}

/* ---- the unit and the name --------------------------------------------------------------------------------------- */

/* operation->unit: "m" times "s" is "m s", "m" times "1" is "m". */
static bool matmul_unit(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    (void)options;
    if (!in[0] || !in[1]) return false;
    const char *left = strcmp(in[0], "1") == 0 ? "" : in[0], *right = strcmp(in[1], "1") == 0 ? "" : in[1];
    if (!*left && !*right) left = "1";
    return snprintf(text, UNITS_TEXT, "%s%s%s", left, *left && *right ? " " : "", right) < UNITS_TEXT;
}

static bool matmul_long_name(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]) {
    if (!in[0] || !in[1]) return false;
    return snprintf(text, LONG_NAME_TEXT, "%s%s times %s%s", in[0], options->transpose_a ? " transposed" : "", in[1],
                    options->transpose_b ? " transposed" : "") < LONG_NAME_TEXT;
}

const struct operation operation_matmul = {
    .name = "matmul",
    .summary = "C = alpha A B, of matrices or stacks of them",
    .min_inputs = 2,
    .inputs = 2,
    .dimensions = 3,
    .rate = RATE_FLOPS,
    .geometry = matmul_geometry,
    .computes_in = matmul_computes_in,
    .merge = matmul_merge_axes,
    .launch = matmul_launch,
    .reference = matmul_reference,
    .unit = matmul_unit,
    .long_name = matmul_long_name,
    .tolerance = matmul_tolerance,
    .product = matmul_factor,
    .slowdown = matmul_slowdown,
};
