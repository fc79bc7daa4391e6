/* freivalds.c - matrix-vector products in float64 over matrices read in bands. */
#include "freivalds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAND_ELEMENTS (INT64_C(1) << 21)
#define DEVIATIONS    8.0
#define SEED          UINT64_C(88172645463325252)

/* xorshift64 */
static uint64_t random_bits(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

struct freivalds {
    int64_t batch, m, n;
    double *signs;     /* [n] */
    double *truth;     /* [batch][m]: alpha A (B r) */
    double *deviation; /* [batch][m]: |alpha| |A_i| |B|_F */
};

/* Matrix `b` of a stack (or the only one) that an operand holds, as stored: rows x columns. */
struct stored {
    int input;
    const struct operand *operand;
    int64_t b, rows, columns;
};

static struct stored stored_matrix(const struct geometry *geometry, int input, int64_t b) {
    const struct operand *operand = input < 0 ? &geometry->out : &geometry->in[input];
    const struct shape *shape = &operand->shape;
    return (struct stored){input, operand, b, shape->size[shape->rank - 2], shape->size[shape->rank - 1]};
}

/* One band of rows, widened to float64. */
static enum status read_band(const struct stored *matrix, const struct host_reader *reader, int64_t row, int64_t rows,
                             void *raw, double *wide, struct error *error) {
    struct box box = {.rank = matrix->operand->shape.rank};
    int axis = 0;
    if (box.rank == 3) box.start[axis] = matrix->b, box.count[axis++] = 1;
    box.start[axis] = row, box.count[axis++] = rows;
    box.start[axis] = 0, box.count[axis] = matrix->columns;
    enum status status = reader->read(reader->context, matrix->input, &box, raw, error);
    if (status) return status;
#pragma omp parallel for
    for (int64_t i = 0; i < rows * matrix->columns; i++) wide[i] = dtype_load(matrix->operand->dtype, raw, i);
    return STATUS_OK;
}

/* y = M x, or M^T x if `transposed`. `squares` (may be NULL) gets the sums of squares along what x is summed over. */
static enum status multiply(const struct stored *matrix, const struct host_reader *reader, bool transposed,
                            const double *x, double *y, double *squares, struct error *error) {
    int64_t columns = matrix->columns, results = transposed ? columns : matrix->rows;
    int64_t band = columns > 0 ? BAND_ELEMENTS / columns : 1;
    if (band < 1) band = 1;
    if (band > matrix->rows) band = matrix->rows;
    unsigned long elements = (unsigned long)(band * columns) + 1;
    void *raw = must_malloc(elements * dtype_size(matrix->operand->dtype));
    double *wide = must_malloc(elements * sizeof(double));
    for (int64_t i = 0; i < results; i++) {
        y[i] = 0;
        if (squares) squares[i] = 0;
    }
    enum status status = STATUS_OK;
    for (int64_t row = 0; row < matrix->rows && columns > 0 && !status; row += band) {
        int64_t rows = matrix->rows - row < band ? matrix->rows - row : band;
        if ((status = read_band(matrix, reader, row, rows, raw, wide, error))) break;
        if (transposed) {
#pragma omp parallel for
            for (int64_t j = 0; j < columns; j++)
                for (int64_t i = 0; i < rows; i++) {
                    double value = wide[i * columns + j];
                    y[j] += value * x[row + i];
                    if (squares) squares[j] += value * value;
                }
        } else {
#pragma omp parallel for
            for (int64_t i = 0; i < rows; i++) {
                double sum = 0, square = 0;
                for (int64_t j = 0; j < columns; j++) {
                    double value = wide[i * columns + j];
                    sum += value * x[j];
                    square += value * value;
                }
                y[row + i] = sum;
                if (squares) squares[row + i] = square;
            }
        }
    }
    free(raw);
    free(wide);
    return status;
}

enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader,
                              struct freivalds **result, struct error *error) {
    int64_t m = geometry->extent[LOOP_M], n = geometry->extent[LOOP_N], k = geometry->extent[LOOP_K];
    int64_t batch = geometry->extent[LOOP_B];
    struct freivalds *freivalds = must_malloc(sizeof *freivalds);
    *freivalds = (struct freivalds){.batch = batch, .m = m, .n = n};
    freivalds->signs = must_malloc((unsigned long)(n + 1) * sizeof(double));
    freivalds->truth = must_malloc((unsigned long)(batch * m + 1) * sizeof(double));
    freivalds->deviation = must_malloc((unsigned long)(batch * m + 1) * sizeof(double));
    *result = freivalds;
    uint64_t state = SEED;
    for (int64_t j = 0; j < n; j++) freivalds->signs[j] = random_bits(&state) >> 63 ? 1 : -1;
    double *product = must_malloc((unsigned long)(k + 1) * sizeof(double));
    double *squares = must_malloc((unsigned long)((k > n ? k : n) + 1) * sizeof(double));
    enum status status = STATUS_OK;
    double alpha = geometry->options.alpha;
    for (int64_t b = 0; b < batch && !status; b++) {
        struct stored a_matrix = stored_matrix(geometry, 0, b), b_matrix = stored_matrix(geometry, 1, b);
        double *truth = freivalds->truth + b * m, *deviation = freivalds->deviation + b * m;
        status = multiply(&b_matrix, reader, geometry->options.transpose_b, freivalds->signs, product, squares, error);
        if (status) break;
        double frobenius = 0; /* of B: over whichever of its axes the squares stand for */
        for (int64_t i = 0; i < k; i++) frobenius += squares[i];
        status = multiply(&a_matrix, reader, geometry->options.transpose_a, product, truth, deviation, error);
        for (int64_t i = 0; i < m && !status; i++) {
            truth[i] *= alpha;
            deviation[i] = fabs(alpha) * sqrt(deviation[i]) * sqrt(frobenius);
        }
    }
    free(product);
    free(squares);
    return status;
}

