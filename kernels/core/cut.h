/* cut.h - boxes in pieces of bounded size: a tile of any size passes through small host buffers, a check of any size
 * through small memory. Pieces end where the chunks of a file do, so that no chunk is opened twice. */
#ifndef KERNELS_CUT_H
#define KERNELS_CUT_H

#include "operation.h"

/* Where pieces of an array may end: at multiples of a grain, along each axis. */
struct grid {
    struct shape grain;      /* a chunk; rank 0: one element */
    int64_t shift[MAX_RANK]; /* what is added to the box's start to get the array's */
    bool whole; /* a grain that has more elements than a piece may have is one piece; false: it is cut anywhere */
};

/* A box cut into pieces, which have an order: row-major. */
struct cut {
    struct box whole;
    int64_t origin[MAX_RANK]; /* of the first piece if the box did not begin within a grain */
    int64_t step[MAX_RANK];   /* elements of a piece along each axis if the box did not end it */
    int64_t count[MAX_RANK];  /* pieces along each axis */
    int64_t pieces;           /* 0: the box is empty */
};

/* Pieces of at most `elements`: of as many whole grains as have room, along the last axis first, so that they are as
 * contiguous as they can be. A grid of NULL: of single elements. */
struct cut cut_box(const struct box *box, const struct grid *grid, int64_t elements);
/* Piece number 0 .. pieces - 1. */
struct box cut_piece(const struct cut *cut, int64_t number);

#endif
