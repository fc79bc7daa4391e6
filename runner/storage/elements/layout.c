/* layout.c - cuts selections into runs and into cells. */
#include "layout.h"

#include "../../../kernels/core/cpu.h"

#include <string.h>

#define COVERED 16  /* a read covers the gaps between elements if a piece has room for this many elements */
#define NEAR    128 /* a read covers the gaps between rows if a piece has room for this many rows, */
#define THIN    16  /* and rows fill at most 1/THIN of their distance */
#define FEW     256 /* most rows of a piece that is not dense */

struct selection selection_of_box(const struct box *box) {
    struct selection selection = {.rank = box->rank};
    for (int axis = 0; axis < box->rank; axis++) {
        selection.start[axis] = box->start[axis];
        selection.count[axis] = box->count[axis];
        selection.step[axis] = 1;
    }
    return selection;
}

struct box selection_packed(const struct selection *selection) {
    struct box box = {.rank = selection->rank};
    memcpy(box.count, selection->count, sizeof box.count);
    return box;
}

void read_counts_add(struct read_counts *to, const struct read_counts *more) {
    to->bytes += more->bytes;
    casts_add(&to->casts, &more->casts);
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

/* The walk over `count` elements, `step` apart, from element `from_start` of an array of size `from_size` to element
 * `to_start` of an array of size `to_size`. */
static struct walk walk_of(int rank, bool dense, const int64_t *count, const int64_t *step, const int64_t *from_start,
                           const int64_t *from_size, const int64_t *to_start, const int64_t *to_size) {
    struct walk walk = {.rows = 1, .length = 1, .step = 1};
    int64_t from = 1, to = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        int64_t stride = from * step[axis];
        walk.first_from += from_start[axis] * from;
        walk.first_to += to_start[axis] * to;
        bool evenly = walk.length == 1 ? !dense || stride == 1 : stride == walk.length * walk.step;
        bool goes_on = walk.axes == 0 && to == walk.length && evenly;
        if (count[axis] != 1 && goes_on) { /* this axis continues the rows */
            if (walk.length == 1) walk.step = stride;
            walk.length *= count[axis];
        } else if (count[axis] != 1) {
            walk.count[walk.axes] = count[axis];
            walk.from_stride[walk.axes] = stride;
            walk.to_stride[walk.axes++] = to;
            walk.rows *= count[axis];
        }
        from *= from_size[axis];
        to *= to_size[axis];
    }
    return walk;
}

struct walk layout_between(const struct box *part, const struct box *from, const struct box *to) {
    static const int64_t one[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t from_start[MAX_RANK], to_start[MAX_RANK];
    for (int axis = 0; axis < part->rank; axis++) {
        from_start[axis] = part->start[axis] - from->start[axis];
        to_start[axis] = part->start[axis] - to->start[axis];
    }
    return walk_of(part->rank, true, part->count, one, from_start, from->count, to_start, to->count);
}

void layout_row(const struct walk *walk, int64_t number, int64_t *from_offset, int64_t *to_offset) {
    *from_offset = walk->first_from;
    *to_offset = walk->first_to;
    for (int axis = 0; axis < walk->axes; axis++) {
        int64_t at = number % walk->count[axis];
        number /= walk->count[axis];
        *from_offset += at * walk->from_stride[axis];
        *to_offset += at * walk->to_stride[axis];
    }
}

#define PICK(type)                                                                                                     \
    for (int64_t i = 0; i < count; i++) ((type *)to)[i] = ((const type *)from)[i * step]

void layout_gather(const void *from, int64_t count, int64_t step, size_t size, void *to) {
    switch (step == 1 ? 0 : size) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    case 8: PICK(uint64_t); break;
    default: memcpy(to, from, (size_t)count * size);
    }
}

#define REPEAT(type)                                                                                                   \
    for (int64_t i = 0; i < count; i++) ((type *)to)[i] = *(const type *)element

void layout_repeat(const void *element, int64_t count, size_t size, void *to) {
    switch (size) {
    case 1: REPEAT(uint8_t); break;
    case 2: REPEAT(uint16_t); break;
    case 4: REPEAT(uint32_t); break;
    default: REPEAT(uint64_t);
    }
}

/* ---- contiguous -------------------------------------------------------------------------------------------------- */

