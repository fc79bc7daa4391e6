/* layout.h - finds selected elements in the storage of their data set, and their positions in a packed box: runs of a
 * contiguous data set, cells of a chunked one. All numbers count elements. */
#ifndef RUNNER_LAYOUT_H
#define RUNNER_LAYOUT_H

#include "selection.h"

/* ---- a walk through two row-major arrays at once ----------------------------------------------------------------- */

/* Rows of `length` elements that are `step` elements apart in one array and adjacent in the other. Axes that are
 * complete in both arrays are merged, which gives fewer and longer rows. `dense`, below, allows only rows of step 1,
 * for writing. */
struct walk {
    int axes;                /* the rank of the array of rows; the arrays below begin with its last axis */
    int64_t count[MAX_RANK]; /* rows along the axis */
    int64_t from_stride[MAX_RANK], to_stride[MAX_RANK]; /* elements from one row to the next, in either array */
    int64_t first_from, first_to;                       /* first element of the first row, in either array */
    int64_t rows, length, step;
};
/* Finds the offset of row number 0 .. rows - 1 in both arrays, in elements. */
void layout_row(const struct walk *walk, int64_t number, int64_t *from_offset, int64_t *to_offset);

/* The walk from `part` of the packed box `from` to its position in the packed box `to`, in rows of step 1. */
struct walk layout_between(const struct box *part, const struct box *from, const struct box *to);

/* Copies `count` elements of `size` bytes, which are `step` elements apart, to adjacent memory. */
void layout_gather(const void *from, int64_t count, int64_t step, size_t size, void *to);

/* Writes an element of `size` bytes (1, 2, 4 or 8) `count` times. */
void layout_repeat(const void *element, int64_t count, size_t size, void *to);

/* ---- contiguous: a selection consists of rows, each a run in the data set ---------------------------------------- */

struct rows {
    struct walk walk;
    bool covered;          /* one read covers the elements of a row and those between them */
    bool near;             /* one read covers several short rows and the elements between them */
    int64_t piece_length;  /* a piece has at most this many elements of a row */
    int64_t pieces_in_row; /* number of pieces that a long row is cut into; 1: rows are not cut */
    int64_t rows_in_piece; /* number of whole rows of a piece; 1 if rows are cut */
    int64_t pieces;        /* number of pieces of the selection */
};

/* Cuts a selection of a data set of this shape into pieces. One worker reads or writes a piece. A piece spans at most
 * `elements_in_piece` elements of the data set or, if elements are read one by one, has at most `elements_in_piece` of
 * them. Unless `dense`, a piece also has few rows: short rows cost a call each, so many pieces share them. */
struct rows layout_rows(const struct selection *selection, const struct shape *shape, bool dense,
                        int64_t elements_in_piece);

/* One run of a piece: its elements of one row. */
struct row_run {
    int64_t in_array, in_box; /* first element in the data set, and in the packed box */
    int64_t elements, step;
    int64_t reach; /* elements to read: up to the last one of the run, or of the rows near it */
};
/* Finds run number `number` of a piece; false: the piece has no more runs. */
bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run);

/* ---- chunked: the cells of the grid of chunks that have selected elements ---------------------------------------- */

struct chunk_cells {
    struct selection selection;
    struct shape chunk, extent;
    int64_t grid[MAX_RANK]; /* chunks along each axis of the data set */
    /* The first chunk with selected elements, and the number of such chunks, along each axis. */
    int64_t first[MAX_RANK], along[MAX_RANK];
    int64_t count; /* number of cells */
};

/* Finds the cells of a selection of a data set of this shape and chunk, neither of which is empty. */
struct chunk_cells layout_cells(const struct selection *selection, const struct shape *shape,
                                const struct shape *chunk);

/* The elements that a selection and one chunk share. */
struct chunk_cell {
    int64_t number;           /* chunk number in the row-major order of the grid */
    int64_t corner[MAX_RANK]; /* first element of the chunk in the data set */
    int64_t in_chunk[MAX_RANK], in_box[MAX_RANK], count[MAX_RANK];
    bool covers_chunk; /* the selection contains all elements of the chunk within the data set */
};
/* Cell number 0 .. count - 1. */
struct chunk_cell layout_cell(const struct chunk_cells *cells, int64_t number);
/* The number of elements of a cell. */
int64_t layout_cell_elements(const struct chunk_cells *cells, const struct chunk_cell *cell);
/* The walk from the chunk to the packed box. */
struct walk layout_cell_walk(const struct chunk_cells *cells, const struct chunk_cell *cell, bool dense);
/* The number of chunks in a data set. */
int64_t layout_chunks(const struct shape *shape, const struct shape *chunk);

#endif
