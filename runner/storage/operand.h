/* operand.h - reads and writes boxes of an operand, whose axes may be merged axes of its array (kernels/core/axes.h),
 * as boxes of the array. */
#ifndef RUNNER_OPERAND_H
#define RUNNER_OPERAND_H

#include "../../kernels/core/axes.h"
#include "reader.h"

/* Reads a box of an operand. `fresh`: this is the first read of these elements, so conversion losses are counted if
 * `counted`, and the elements are hashed if `hashed`. If the operand has a wider type than the array, elements are
 * widened after that. */
struct operand_reading {
    struct reader *reader;
    const struct operand *operand;
    bool fresh, counted, hashed;
    struct trace *trace; /* may be NULL */
};
enum status operand_read(const struct operand_reading *reading, const struct box *box, void *data, struct error *error);

/* Calls `visit` for the boxes of the array that make up a box of an operand, with the position of each in the packed
 * elements. The operand must not be rearranged. */
struct operand_visitor {
    enum status (*visit)(void *context, const struct box *box, void *data, struct error *error);
    void *context;
};
enum status operand_for_each(const struct operand *operand, const struct box *box, void *data,
                             const struct operand_visitor *visitor, struct error *error);

/* Returns the chunk shape of the array, `of_array`, in the axes of the operand; rank 0: chunks do not matter. `shift`
 * (may be NULL): in, the shift of the chunk grid along the axes of the array; out, along those of the operand. */
struct shape operand_grain(const struct operand *operand, const struct shape *of_array, int64_t shift[MAX_RANK]);

#endif
