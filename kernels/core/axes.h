/* axes.h - how the up to 8 axes of an array become the at most 3 that an operation sees: neighbours that it treats
 * alike are merged, and tiles, kernels and references never know. A kernel's tile is packed, so merging costs it
 * nothing; a range of a merged axis is at most 2r - 1 boxes of the array's r axes.
 *
 *     reduce axis 1 of a x b x c x d    a | b | c d        transpose 2 3 0 1    a b | c d
 *     scale                             a b | c | d        matmul               stacks merged | m | k
 *
 * What does not merge into the operation's form is put in order by the host while it reads (`of` is then no rising
 * sequence): reduce axes 0 and 2 of a x b x c sees b | a c. */
#ifndef KERNELS_AXES_H
#define KERNELS_AXES_H

#include "operation.h"

/* What one operation makes of its operands' axes. */
struct merged {
    struct op_options options; /* for the merged shapes */
    struct axes in[MAX_INPUTS], out;
};

/* Appends axis number `of` (-1: none, its element is repeated) of an array, to the last group. */
void axes_append(struct axes *axes, int64_t size, int of);
/* Begins a group: an axis of the operand. An empty one has size 1. */
void axes_begin(struct axes *axes);
struct shape axes_merged_shape(const struct axes *axes);

/* operation->geometry for shapes of any rank: merges axes where the operation cannot take them as they are. */
enum status geometry_make(enum op op, const struct op_options *options, const struct shape shapes[],
                          const enum dtype dtypes[], struct geometry *geometry, struct error *error);

/* Are the operand's axes the array's? */
bool operand_is_plain(const struct operand *operand);
/* Are they in another order, or some repeated, so that boxes of them must be rearranged? */
bool operand_is_rearranged(const struct operand *operand);
/* Do boxes of the two mean the same elements of their arrays, in the same order, as the same type? */
bool operands_alike(const struct operand *one, const struct operand *other);
/* The shape of the array. */
struct shape operand_array(const struct operand *operand);

/* Calls `take` for the boxes of `axes` that a box of the operand consists of, in the order of their packed elements. A
 * status other than STATUS_OK ends it. */
typedef enum status take_box(void *context, const struct box *box, struct error *error);
enum status operand_boxes(const struct operand *operand, const struct box *box, take_box *take, void *context,
                          struct error *error);

#endif
