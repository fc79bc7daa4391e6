/* shape.c - shapes and boxes. */
#include "operation.h"

#include "cpu.h"
#include <inttypes.h>
#include <stdio.h>

static int64_t product(const int64_t *sizes, int rank) {
    int64_t elements = 1;
    for (int axis = 0; axis < rank; axis++) elements *= sizes[axis];
    return elements;
}

int64_t shape_elements(const struct shape *shape) {
    return product(shape->size, shape->rank);
}

bool shape_countable(const struct shape *shape) {
    int64_t most = INT64_MAX / 16;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis] > 0 ? shape->size[axis] : 1;
        if (size > most) return false;
        most /= size;
    }
    return true;
}

const char *shape_format(const struct shape *shape, char text[SHAPE_TEXT]) {
    int length = snprintf(text, SHAPE_TEXT, "%s", shape->rank == 0 ? "scalar" : "");
    for (int axis = 0; axis < shape->rank; axis++)
        length +=
            snprintf(text + length, SHAPE_TEXT - (size_t)length, "%s%" PRId64, axis ? "x" : "", shape->size[axis]);
    return text;
}

int64_t box_elements(const struct box *box) {
    return product(box->count, box->rank);
}

struct box box_whole(const struct shape *shape) {
    struct box box = {.rank = shape->rank};
    for (int axis = 0; axis < shape->rank; axis++) box.count[axis] = shape->size[axis];
    return box;
}

struct box box_of_tile(const struct operand *operand, const struct tile *tile) {
    struct box box = {.rank = operand->shape.rank};
    for (int axis = 0; axis < box.rank; axis++) {
        box.start[axis] = tile->start[operand->loop[axis]];
        box.count[axis] = tile->count[operand->loop[axis]];
    }
    return box;
}

bool box_equal(const struct box *a, const struct box *b) {
    bool equal = a->rank == b->rank;
    for (int axis = 0; equal && axis < a->rank; axis++)
        equal = a->start[axis] == b->start[axis] && a->count[axis] == b->count[axis];
    return equal;
}

struct cut box_cut(const struct box *box, const struct shape *grain, int64_t elements) {
    struct cut cut = {.whole = *box, .pieces = 1};
    int64_t room = elements;
    for (int axis = 0; axis < grain->rank; axis++) room /= min_int64(grain->size[axis], box->count[axis] + 1);
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        int64_t unit = grain->rank > 0 ? grain->size[axis] : 1, count = box->count[axis];
        if (count == 0) return (struct cut){.whole = *box};
        int64_t units = min_int64(ceil_div(count, unit), room > 1 ? room : 1);
        cut.step[axis] = min_int64(units * unit, count);
        cut.pieces *= ceil_div(count, cut.step[axis]);
        room /= units;
    }
    return cut;
}

struct box cut_piece(const struct cut *cut, int64_t number) {
    struct box piece = {.rank = cut->whole.rank};
    for (int axis = piece.rank - 1; axis >= 0; axis--) {
        int64_t count = cut->whole.count[axis], step = cut->step[axis], pieces = ceil_div(count, step);
        int64_t before = number % pieces * step;
        piece.start[axis] = cut->whole.start[axis] + before;
        piece.count[axis] = min_int64(step, count - before);
        number /= pieces;
    }
    return piece;
}
