/* layout.c - cuts boxes into runs and into cells. */
#include "layout.h"

#include <string.h>

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
    /* While the box covers the last axis whole, that axis is merged into the one before: fewer, longer rows. */
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
    struct cells cells;
    struct box wide = {.rank = MAX_RANK};
    struct grid grid = {.grain.rank = MAX_RANK, .whole = true};
    widen(box->start, box->rank, 0, wide.start);
    widen(box->count, box->rank, 1, wide.count);
    widen(shape->size, box->rank, 1, cells.extent);
    widen(chunk->size, box->rank, 1, grid.grain.size);
    memcpy(cells.chunk, grid.grain.size, sizeof cells.chunk);
    for (int axis = 0; axis < MAX_RANK; axis++) cells.grid[axis] = ceil_div(cells.extent[axis], cells.chunk[axis]);
    cells.cut = cut_box(&wide, &grid, 1);
    return cells;
}

struct cell layout_cell(const struct cells *cells, int64_t number) {
    struct cell cell = {.whole = true};
    struct box piece = cut_piece(&cells->cut, number);
    for (int axis = 0; axis < MAX_RANK; axis++) {
        int64_t size = cells->chunk[axis], at = piece.start[axis] / size, corner = at * size;
        cell.number = cell.number * cells->grid[axis] + at;
        cell.corner[axis] = corner;
        cell.in_chunk[axis] = piece.start[axis] - corner;
        cell.in_box[axis] = piece.start[axis] - cells->cut.whole.start[axis];
        cell.count[axis] = piece.count[axis];
        cell.whole = cell.whole && piece.count[axis] == at_most(size, cells->extent[axis] - corner);
    }
    return cell;
}

int64_t layout_chunks(const struct shape *shape, const struct shape *chunk) {
    int64_t chunks = 1;
    for (int axis = 0; axis < shape->rank; axis++) chunks *= ceil_div(shape->size[axis], chunk->size[axis]);
    return chunks;
}
