/* projection.c - reads a matrix band by band and computes sums over it. Each thread computes the sums of its own lines.
 * The threads are those that read (workers.h): OpenMP's would spin on the cores while the next band is read. */
#include "projection.h"

#include "../../kernels/core/convert.h"
#include "../../kernels/core/cpu.h"
#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../base/workers.h"
#include <math.h>
#include <stdatomic.h>

#define BAND_ELEMENTS (INT64_C(1) << 18) /* elements of a band, which stays in the cache from one visitor to the next */
#define SLICE         8192               /* elements that one thread converts at a time */
#define COLUMNS       64                 /* columns that one call of `process` processes... */
#define ROWS          4                  /* ...or rows */
#define ITEMS         256                /* most work items of a band */

/* ---- bands ------------------------------------------------------------------------------------------------------- */

/* Multiplies `count` elements by `scale`. *nonfinite: 0, or NaN if an element is NaN or infinite. */
CPU_BODY scale_slice_body(double scale, int64_t count, double *x, double *nonfinite) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * 0; /* NaN, if x[i] is not finite */
        x[i] *= scale;
    }
    *nonfinite = sum;
}
CPU_VERSIONS(scale_slice, (double scale, int64_t count, double *x, double *nonfinite), (scale, count, x, nonfinite))

/* The conversion of a band's elements `raw` to `x`, in slices on all cores. */
struct band_widening {
    const struct matrix *matrix;
    const char *raw;
    int64_t elements;
    double *x;
    atomic_bool nonfinite;
};

/* The work of widen_band for one slice: converts it to float64, scales it, and notes if it holds a NaN or infinity. */
static void widen_slice(void *context, int64_t slice, int thread) {
    (void)thread;
    struct band_widening *widening = context;
    enum dtype dtype = widening->matrix->operand->dtype;
    int64_t start = slice * SLICE, count = min_int64(SLICE, widening->elements - start);
    double *x = widening->x + start, nonfinite;
    convert_to_double(dtype, widening->raw + start * (int64_t)dtype_size(dtype), count, x);
    scale_slice(widening->matrix->scale, count, x, &nonfinite);
    if (isnan(nonfinite)) atomic_store(&widening->nonfinite, true);
}

/* Converts a band's elements to float64 and scales them. true: at least one of them is NaN or infinite. */
static bool widen_band(const struct matrix *matrix, const char *raw, const struct matrix_band *band) {
    struct band_widening widening = {matrix, raw, band->count[0] * band->count[1], band->x, false};
    workers_run(ceil_div(widening.elements, SLICE), widen_slice, &widening);
    return atomic_load(&widening.nonfinite);
}

/* The lines of a band, shared among threads. */
struct sharing {
    void (*process)(void *context, const struct matrix_band *band, int64_t first, int64_t count);
    void *context;
    const struct matrix_band *band;
    int64_t lines;          /* of the band */
    int64_t lines_per_call; /* of `process`, at most */
    int64_t lines_per_item; /* a multiple of lines_per_call */
};

static void process_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct sharing *sharing = context;
    int64_t first = item * sharing->lines_per_item, end = min_int64(first + sharing->lines_per_item, sharing->lines);
    for (; first < end; first += sharing->lines_per_call)
        sharing->process(sharing->context, sharing->band, first, min_int64(sharing->lines_per_call, end - first));
}

/* Calls the visitor's `process`, if it has one, for all lines of a band, on all cores. */
static void process_lines(const struct visitor *visitor, const struct matrix_band *band) {
    int64_t lines = band->count[visitor->axis], each = visitor->axis == 0 ? ROWS : COLUMNS;
    int64_t item = each * ceil_div(lines, each * ITEMS);
    struct sharing sharing = {visitor->process, visitor->context, band, lines, each, item};
    if (visitor->process) workers_run(ceil_div(lines, item), process_item, &sharing);
}

