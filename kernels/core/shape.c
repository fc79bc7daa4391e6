/* shape.c - computes with shapes and boxes. */
#include "cpu.h"
#include "operation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t product(const int64_t *sizes, int rank) {
    int64_t elements = 1;
    for (int axis = 0; axis < rank; axis++) elements *= sizes[axis];
    return elements;
}

int64_t shape_elements(const struct shape *shape) {
    return product(shape->size, shape->rank);
}

bool shape_countable(const struct shape *shape) {
    int64_t max_count = INT64_MAX / 16 /* elements */;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis] > 0 ? shape->size[axis] : 1;
        if (size > max_count) return false;
        max_count /= size;
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

bool shape_equal(const struct shape *a, const struct shape *b) {
    return a->rank == b->rank && memcmp(a->size, b->size, (size_t)a->rank * sizeof *a->size) == 0;
}

bool box_equal(const struct box *a, const struct box *b) {
    bool equal = a->rank == b->rank;
    for (int axis = 0; equal && axis < a->rank; axis++)
        equal = a->start[axis] == b->start[axis] && a->count[axis] == b->count[axis];
    return equal;
}

bool box_intersect(const struct box *one, const struct box *other, struct box *both) {
    *both = *one;
    for (int axis = 0; axis < one->rank; axis++) {
        int64_t end = min_int64(one->start[axis] + one->count[axis], other->start[axis] + other->count[axis]);
        if (other->start[axis] > one->start[axis]) both->start[axis] = other->start[axis];
        both->count[axis] = end - both->start[axis];
        if (both->count[axis] <= 0) return false;
    }
    return true;
}
