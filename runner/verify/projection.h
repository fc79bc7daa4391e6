/* projection.h - multiplies matrices that are too large for memory by a few vectors at once: reads them in bands and
 * computes in float64.
 *
 * A stored matrix is summed over one of its axes, 0 (rows) or 1 (columns). The indices of the other axis are called
 * lines. Each line gets up to PROJECTION_BLOCKS sums: array [line][block]. */
#ifndef RUNNER_PROJECTION_H
#define RUNNER_PROJECTION_H

#include "../../kernels/core/operation.h"

#define PROJECTION_BLOCKS 16

struct matrix {
    const struct host_reader *reader;
    int input; /* number of the input; -1: the output */
    const struct operand *operand;
    struct shape chunk; /* rank 0: not chunked */
    int64_t b;          /* matrix number in a stack */
    int64_t size[2];    /* rows and columns, as stored */
    double scale;       /* factor of every element */
};

/* A band of the matrix. x: its elements, [rows][columns], multiplied by `scale`. */
struct matrix_band {
    int64_t start[2], count[2];
    double *x;
};

/* The functions that are called for each band; either may be NULL. */
struct visitor {
    /* Called before any `process` if the band holds a NaN or an infinity; afterwards these elements are set to 0. */
    void (*nonfinite)(void *context, const struct matrix_band *band);
    /* Called in parallel, each time for `count` lines of the band from its line `first` on: rows if `axis` is 0, else
     * columns. */
    void (*process)(void *context, const struct matrix_band *band, int64_t first, int64_t count);
    void *context;
    int axis;
};
/* Reads the matrix once and passes each band to all visitors. STATUS_RUN: the host is out of memory; other statuses are
 * the reader's. */
enum status matrix_visit(const struct matrix *matrix, const struct visitor *visitors, int count, struct error *error);

/* Weighted sums: for each element x with index i along the axis, sums[line][i / block_length] += weights[i] * x. */
struct weighing {
    int axis;
    int blocks;
    int64_t block_length;
    const double *weights;
    double *sums;
    double *magnitudes; /* magnitudes[line] += |weights[i] * x|; NULL: not wanted */
};
struct visitor visit_weighing(struct weighing *weighing);

/* Matrix-vector products: for each element x with index i along the axis, sums[line][block] += vectors[i][block] *
 * x. */
struct multiplication {
    int axis;
    int blocks; /* a power of two */
    const double *vectors;
    const double *vector_magnitudes; /* not negative */
    double *sums;
    double *magnitudes; /* magnitudes[line] += vector_magnitudes[i] * |x| */
};
struct visitor visit_multiplication(struct multiplication *multiplication);

#endif
