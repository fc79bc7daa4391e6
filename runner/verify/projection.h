/* projection.h - multiplies matrices too large for memory by a few vectors at once: read in bands, in float64.
 *
 * A matrix as stored is summed over one of its axes, 0 (rows) or 1 (columns). Lines are the indices of the other axis.
 * Each line gets up to PROJECTION_BLOCKS sums: array [line][block]. */
#ifndef RUNNER_PROJECTION_H
#define RUNNER_PROJECTION_H

#include "../../kernels/core/operation.h"

#define PROJECTION_BLOCKS 16

struct matrix {
    const struct host_reader *reader;
    int input; /* of the operation; -1: the output */
    const struct operand *operand;
    struct shape chunk; /* rank 0: not chunked */
    int64_t b;          /* matrix number in a stack */
    int64_t size[2];    /* rows and columns, as stored */
    double scale;       /* factor on every element */
};

/* A band of the matrix; x is [rows][columns], multiplied by `scale`. */
struct band {
    int64_t start[2], count[2];
    double *x;
};

/* What is done with each band; either function may be NULL. */
struct visitor {
    /* Called before any `take` if the band holds a NaN or an infinity; afterwards these elements are 0. */
    void (*odd)(void *context, const struct band *band);
    /* Called by all threads at once, each for `count` lines of the band from its line `first` on: rows, if `axis` is 0,
     * else columns. */
    void (*take)(void *context, const struct band *band, int64_t first, int64_t count);
    void *context;
    int axis;
};
/* Reads the matrix once and hands each band to all visitors. STATUS_RUN: no host memory; else the reader's status. */
enum status matrix_visit(const struct matrix *matrix, const struct visitor *visitors, int count, struct error *error);

/* sums[line][x's index / block_length] += weight[x's index] * x */
struct weighing {
    int axis;
    int blocks;
    int64_t block_length;
    const double *weights;
    double *sums;
    double *magnitudes; /* [line] += |weight * x|; NULL: not wanted */
};
struct visitor visit_weighing(struct weighing *weighing);

/* sums[line][block] += vectors[x's index][block] * x */
struct multiplication {
    int axis;
    int blocks; /* a power of two */
    const double *vectors;
    const double *vector_magnitudes; /* [x's index], none negative */
    double *sums;
    double *magnitudes; /* [line] += vector_magnitude * |x| */
};
struct visitor visit_multiplication(struct multiplication *multiplication);

#endif
