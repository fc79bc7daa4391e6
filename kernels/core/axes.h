/* axes.h - reduces the up to 8 axes of an array to the at most 3 of an operand (struct axes in operation.h).
 * Neighbouring axes that the operation treats alike are merged into one. Tiles, kernels and references see the merged
 * axes only. Merging costs a kernel nothing, because its tile is packed. A range of an axis merged from r axes consists
 * of at most 2r - 1 boxes of these.
 *
 *     reduce axis 1 of a x b x c x d    a | b | c d        transpose 2 3 0 1    a b | c d
 *     scale                             a b | c | d        matmul               stacks merged | m | k
 *
 * If merging neighbours does not suffice, the host rearranges the axes while it reads: a reduction of axes 0 and 2 of
 * a x b x c sees b | a c. Then axes.array_axis is not ascending. */
#ifndef KERNELS_AXES_H
#define KERNELS_AXES_H

#include "operation.h"

/* The result of operation->merge. */
struct merged {
    struct op_options options; /* options for the merged shapes */
    struct axes in[MAX_INPUTS], out;
};

/* Begins the next axis of the operand, a group of merged axes. An empty group has size 1. */
void axes_begin(struct axes *axes);
/* Appends an axis of this size to the last group: axis number `array_axis` of the array; -1: an axis that the array
 * lacks, along which one element is repeated. */
void axes_append(struct axes *axes, int64_t size, int array_axis);
/* Returns the operand's shape: each group is one axis. */
struct shape axes_merged_shape(const struct axes *axes);

/* Fills the geometry for shapes of any rank: calls operation->geometry, after operation->merge if that is needed. */
enum status geometry_make(enum op op, const struct op_options *options, const struct shape shapes[],
                          const enum dtype dtypes[], struct geometry *geometry, struct error *error);

/* Does the operand have the axes of its array, with none merged? */
bool operand_is_plain(const struct operand *operand);
/* Must boxes be rearranged, because the operand's axes have another order than the array's, or elements are
 * repeated? */
bool operand_is_rearranged(const struct operand *operand);
/* Does a box of one operand have the same elements, order and type as the same box of the other? Both operands must be
 * of the same array. */
bool operands_alike(const struct operand *one, const struct operand *other);
/* Returns the shape of the operand's array, which has its axes unmerged. */
struct shape operand_array(const struct operand *operand);

/* Calls `call` for each box of unmerged axes that a box of the operand consists of, in the order of the packed
 * elements. Ends at the first status other than STATUS_OK, and returns that status. */
typedef enum status box_callback(void *context, const struct box *box, struct error *error);
enum status operand_boxes(const struct operand *operand, const struct box *box, box_callback *call, void *context,
                          struct error *error);

#endif
