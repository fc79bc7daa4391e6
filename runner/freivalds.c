/* freivalds.c - matrix-vector products in float64 over matrices read in bands. */
#include "freivalds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAND_ELEMENTS (INT64_C(1) << 21)
#define DEVIATIONS    8.0

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
    uint64_t state = 88172645463325252u;
    for (int64_t j = 0; j < n; j++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        freivalds->signs[j] = state >> 63 ? 1 : -1;
    }
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
            deviation[i] = fabs(alpha) * sqrt(deviation[i] * frobenius);
        }
    }
    free(product);
    free(squares);
    return status;
}

enum status freivalds_check(const struct freivalds *freivalds, const struct geometry *geometry,
                            const struct host_reader *reader, struct verdict *verdict, struct error *error) {
    double *row = must_malloc((unsigned long)(freivalds->m + 1) * sizeof(double));
    enum status status = STATUS_OK;
    for (int64_t b = 0; b < freivalds->batch && !status; b++) {
        struct stored c_matrix = stored_matrix(geometry, -1, b);
        if ((status = multiply(&c_matrix, reader, false, freivalds->signs, row, NULL, error))) break;
        for (int64_t i = 0; i < freivalds->m && verdict->right; i++) {
            double truth = freivalds->truth[b * freivalds->m + i];
            double room = DEVIATIONS * verdict->tolerance * freivalds->deviation[b * freivalds->m + i];
            bool both_odd = !isfinite(truth) && !isfinite(row[i]);
            if (fabs(row[i] - truth) <= room || both_odd) continue;
            verdict->right = false;
            verdict->error = INFINITY;
            snprintf(verdict->message, sizeof verdict->message,
                     "row %lld of matrix %lld misses Freivalds' check: %.9g, should be %.9g within %.3g", (long long)i,
                     (long long)b, row[i], truth, room);
        }
    }
    free(row);
    return status;
}

void freivalds_free(struct freivalds *freivalds) {
    if (!freivalds) return;
    free(freivalds->signs);
    free(freivalds->truth);
    free(freivalds->deviation);
    free(freivalds);
}
