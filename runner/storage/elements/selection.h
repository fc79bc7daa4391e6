/* selection.h - elements of a data set: every step-th one of a part of each axis. */
#ifndef RUNNER_SELECTION_H
#define RUNNER_SELECTION_H

#include "../../../kernels/core/convert.h"
#include "../../../kernels/core/operation.h"
#include "decode.h"

/* Packed, they are a box of `count`. */
struct selection {
    int rank;
    int64_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
};
struct selection selection_of_box(const struct box *box);
/* The box, at the origin, that the elements fill. */
struct box selection_packed(const struct selection *selection);

/* What reading has come to. */
struct read_counts {
    int64_t bytes; /* that files were asked for */
    struct casts casts;
};
void read_counts_add(struct read_counts *to, const struct read_counts *more);

/* Where elements go, packed, and as which type, once they are decoded (`decoding` NULL: as stored); `counts` is added
 * to. */
struct read_target {
    void *data;
    enum dtype dtype;
    const struct decoding *decoding;
    struct read_counts *counts;
};

#endif