/* Passes a band to all visitors. `nonfinite`: it holds a NaN or an infinity. */
static void visit_band(const struct visitor *visitors, int count, const struct matrix_band *band, bool nonfinite) {
    for (int i = 0; i < count && nonfinite; i++)
        if (visitors[i].nonfinite) visitors[i].nonfinite(visitors[i].context, band);
    int64_t elements = nonfinite ? band->count[0] * band->count[1] : 0;
    for (int64_t i = 0; i < elements; i++)
        if (!isfinite(band->x[i])) band->x[i] = 0;
    for (int i = 0; i < count; i++) process_lines(&visitors[i], band);
}

enum status matrix_visit(const struct matrix *matrix, const struct visitor *visitors, int count, struct error *error) {
    struct box whole = box_whole(&matrix->operand->shape);
    int row = whole.rank - 2, column = whole.rank - 1;
    if (whole.rank == 3) whole.start[0] = matrix->b, whole.count[0] = 1;
    struct cut cut = cut_box(&whole, &(struct grid){.grain = matrix->chunk, .keep_grains = true}, BAND_ELEMENTS);
    if (cut.pieces == 0) return STATUS_OK;
    size_t elements = (size_t)cut_max_elements(&cut);
    OWNED char *raw = try_malloc(elements * dtype_size(matrix->operand->dtype));
    OWNED double *x = try_malloc(elements * sizeof *x);
    struct matrix_band band = {.x = x};
    if (!raw || !x) return fail(error, STATUS_RUN, "no host memory left to verify: a band has %zu elements", elements);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box box = cut_piece(&cut, number);
        const void *at;
        TRY(host_reader_get(matrix->reader, matrix->input, &box, raw, &at, error));
        band.start[0] = box.start[row], band.count[0] = box.count[row];
        band.start[1] = box.start[column], band.count[1] = box.count[column];
        visit_band(visitors, count, &band, widen_band(matrix, at, &band));
    }
    return STATUS_OK;
}

/* ---- weighing ---------------------------------------------------------------------------------------------------- */

/* Adds `rows` weighted rows of a block, for up to COLUMNS columns. */
CPU_BODY weigh_rows_body(const double *x, int64_t pitch, int64_t rows, int64_t columns, const double *weights,
                         double *sums, double *magnitudes) {
    for (int64_t r = 0; r < rows; r++, x += pitch) {
        double weight = weights[r];
#pragma omp simd
        for (int64_t c = 0; c < columns; c++) {
            double term = weight * x[c];
            sums[c] += term;
            magnitudes[c] += fabs(term);
        }
    }
}
CPU_VERSIONS(weigh_rows,
             (const double *x, int64_t pitch, int64_t rows, int64_t columns, const double *weights, double *sums,
              double *magnitudes),
             (x, pitch, rows, columns, weights, sums, magnitudes))

/* Adds the weighted sum of `count` elements of a row to *sum, and that of their magnitudes to *magnitude. */
CPU_BODY weigh_slice_body(const double *x, int64_t count, const double *weights, double *sum, double *magnitude) {
    double value = 0, size = 0;
#pragma omp simd reduction(+ : value, size)
    for (int64_t c = 0; c < count; c++) {
        double term = weights[c] * x[c];
        value += term;
        size += fabs(term);
    }
    *sum += value;
    *magnitude += size;
}
CPU_VERSIONS(weigh_slice, (const double *x, int64_t count, const double *weights, double *sum, double *magnitude),
             (x, count, weights, sum, magnitude))

/* The end of the block that contains `index`, at most `end`. */
static int64_t block_end(const struct weighing *weighing, int64_t index, int64_t end) {
    return min_int64(end, (index / weighing->block_length + 1) * weighing->block_length);
}

