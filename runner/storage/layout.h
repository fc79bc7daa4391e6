/* layout.h - where a box lies in its data set's storage: in runs of bytes of a contiguous one, in cells of a chunked
 * one. For rawread.c and rawwrite.c; all in elements, with three axes whatever the rank (leading axes of one). */
#ifndef RUNNER_LAYOUT_H
#define RUNNER_LAYOUT_H

#include "../../kernels/core/cut.h"

/* ---- contiguous: the box is rows, each a run in the array; rows are dealt out in pieces of about equal size ------ */

struct rows {
    int64_t start[MAX_RANK], count[MAX_RANK], extent[MAX_RANK];
    int64_t part;          /* elements of a row that belong to one piece; the last part may have fewer */
    int64_t parts;         /* in a row; more than 1: each is a piece of its own */
    int64_t rows_in_piece; /* else a piece is so many rows */
    int64_t pieces;
};

struct rows layout_rows(const struct box *box, const struct shape *shape, int64_t elements_in_piece);

/* The runs of a piece, one after another. */
struct row_run {
    int64_t in_array, in_box; /* first element */
    int64_t elements;
};
/* Run number `number` of a piece; false: it has no more. */
bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run);

/* ---- chunked: the cells of the grid of chunks that the box touches ----------------------------------------------- */

struct cells {
    struct cut cut; /* of the box, a piece for each chunk */
    int64_t chunk[MAX_RANK], extent[MAX_RANK];
    int64_t grid[MAX_RANK]; /* chunks along each axis of the data set */
};

struct cells layout_cells(const struct box *box, const struct shape *shape, const struct shape *chunk);

/* What a box and one chunk have in common. */
struct cell {
    int64_t number;           /* of the chunk, in the row-major order of the grid */
    int64_t corner[MAX_RANK]; /* its first element in the data set */
    int64_t in_chunk[MAX_RANK], in_box[MAX_RANK], count[MAX_RANK];
    bool whole; /* all of the chunk's elements that are in the data set are in the box */
};
/* Cell number 0 .. cut.pieces - 1. */
struct cell layout_cell(const struct cells *cells, int64_t number);
/* Chunks in a data set. */
int64_t layout_chunks(const struct shape *shape, const struct shape *chunk);

#endif
