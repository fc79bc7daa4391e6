/* cut.c - cuts boxes along a grid. */
#include "cut.h"

#include "cpu.h"

/* The most elements that a grain has within a box. One is added to the count of a short axis, so that an empty axis
 * does not make the product 0. */
static int64_t grain_elements(const struct box *box, const struct shape *grain) {
    int64_t elements = 1;
    for (int axis = 0; axis < grain->rank; axis++) elements *= min_int64(grain->size[axis], box->count[axis] + 1);
    return elements;
}

struct cut cut_box(const struct box *box, const struct grid *grid, int64_t elements) {
    struct cut cut = {.whole = *box, .pieces = 1};
    int64_t grain = grid ? grain_elements(box, &grid->grain) : 1;
    bool in_grains = grid && grid->grain.rank > 0 && (grid->whole || grain <= elements);
    int64_t room = in_grains ? elements / grain : elements; /* number of grains, or elements, that fit into a piece */
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        int64_t unit = in_grains ? grid->grain.size[axis] : 1, start = box->start[axis], count = box->count[axis];
        int64_t in_array = start + (grid ? grid->shift[axis] : 0);
        cut.origin[axis] = start - in_array % unit;
        int64_t units = count > 0 ? ceil_div(start + count - cut.origin[axis], unit) : 0;
        int64_t take = min_int64(units, room > 1 ? room : 1);
        cut.step[axis] = take * unit;
        cut.count[axis] = take > 0 ? ceil_div(units, take) : 0;
        cut.pieces *= cut.count[axis];
        room /= take > 0 ? take : 1;
    }
    return cut;
}

struct box cut_piece(const struct cut *cut, int64_t number) {
    struct box piece = {.rank = cut->whole.rank};
    for (int axis = piece.rank - 1; axis >= 0; axis--) {
        int64_t start = cut->whole.start[axis], first = cut->origin[axis] + number % cut->count[axis] * cut->step[axis];
        int64_t end = min_int64(first + cut->step[axis], start + cut->whole.count[axis]);
        piece.start[axis] = first > start ? first : start;
        piece.count[axis] = end - piece.start[axis];
        number /= cut->count[axis];
    }
    return piece;
}

int64_t cut_most_elements(const struct cut *cut) {
    int64_t elements = cut->pieces > 0;
    for (int axis = 0; axis < cut->whole.rank; axis++) elements *= min_int64(cut->step[axis], cut->whole.count[axis]);
    return elements;
}
