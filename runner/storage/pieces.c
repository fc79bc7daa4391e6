/* pieces.c - boxes cut along a grid. */
#include "pieces.h"

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

struct pieces pieces_cut(const struct box *box, const struct shape *chunk, int64_t shift, int64_t limit) {
    struct pieces pieces = {.box = *box, .total = 1};
    int64_t unit[MAX_RANK] = {1, 1, 1}, elements = 1; /* what the grid's lines are multiples of */
    for (int axis = 0; axis < chunk->rank; axis++) elements *= chunk->size[axis];
    bool chunked = chunk->rank == box->rank && elements <= limit;
    for (int axis = 0; axis < box->rank; axis++) {
        unit[axis] = chunked ? chunk->size[axis] : 1;
        int64_t in_file = box->start[axis] + (axis == 0 ? shift : 0);
        pieces.origin[axis] = box->start[axis] - in_file % unit[axis];
    }
    /* As many units as there is room for, along the last axis first: pieces then are as contiguous as they can be. */
    int64_t room = chunked ? limit / elements : limit;
    for (int axis = MAX_RANK - 1; axis >= 0; axis--) {
        if (axis >= box->rank) continue;
        int64_t span = box->start[axis] + box->count[axis] - pieces.origin[axis];
        int64_t units = ceil_div(span, unit[axis]), take = at_most(units, room > 1 ? room : 1);
        pieces.size[axis] = take * unit[axis];
        pieces.count[axis] = take > 0 ? ceil_div(units, take) : 0;
        pieces.total *= pieces.count[axis];
        room = take < units ? 1 : room / (take > 0 ? take : 1);
    }
    if (box_elements(box) == 0) pieces.total = 0;
    return pieces;
}

struct box pieces_get(const struct pieces *pieces, int64_t number) {
    struct box piece = {.rank = pieces->box.rank};
    for (int axis = piece.rank - 1; axis >= 0; axis--) {
        int64_t first = pieces->origin[axis] + number % pieces->count[axis] * pieces->size[axis];
        int64_t end = at_most(first + pieces->size[axis], pieces->box.start[axis] + pieces->box.count[axis]);
        piece.start[axis] = first > pieces->box.start[axis] ? first : pieces->box.start[axis];
        piece.count[axis] = end - piece.start[axis];
        number /= pieces->count[axis];
    }
    return piece;
}