/* Sums `columns` columns of a band, from `column` on, over its rows; they are at most COLUMNS. */
static void weigh_columns(const struct weighing *weighing, const struct matrix_band *band, int64_t column,
                          int64_t columns) {
    int64_t end = band->start[0] + band->count[0];
    double magnitudes[COLUMNS] = {0};
    for (int64_t row = band->start[0], next; row < end; row = next) {
        next = block_end(weighing, row, end);
        double sums[COLUMNS] = {0};
        weigh_rows(band->x + (row - band->start[0]) * band->count[1] + column, band->count[1], next - row, columns,
                   weighing->weights + row, sums, magnitudes);
        double *to = weighing->sums + (band->start[1] + column) * weighing->blocks + row / weighing->block_length;
        for (int64_t c = 0; c < columns; c++) to[c * weighing->blocks] += sums[c];
    }
    for (int64_t c = 0; c < columns && weighing->magnitudes; c++)
        weighing->magnitudes[band->start[1] + column + c] += magnitudes[c];
}

/* Sums a row of a band over its columns. */
static void weigh_row(const struct weighing *weighing, const struct matrix_band *band, int64_t row) {
    int64_t end = band->start[1] + band->count[1], line = band->start[0] + row;
    double magnitude = 0;
    for (int64_t column = band->start[1], next; column < end; column = next) {
        next = block_end(weighing, column, end);
        weigh_slice(band->x + row * band->count[1] + column - band->start[1], next - column, weighing->weights + column,
                    weighing->sums + line * weighing->blocks + column / weighing->block_length, &magnitude);
    }
    if (weighing->magnitudes) weighing->magnitudes[line] += magnitude;
}

/* The visitor of a weighing. */
static void weigh(void *context, const struct matrix_band *band, int64_t first, int64_t count) {
    const struct weighing *weighing = context;
    if (weighing->axis == 0)
        weigh_columns(weighing, band, first, count);
    else
        for (int64_t row = first; row < first + count; row++) weigh_row(weighing, band, row);
}

struct visitor visit_weighing(struct weighing *weighing) {
    return (struct visitor){.process = weigh, .context = weighing, .axis = !weighing->axis};
}

/* ---- multiplying ------------------------------------------------------------------------------------------------- */

/* Calls `function` with a compile-time constant number of blocks, so that the compiler unrolls its loops. */
#define FOR_BLOCKS(blocks, function, ...)                                                                              \
    switch (blocks) {                                                                                                  \
    case 1: function(1, __VA_ARGS__); break;                                                                           \
    case 2: function(2, __VA_ARGS__); break;                                                                           \
    case 4: function(4, __VA_ARGS__); break;                                                                           \
    case 8: function(8, __VA_ARGS__); break;                                                                           \
    default: function(PROJECTION_BLOCKS, __VA_ARGS__);                                                                 \
    }

/* sums[block][column] += vectors[row][block] * x[row][column] for up to COLUMNS columns, ROWS (4) rows at a time. */
CPU_BODY multiply_down(int blocks, const double *x, int64_t pitch, int64_t rows, int64_t columns, const double *vectors,
                       double (*sums)[COLUMNS]) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS) {
        const double *x0 = x + r * pitch, *x1 = x0 + pitch, *x2 = x1 + pitch, *x3 = x2 + pitch;
        for (int b = 0; b < blocks; b++) {
            const double *v = vectors + r * blocks + b, v0 = v[0], v1 = v[blocks], v2 = v[2 * blocks],
                         v3 = v[3 * blocks];
            double *sum = sums[b];
#pragma omp simd
            for (int64_t c = 0; c < columns; c++)
                sum[c] = fma(v0, x0[c], fma(v1, x1[c], fma(v2, x2[c], fma(v3, x3[c], sum[c]))));
        }
    }
    for (; r < rows; r++)
        for (int b = 0; b < blocks; b++)
#pragma omp simd
            for (int64_t c = 0; c < columns; c++) sums[b][c] += vectors[r * blocks + b] * x[r * pitch + c];
}

