/* layout.h - where a box lies in its data set's storage: in runs of bytes of a contiguous data set, in cells of a
 * chunked one. For rawread.c and rawwrite.c. All numbers are in elements, with three axes whatever the rank (leading
 * axes of size 1). */
#ifndef RUNNER_LAYOUT_H
#define RUNNER_LAYOUT_H

#include "../../kernels/core/cut.h"

/* ---- contiguous: a box consists of rows, each a run in the array ------------------------------------------------- */

struct rows {
    int64_t start[MAX_RANK], count[MAX_RANK], extent[MAX_RANK];
    int64_t part;          /* elements of a row in one part; the last part may have fewer */
    int64_t parts;         /* parts in a row; if more than 1, each part is one piece */
    int64_t rows_in_piece; /* rows in a piece; 1 if a row has several parts */
    int64_t pieces;
};

struct rows layout_rows(const struct box *box, const struct shape *shape, int64_t elements_in_piece);

/* One run of a piece. */
struct row_run {
    int64_t in_array, in_box; /* first element in the data set, in the packed box */
    int64_t elements;
};
/* Finds run number `number` of a piece; false: the piece has no more. */
bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run);

/* ---- chunked: the cells of the grid of chunks that the box touches ----------------------------------------------- */

struct cells {
    struct cut cut; /* of the box; one piece for each chunk */
    int64_t chunk[MAX_RANK], extent[MAX_RANK];
    int64_t grid[MAX_RANK]; /* chunks along each axis of the data set */
};

struct cells layout_cells(const struct box *box, const struct shape *shape, const struct shape *chunk);

/* The elements that a box and one chunk share. */
struct cell {
    int64_t number;           /* of the chunk, in the row-major order of the grid */
    int64_t corner[MAX_RANK]; /* first element of the chunk in the data set */
    int64_t in_chunk[MAX_RANK], in_box[MAX_RANK], count[MAX_RANK];
    bool whole; /* the box has all elements of the chunk that lie in the data set */
};
/* The cell with number 0 .. cut.pieces - 1. */
struct cell layout_cell(const struct cells *cells, int64_t number);
/* The number of chunks in a data set. */
int64_t layout_chunks(const struct shape *shape, const struct shape *chunk);

#endif