struct rows layout_rows(const struct selection *selection, const struct shape *shape, bool dense,
                        int64_t elements_in_piece) {
    static const int64_t corner[MAX_RANK];
    struct rows rows = {.pieces = 0};
    struct walk *walk = &rows.walk;
    struct box packed = selection_packed(selection);
    *walk = walk_of(selection->rank, dense, selection->count, selection->step, selection->start, shape->size, corner,
                    selection->count);
    if (box_elements(&packed) == 0) return rows;
    rows.covered = walk->step <= elements_in_piece / COVERED;
    int64_t elements = rows.covered ? elements_in_piece / walk->step : elements_in_piece;
    rows.piece_length = min_int64(walk->length, elements);
    rows.pieces_in_row = ceil_div(walk->length, rows.piece_length);
    rows.rows_in_piece = rows.pieces_in_row > 1 ? 1 : elements / walk->length;
    rows.near = !dense && walk->axes > 0 && walk->from_stride[0] <= elements_in_piece / NEAR &&
                walk->length * walk->step <= walk->from_stride[0] / THIN;
    if (rows.near)
        rows.rows_in_piece = min_int64(rows.rows_in_piece, elements_in_piece / walk->from_stride[0]);
    else if (!dense)
        rows.rows_in_piece = min_int64(rows.rows_in_piece, FEW);
    rows.pieces = ceil_div(walk->rows, rows.rows_in_piece) * rows.pieces_in_row;
    return rows;
}

bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run) {
    int64_t row = piece / rows->pieces_in_row * rows->rows_in_piece + number,
            begin = piece % rows->pieces_in_row * rows->piece_length;
    if (number >= rows->rows_in_piece || row >= rows->walk.rows) return false;
    layout_row(&rows->walk, row, &run->in_array, &run->in_box);
    run->in_array += begin * rows->walk.step;
    run->in_box += begin;
    run->elements = min_int64(rows->piece_length, rows->walk.length - begin);
    run->step = rows->walk.step;
    run->reach = (run->elements - 1) * run->step + 1;
    if (!rows->near) return true;
    int64_t in_line = rows->walk.count[0] - row % rows->walk.count[0], in_piece = rows->rows_in_piece - number;
    run->reach += (min_int64(in_line, in_piece) - 1) * rows->walk.from_stride[0];
    return true;
}

/* ---- chunked ----------------------------------------------------------------------------------------------------- */

struct chunk_cells layout_cells(const struct selection *selection, const struct shape *shape,
                                const struct shape *chunk) {
    struct chunk_cells cells = {.selection = *selection, .chunk = *chunk, .extent = *shape, .count = 1};
    for (int axis = 0; axis < selection->rank; axis++) {
        int64_t size = chunk->size[axis], count = selection->count[axis], step = selection->step[axis];
        int64_t last = selection->start[axis] + (count - 1) * step;
        cells.grid[axis] = ceil_div(shape->size[axis], size);
        cells.first[axis] = selection->start[axis] / size;
        /* If the step is longer than a chunk, each element has its own chunk. */
        cells.along[axis] = count == 0 || step > size ? count : last / size - cells.first[axis] + 1;
        cells.count *= cells.along[axis];
    }
    return cells;
}

struct chunk_cell layout_cell(const struct chunk_cells *cells, int64_t number) {
    const struct selection *selection = &cells->selection;
    struct chunk_cell cell = {.covers_chunk = true};
    int64_t stride = 1;
    for (int axis = selection->rank - 1; axis >= 0; axis--) {
        int64_t start = selection->start[axis], step = selection->step[axis], size = cells->chunk.size[axis];
        int64_t at = number % cells->along[axis], chunk = cells->first[axis] + at;
        int64_t first = at, end = at + 1; /* of the cell's elements, counted within the selection */
        number /= cells->along[axis];
        if (step <= size) {
            first = chunk * size > start ? ceil_div(chunk * size - start, step) : 0;
            end = min_int64(ceil_div((chunk + 1) * size - start, step), selection->count[axis]);
        } else { /* each element has its own chunk */
            chunk = (start + first * step) / size;
        }
        int64_t corner = chunk * size;
        cell.number += chunk * stride;
        stride *= cells->grid[axis];
        cell.corner[axis] = corner;
        cell.in_chunk[axis] = start + first * step - corner;
        cell.in_box[axis] = first;
        cell.count[axis] = end - first;
        cell.covers_chunk = cell.covers_chunk && cell.count[axis] == min_int64(size, cells->extent.size[axis] - corner);
    }
    return cell;
}

int64_t layout_cell_elements(const struct chunk_cells *cells, const struct chunk_cell *cell) {
    int64_t elements = 1;
    for (int axis = 0; axis < cells->selection.rank; axis++) elements *= cell->count[axis];
    return elements;
}

struct walk layout_cell_walk(const struct chunk_cells *cells, const struct chunk_cell *cell, bool dense) {
    const struct selection *selection = &cells->selection;
    return walk_of(selection->rank, dense, cell->count, selection->step, cell->in_chunk, cells->chunk.size,
                   cell->in_box, selection->count);
}

int64_t layout_chunks(const struct shape *shape, const struct shape *chunk) {
    int64_t chunks = 1;
    for (int axis = 0; axis < shape->rank; axis++) chunks *= ceil_div(shape->size[axis], chunk->size[axis]);
    return chunks;
}