/* Does multiply_down, and adds vector_magnitudes[row] * |x[row][column]| to magnitudes[column]. */
CPU_BODY multiply_columns_body(int blocks, const double *x, int64_t pitch, int64_t rows, int64_t columns,
                               const double *vectors, const double *vector_magnitudes, double (*sums)[COLUMNS],
                               double *magnitudes) {
    FOR_BLOCKS(blocks, multiply_down, x, pitch, rows, columns, vectors, sums)
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < columns; c++) magnitudes[c] += vector_magnitudes[r] * fabs(x[r * pitch + c]);
}
CPU_VERSIONS(multiply_columns,
             (int blocks, const double *x, int64_t pitch, int64_t rows, int64_t columns, const double *vectors,
              const double *vector_magnitudes, double (*sums)[COLUMNS], double *magnitudes),
             (blocks, x, pitch, rows, columns, vectors, vector_magnitudes, sums, magnitudes))

/* sums[row][block] += vectors[column][block] * x[row][column] for up to ROWS (4) rows. */
CPU_BODY multiply_across(int blocks, const double *x, int64_t pitch, int rows, int64_t columns, const double *vectors,
                         double *sums) {
    double sum[ROWS][PROJECTION_BLOCKS] = {{0}};
    const double *x0 = x, *x1 = x + (rows > 1) * pitch, *x2 = x + (rows > 2 ? 2 : 0) * pitch,
                 *x3 = x + (rows > 3 ? 3 : 0) * pitch;
    for (int64_t c = 0; c < columns; c++) {
        const double *v = vectors + c * blocks, e0 = x0[c], e1 = x1[c], e2 = x2[c], e3 = x3[c];
#pragma omp simd
        for (int b = 0; b < blocks; b++) {
            sum[0][b] = fma(v[b], e0, sum[0][b]);
            sum[1][b] = fma(v[b], e1, sum[1][b]);
            sum[2][b] = fma(v[b], e2, sum[2][b]);
            sum[3][b] = fma(v[b], e3, sum[3][b]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int b = 0; b < blocks; b++) sums[r * blocks + b] += sum[r][b];
}

/* Does multiply_across, and adds vector_magnitudes[column] * |x[row][column]| to magnitudes[row]. */
CPU_BODY multiply_rows_body(int blocks, const double *x, int64_t pitch, int rows, int64_t columns,
                            const double *vectors, const double *vector_magnitudes, double *sums, double *magnitudes) {
    FOR_BLOCKS(blocks, multiply_across, x, pitch, rows, columns, vectors, sums)
    for (int r = 0; r < rows; r++) {
        double magnitude = 0;
#pragma omp simd reduction(+ : magnitude)
        for (int64_t c = 0; c < columns; c++) magnitude += vector_magnitudes[c] * fabs(x[r * pitch + c]);
        magnitudes[r] += magnitude;
    }
}
CPU_VERSIONS(multiply_rows,
             (int blocks, const double *x, int64_t pitch, int rows, int64_t columns, const double *vectors,
              const double *vector_magnitudes, double *sums, double *magnitudes),
             (blocks, x, pitch, rows, columns, vectors, vector_magnitudes, sums, magnitudes))

/* The visitor of a multiplication: adds the products of `count` lines of a band, from `first` on. */
static void multiply(void *context, const struct matrix_band *band, int64_t first, int64_t count) {
    const struct multiplication *work = context;
    int blocks = work->blocks;
    int64_t pitch = band->count[1], summed = band->start[work->axis], line = band->start[!work->axis] + first;
    const double *vectors = work->vectors + summed * blocks, *vector_magnitudes = work->vector_magnitudes + summed;
    if (work->axis == 0) {
        double sums[PROJECTION_BLOCKS][COLUMNS] = {{0}};
        multiply_columns(blocks, band->x + first, pitch, band->count[0], count, vectors, vector_magnitudes, sums,
                         work->magnitudes + line);
        for (int64_t c = 0; c < count; c++)
            for (int b = 0; b < blocks; b++) work->sums[(line + c) * blocks + b] += sums[b][c];
    } else {
        multiply_rows(blocks, band->x + first * pitch, pitch, (int)count, pitch, vectors, vector_magnitudes,
                      work->sums + line * blocks, work->magnitudes + line);
    }
}

struct visitor visit_multiplication(struct multiplication *multiplication) {
    return (struct visitor){.process = multiply, .context = multiplication, .axis = !multiplication->axis};
}
