/* cut.h - cuts a box into pieces of bounded size, so that a tile of any size passes through small host buffers and a
 * check of any size needs little memory. Pieces end at the ends of a file's chunks, so that no chunk is opened
 * twice. */
#ifndef KERNELS_CUT_H
#define KERNELS_CUT_H

#include "operation.h"

/* The positions in an array at which pieces may end: along each axis, the multiples of a grain. */
struct grid {
    struct shape grain;      /* a chunk; rank 0: one element */
    int64_t shift[MAX_RANK]; /* position in the array = position of the box + shift */
    bool keep_grains;        /* grains are never cut, even if one grain has more elements than a piece may have */
};

/* A box that is cut into pieces, which are numbered in row-major order. */
struct cut {
    struct box box;
    int64_t origin[MAX_RANK]; /* start of the grain in which the box begins */
    int64_t step[MAX_RANK];   /* size of an inner piece along each axis */
    int64_t count[MAX_RANK];  /* number of pieces along each axis */
    int64_t pieces;           /* 0: the box is empty */
};

/* Cuts a box into pieces of at most `elements` elements (but see keep_grains). A piece gets as many whole grains as
 * fit, along the last axis first, which makes the piece as contiguous as possible. Without a grid (NULL), or if one
 * grain does not fit, a piece may end at every element. */
struct cut cut_box(const struct box *box, const struct grid *grid, int64_t elements);
/* Returns piece number 0 .. pieces - 1. */
struct box cut_piece(const struct cut *cut, int64_t number);
/* Returns an upper bound of the number of elements of a piece. */
int64_t cut_max_elements(const struct cut *cut);

#endif
