/* pieces.h - a box in pieces of bounded size, so that a tile of any size passes through small host buffers. Pieces are
 * cut where the chunks of the file end, that no chunk is opened twice; without chunks they are runs of elements. */
#ifndef RUNNER_PIECES_H
#define RUNNER_PIECES_H

#include "../../kernels/core/operation.h"

struct pieces {
    struct box box;
    int64_t origin[MAX_RANK]; /* of the grid of pieces, at or before the box's start */
    int64_t size[MAX_RANK];   /* of a piece that is not cut by the box */
    int64_t count[MAX_RANK];  /* of pieces along each axis */
    int64_t total;
};

/* Cuts a box into pieces of at most `limit` elements. `chunk`: of the data set that the box is read from or written to;
 * rank 0: none. `shift`: what is added to the box's first axis to get the data set's. A chunk larger than `limit` does
 * not count. */
struct pieces pieces_cut(const struct box *box, const struct shape *chunk, int64_t shift, int64_t limit);
/* Piece number 0 .. total - 1, in row-major order. */
struct box pieces_get(const struct pieces *pieces, int64_t number);

#endif