/* What a right row may miss by: see freivalds.h. `squares` is the sum of those of the row of C. */
static double room_of(const struct freivalds *freivalds, const struct geometry *geometry, double tolerance,
                      double deviation, double squares) {
    enum dtype dtype = geometry->out.dtype;
    double rounding = dtype_size(dtype) == 2 ? dtype_epsilon(dtype) : 0, columns = sqrt((double)freivalds->n);
    double least = operations[OP_MATMUL]->tolerance(geometry, ACCURACY_FULL) - rounding;
    double accumulation = fmax(tolerance - rounding, fmin(tolerance, least)) + dtype_epsilon(FLOAT64) * columns;
    double result = rounding > 0 ? rounding * sqrt(squares) : 0; /* squares of float64 may overflow */
    return DEVIATIONS * (accumulation * deviation + result + dtype_least(dtype) * columns);
}

/* A random choice of the unsure rows, each equally likely to be in it. */
static void add_unsure(struct unsure_rows *unsure, const struct geometry *geometry, int64_t b, int64_t row,
                       uint64_t *state) {
    int64_t at = unsure->count;
    if (at >= UNSURE_ROWS) at = (int64_t)(random_bits(state) % (uint64_t)(unsure->count + 1));
    unsure->count++;
    if (at >= UNSURE_ROWS) return;
    struct box *box = &unsure->row[at];
    *box = box_whole(&geometry->out.shape);
    int axis = 0;
    if (box->rank == 3) box->start[axis] = b, box->count[axis++] = 1;
    box->start[axis] = row, box->count[axis] = 1;
}

enum status freivalds_check(const struct freivalds *freivalds, const struct geometry *geometry,
                            const struct host_reader *reader, struct verdict *verdict, struct unsure_rows *unsure,
                            struct error *error) {
    int64_t m = freivalds->m;
    double *row = must_malloc((unsigned long)(m + 1) * sizeof(double));
    double *squares = must_malloc((unsigned long)(m + 1) * sizeof(double));
    double largest = dtype_largest(geometry->out.dtype);
    uint64_t state = SEED;
    unsure->count = 0;
    enum status status = STATUS_OK;
    for (int64_t b = 0; b < freivalds->batch && !status; b++) {
        struct stored c_matrix = stored_matrix(geometry, -1, b);
        if ((status = multiply(&c_matrix, reader, false, freivalds->signs, row, squares, error))) break;
        for (int64_t i = 0; i < m && verdict->right; i++) {
            double truth = freivalds->truth[b * m + i], deviation = freivalds->deviation[b * m + i];
            double room = room_of(freivalds, geometry, verdict->tolerance, deviation, squares[i]);
            bool overflow = deviation >= largest && !isfinite(row[i]);
            if (!isfinite(truth) || !isfinite(deviation) || overflow) {
                add_unsure(unsure, geometry, b, i, &state);
                continue;
            }
            if (isfinite(row[i]) && fabs(row[i] - truth) <= room) continue;
            verdict->right = false;
            verdict->error = INFINITY;
            snprintf(verdict->message, sizeof verdict->message,
                     "row %lld of matrix %lld misses Freivalds' check: %.9g, should be %.9g within %.3g", (long long)i,
                     (long long)b, row[i], truth, room);
        }
    }
    free(row);
    free(squares);
    return status;
}

void freivalds_free(struct freivalds *freivalds) {
    if (!freivalds) return;
    free(freivalds->signs);
    free(freivalds->truth);
    free(freivalds->deviation);
    free(freivalds);
}
