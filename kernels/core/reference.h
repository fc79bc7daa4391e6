/* reference.h - what the operations' references share: a box of an input, read in pieces of bounded size, widened. */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include "operation.h"

extern const struct operation operation_matmul, operation_reduce, operation_transpose, operation_scale;

#define PIECE_ELEMENTS (INT64_C(1) << 20) /* 8 MiB of 64-bit elements */

/* A box splits into this many pieces of at most PIECE_ELEMENTS, in row-major order; none when it is empty. */
int64_t piece_count(const struct box *box);
struct box piece_box(const struct box *box, int64_t number);

/* Room for one piece: as it was read, and widened to float64, or to 64-bit integers where the type is one. */
struct piece {
    void *raw;
    double *value;
    int64_t *integer;
};
enum status piece_allocate(struct piece *piece, int64_t elements, struct error *error);
void piece_free(struct piece *piece);
enum status piece_read(struct piece *piece, const struct geometry *geometry, const struct host_reader *reader,
                       int input, const struct box *box, struct error *error);

#endif
