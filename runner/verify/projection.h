/* projection.h - matrices that are too large for memory, read in bands, times a few vectors at once. In float64.
 *
 * A matrix as it is stored is summed over one of its axes, 0 (rows) or 1 (columns); what is left are the lines of the
 * other. Up to PROJECTION_BLOCKS sums are made of each line: array [line][block]. */
#ifndef RUNNER_PROJECTION_H
#define RUNNER_PROJECTION_H

#include "../../kernels/core/operation.h"

#define PROJECTION_BLOCKS 16

struct matrix {
    const struct host_reader *reader;
    int input; /* of the operation; -1: its output */
    const struct operand *operand;
    struct shape chunk; /* rank 0: not in chunks */
    int64_t b;          /* number in a stack */
    int64_t size[2];    /* rows and columns, as stored */
    double scale;       /* by which every element is multiplied */
};

/* A part of it; x is [rows][columns], scaled. */
struct band {
    int64_t start[2], count[2];
    double *x;
};

/* What is done with each band; either may be NULL. */
struct visitor {
    /* Before any `take`, where the band holds a NaN or an infinity: these elements are 0 afterwards. */
    void (*odd)(void *context, const struct band *band);
    void (*take)(void *context, const struct band *band);
    void *context;
};
/* Reads the matrix once. */
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
