/* layout.h - where selected elements lie in their data set's storage: in runs of a contiguous data set, in cells of a
 * chunked one. For rawread.c, rawwrite.c and pieces.c. All numbers are in elements. */
#ifndef RUNNER_LAYOUT_H
#define RUNNER_LAYOUT_H

#include "selection.h"

/* ---- a walk through two row-major arrays at once ----------------------------------------------------------------- */

/* Rows of `length` elements that lie `step` apart in the one array and next to each other in the other. Axes that both
 * arrays have whole are merged: fewer, longer rows. `dense` below: rows of step 1 alone, for writing. */
struct walk {
    int axes; /* along which rows are counted, and how far apart they are there */
    int64_t count[MAX_RANK], from[MAX_RANK], to[MAX_RANK];
    int64_t first_from, first_to; /* the first row's first element */
    int64_t rows, length, step;
};
/* Where row number 0 .. rows - 1 begins. */
void layout_row(const struct walk *walk, int64_t number, int64_t *from, int64_t *to);

/* From a box within the packed box `from` to its place in the packed box `to`, in rows of step 1. */
struct walk layout_between(const struct box *part, const struct box *from, const struct box *to);

/* Copies `count` elements of `size` bytes that lie `step` apart to a packed place. */
void layout_gather(const void *from, int64_t count, int64_t step, size_t size, void *to);

/* Writes an element of `size` bytes `count` times. */
void layout_repeat(const void *element, int64_t count, size_t size, void *to);

/* ---- contiguous: a selection consists of rows, each a run in the data set ---------------------------------------- */

struct rows {
    struct walk walk;
    bool covered;          /* elements lie so near each other that those between them are read as well */
    bool near;             /* so do short rows: what lies between them is read as well */
    int64_t part;          /* elements of a row in one part; the last part may have fewer */
    int64_t parts;         /* parts in a row; if more than 1, each part is one piece */
    int64_t rows_in_piece; /* rows in a piece; 1 if a row has several parts */
    int64_t pieces;
};

/* A piece reaches over at most `elements_in_piece` elements of the data set, or has so many that are read one by one.
 * If it is not `dense` it has few rows, too, so that short ones, each of which costs a call, make many pieces. */
struct rows layout_rows(const struct selection *selection, const struct shape *shape, bool dense,
                        int64_t elements_in_piece);

/* One run of a piece. */
struct row_run {
    int64_t in_array, in_box; /* first element in the data set, in the packed box */
    int64_t elements, step;
    int64_t reach; /* elements of the data set from its first to its last, or to that of the rows near it */
};
/* Finds run number `number` of a piece; false: the piece has no more. */
bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run);

/* ---- chunked: the cells of the grid of chunks that have selected elements ---------------------------------------- */

struct cells {
    struct selection selection;
    struct shape chunk, extent;
    int64_t grid[MAX_RANK];                   /* chunks along each axis of the data set */
    int64_t first[MAX_RANK], along[MAX_RANK]; /* the first chunk along each axis, and how many have elements */
    int64_t count;
};

struct cells layout_cells(const struct selection *selection, const struct shape *shape, const struct shape *chunk);

/* The elements that a selection and one chunk share. */
struct cell {
    int64_t number;           /* of the chunk, in the row-major order of the grid */
    int64_t corner[MAX_RANK]; /* first element of the chunk in the data set */
    int64_t in_chunk[MAX_RANK], in_box[MAX_RANK], count[MAX_RANK];
    bool whole; /* the selection has all elements of the chunk that lie in the data set */
};
/* The cell with number 0 .. count - 1. */
struct cell layout_cell(const struct cells *cells, int64_t number);
int64_t layout_cell_elements(const struct cells *cells, const struct cell *cell);
/* From the chunk to the packed box. */
struct walk layout_cell_walk(const struct cells *cells, const struct cell *cell, bool dense);
/* The number of chunks in a data set. */
int64_t layout_chunks(const struct shape *shape, const struct shape *chunk);

#endif
