/* operand.h - boxes of an operand, whose axes may be merged ones of its array (kernels/core/axes.h), read and written
 * as boxes of the array. */
#ifndef RUNNER_OPERAND_H
#define RUNNER_OPERAND_H

#include "../../kernels/core/axes.h"
#include "reader.h"

/* reader_read of an operand's box. `fresh`: it is read for the first time, so that what its conversion loses is counted
 * if `counted`, and it is hashed if `hashed`. Where the operand is of a wider type than the array, elements are widened
 * behind that. */
struct operand_reading {
    struct reader *reader;
    const struct operand *operand;
    bool fresh, counted, hashed;
    struct trace *trace; /* may be NULL */
};
enum status operand_read(const struct operand_reading *reading, const struct box *box, void *data, struct error *error);

/* Calls `each` for the boxes of the array that a box of an operand that is not rearranged consists of, with their place
 * in its packed elements. */
struct operand_each {
    enum status (*each)(void *context, const struct box *box, void *data, struct error *error);
    void *context;
};
enum status operand_for_each(const struct operand *operand, const struct box *box, void *data,
                             const struct operand_each *each, struct error *error);

/* Where chunks of the array end along the operand's axes; rank 0: nowhere that matters. `shift` (may be NULL), of the
 * array's axes, becomes that of the operand's. */
struct shape operand_grain(const struct operand *operand, const struct shape *chunk, int64_t shift[MAX_RANK]);

#endif
