/* cut.c - cuts boxes along a grid. */
#include "cut.h"

#include "cpu.h"

/* The largest number of elements of a grain within a box. The 1 added to a count keeps the product of an empty box
 * above 0. */
static int64_t grain_elements(const struct box *box, const struct shape *grain) {
    int64_t elements = 1;
    for (int axis = 0; axis < grain->rank; axis++) elements *= min_int64(grain->size[axis], box->count[axis] + 1);
    return elements;
}

/* Pieces are made of units: of whole grains, or of single elements if a grain does not fit. */
struct cut cut_box(const struct box *box, const struct grid *grid, int64_t elements) {
    struct cut cut = {.box = *box, .pieces = 1};
    int64_t grain = grid ? grain_elements(box, &grid->grain) : 1;
    bool in_grains = grid && grid->grain.rank > 0 && (grid->keep_grains || grain <= elements);
    int64_t capacity = in_grains ? elements / grain : elements; /* units along this axis that fit into a piece */
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        int64_t unit = in_grains ? grid->grain.size[axis] : 1, start = box->start[axis], count = box->count[axis];
        int64_t in_array = start + (grid ? grid->shift[axis] : 0);
        cut.origin[axis] = start - in_array % unit;
        int64_t units = count > 0 ? ceil_div(start + count - cut.origin[axis], unit) : 0;
        int64_t units_per_piece = min_int64(units, capacity > 1 ? capacity : 1);
        cut.step[axis] = units_per_piece * unit;
        cut.count[axis] = units_per_piece > 0 ? ceil_div(units, units_per_piece) : 0;
        cut.pieces *= cut.count[axis];
        capacity /= units_per_piece > 0 ? units_per_piece : 1;
    }
    return cut;
}

struct box cut_piece(const struct cut *cut, int64_t number) {
    struct box piece = {.rank = cut->box.rank};
    for (int axis = piece.rank - 1; axis >= 0; axis--) {
        int64_t start = cut->box.start[axis], first = cut->origin[axis] + number % cut->count[axis] * cut->step[axis];
        int64_t end = min_int64(first + cut->step[axis], start + cut->box.count[axis]);
        piece.start[axis] = first > start ? first : start;
        piece.count[axis] = end - piece.start[axis];
        number /= cut->count[axis];
    }
    return piece;
}

int64_t cut_max_elements(const struct cut *cut) {
    int64_t elements = cut->pieces > 0;
    for (int axis = 0; axis < cut->box.rank; axis++) elements *= min_int64(cut->step[axis], cut->box.count[axis]);
    return elements;
}
