/* reference.h - helps the operations' references: reads boxes of inputs in pieces of bounded size, converts them to
 * wide types, and fills truths. Also declares the functions of the operations' folders. */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include "cut.h"

extern const struct operation operation_matmul, operation_reduce, operation_transpose, operation_scale, operation_map;

/* The functions for operation->merge, each in the merge.c of its operation. */
enum status matmul_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error);
enum status reduce_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error);
enum status transpose_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                                 struct error *error);
enum status scale_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                             struct error *error);

#define PIECE_ELEMENTS (INT64_C(1) << 20) /* 8 MiB of 64-bit elements */

/* Cuts a box of an input into pieces of at most PIECE_ELEMENTS. */
struct cut pieces_of(const struct box *box);

/* Memory for one piece: as read, widened to float64 and, for integer types, widened to 64-bit integers. */
struct piece {
    void *raw;
    double *value;
    int64_t *integer;
};
/* Allocates memory for a piece of up to `elements` elements of any type. STATUS_RUN: no host memory. */
enum status piece_allocate(struct piece *piece, int64_t elements, struct error *error);
void piece_free(struct piece *piece);
/* Reads a box of input number `input` and widens it: to piece->value and, for integer types, also to piece->integer.
 * Only these two are sure to be filled, since a reader that lends the box does not fill piece->raw. */
enum status piece_read(struct piece *piece, const struct geometry *geometry, const struct host_reader *reader,
                       int input, const struct box *box, struct error *error);

/* The unsigned type with the size of `dtype`, to hold its bits. */
static inline enum dtype dtype_of_bits(enum dtype dtype) {
    static const enum dtype unsigned_of[9] = {[1] = UINT8, [2] = UINT16, [4] = UINT32, [8] = UINT64};
    return unsigned_of[dtype_size(dtype)];
}

/* Sets element i of a truth to a sum `value` whose finite terms have the absolute sum `magnitude`. A running sum that
 * exceeds `limit` overflows; a magnitude that comes close to it makes several results right (enum overflow). */
void truth_set(struct truth *truth, int64_t i, long double value, long double magnitude, long double limit);

#endif
