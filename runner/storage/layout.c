/* layout.c - boxes as runs, boxes as cells. */
#include "layout.h"

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static void widen(const int64_t *from, int rank, int64_t missing, int64_t to[MAX_RANK]) {
    for (int axis = 0; axis < MAX_RANK; axis++)
        to[axis] = axis < MAX_RANK - rank ? missing : from[axis - (MAX_RANK - rank)];
}

struct rows layout_rows(const struct box *box, const struct shape *shape, int64_t elements_in_piece) {
    struct rows rows = {.pieces = 0};
    int64_t *start = rows.start, *count = rows.count, *extent = rows.extent;
    widen(box->start, box->rank, 0, start);
    widen(box->count, box->rank, 1, count);
    widen(shape->size, box->rank, 1, extent);
    if (box_elements(box) == 0) return rows;
    /* A last axis that the box has whole belongs to the one before: fewer, longer rows. */
    for (int i = 0; i < MAX_RANK - 1 && count[2] == extent[2]; i++) {
        start[2] = start[1] * extent[2], count[2] *= count[1], extent[2] *= extent[1];
        start[1] = start[0], count[1] = count[0], extent[1] = extent[0];
        start[0] = 0, count[0] = extent[0] = 1;
    }
    rows.part = at_most(count[2], elements_in_piece);
    rows.parts = ceil_div(count[2], rows.part);
    rows.rows_in_piece = rows.parts > 1 ? 1 : elements_in_piece / count[2];
    rows.pieces = ceil_div(count[0] * count[1], rows.rows_in_piece) * rows.parts;
    return rows;
}

bool layout_run(const struct rows *rows, int64_t piece, int64_t number, struct row_run *run) {
    int64_t row = piece / rows->parts * rows->rows_in_piece + number, begin = piece % rows->parts * rows->part;
    if (number >= rows->rows_in_piece || row >= rows->count[0] * rows->count[1]) return false;
    int64_t matrix = rows->start[0] + row / rows->count[1], line = rows->start[1] + row % rows->count[1];
    run->in_array = (matrix * rows->extent[1] + line) * rows->extent[2] + rows->start[2] + begin;
    run->in_box = row * rows->count[2] + begin;
    run->elements = at_most(rows->part, rows->count[2] - begin);
    return true;
}

struct cells layout_cells(const struct box *box, const struct shape *shape, const struct shape *chunk) {
    struct cells cells = {.total = 1};
    widen(box->start, box->rank, 0, cells.start);
    widen(box->count, box->rank, 1, cells.count);
    widen(shape->size, box->rank, 1, cells.extent);
    widen(chunk->size, box->rank, 1, cells.chunk);
    for (int axis = 0; axis < MAX_RANK; axis++) {
        cells.grid[axis] = ceil_div(cells.extent[axis], cells.chunk[axis]);
        cells.first[axis] = cells.start[axis] / cells.chunk[axis];
        cells.span[axis] = ceil_div(cells.start[axis] + cells.count[axis], cells.chunk[axis]) - cells.first[axis];
        cells.total *= cells.span[axis];
    }
    if (box_elements(box) == 0) cells.total = 0;
    return cells;
}

struct cell layout_cell(const struct cells *cells, int64_t number) {
    struct cell cell = {.whole = true};
    int64_t at[MAX_RANK];
    for (int axis = MAX_RANK - 1; axis >= 0; axis--) {
        at[axis] = cells->first[axis] + number % cells->span[axis];
        number /= cells->span[axis];
    }
    cell.number = (at[0] * cells->grid[1] + at[1]) * cells->grid[2] + at[2];
    for (int axis = 0; axis < MAX_RANK; axis++) {
        int64_t corner = at[axis] * cells->chunk[axis];
        int64_t chunk_end = at_most(corner + cells->chunk[axis], cells->extent[axis]);
        int64_t begin = corner > cells->start[axis] ? corner : cells->start[axis];
        int64_t end = at_most(chunk_end, cells->start[axis] + cells->count[axis]);
        cell.corner[axis] = corner;
        cell.in_chunk[axis] = begin - corner;
        cell.in_box[axis] = begin - cells->start[axis];
        cell.count[axis] = end - begin;
        cell.whole = cell.whole && begin == corner && end == chunk_end;
    }
    return cell;
}

int64_t layout_chunks(const struct shape *shape, const struct shape *chunk) {
    int64_t chunks = 1;
    for (int axis = 0; axis < shape->rank; axis++) chunks *= ceil_div(shape->size[axis], chunk->size[axis]);
    return chunks;
}
