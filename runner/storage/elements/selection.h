/* selection.h - selects elements of a data set: every step-th element of a range of each axis. */
#ifndef RUNNER_SELECTION_H
#define RUNNER_SELECTION_H

#include "../../../kernels/core/convert.h"
#include "../../../kernels/core/operation.h"
#include "decode.h"

/* Every step[i]-th element of axis i, count[i] of them from start[i] on. Packed in memory, they are a box of `count`
 * elements. */
struct selection {
    int rank;
    int64_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
};
/* Selects all elements of a box. */
struct selection selection_of_box(const struct box *box);
/* The box of the packed elements; it starts at the origin. */
struct box selection_packed(const struct selection *selection);

/* Counts over reads. */
struct read_counts {
    int64_t bytes; /* bytes that were read from files */
    struct casts casts;
};
/* Adds `more` to *to. */
void read_counts_add(struct read_counts *to, const struct read_counts *more);

/* The destination of a read: packed elements of type `dtype`, decoded by `decoding` (NULL: not decoded). The read adds
 * to `counts`. */
struct read_target {
    void *data;
    enum dtype dtype;
    const struct decoding *decoding;
    struct read_counts *counts;
};

#endif
