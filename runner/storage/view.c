/* view.c - maps views to their data sets. */
#include "view.h"

#include <string.h>

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t remainder = a % b;
        a = b;
        b = remainder;
    }
    return a;
}

struct data_view view_of_all(const struct shape *source) {
    struct data_view view = {.source = *source};
    for (int axis = 0; axis < source->rank; axis++) view.step[axis] = 1;
    return view;
}

enum status view_select(const struct job_select *select, struct data_view *view, struct shape *shape,
                        struct error *error) {
    const struct shape source = *shape;
    char text[SHAPE_TEXT], slice_text[JOB_SLICE_TEXT];
    if (select->rank != source.rank)
        return fail_key(error, "select", -1,
                        "'select' has %d entries, but the data set's shape %s needs one for each axis", select->rank,
                        shape_format(&source, text));
    *view = view_of_all(&source);
    *shape = (struct shape){0};
    for (int axis = 0; axis < source.rank; axis++) {
        const struct job_slice *slice = &select->slices[axis];
        int64_t size = source.size[axis], first = slice->first, end = slice->end;
        if (first < 0) first += size;
        if (slice->index && (first < 0 || first >= size))
            return fail_key(error, "select", axis, "'select': index %lld is not in axis %d, which has %lld elements",
                            (long long)slice->first, axis, (long long)size);
        view->dropped[axis] = slice->index;
        view->first[axis] = first;
        if (slice->index) continue;
        if (!slice->has_end) end = size;
        if (end < 0) end += size;
        if (first < 0 || first > size || end < 0 || end > size)
            return fail_key(error, "select", axis, "'select': \"%s\" reaches beyond axis %d, which has %lld elements",
                            job_slice_format(slice, slice_text), axis, (long long)size);
        view->step[axis] = slice->step;
        shape->size[shape->rank++] = end > first ? (end - first + slice->step - 1) / slice->step : 0;
    }
    return STATUS_OK;
}

int view_axis(const struct data_view *view, int axis) {
    if (view->source.rank == 0) return axis;
    for (int source_axis = 0; source_axis < view->source.rank; source_axis++)
        if (!view->dropped[source_axis] && axis-- == 0) return source_axis;
    return view->source.rank;
}

void view_begin(struct data_view *view, int axis, int64_t first) {
    int source_axis = view_axis(view, axis);
    view->first[source_axis] += first * view->step[source_axis];
}

bool view_is_box(const struct data_view *view) {
    for (int axis = 0; axis < view->source.rank; axis++)
        if (view->step[axis] != 1 || view->dropped[axis]) return false;
    return true;
}

struct selection view_selection(const struct data_view *view, const struct box *box) {
    if (view->source.rank == 0) return selection_of_box(box);
    struct selection selection = {.rank = view->source.rank};
    for (int source_axis = 0, axis = 0; source_axis < selection.rank; source_axis++) {
        bool kept = !view->dropped[source_axis];
        selection.start[source_axis] =
            view->first[source_axis] + (kept ? box->start[axis] * view->step[source_axis] : 0);
        selection.count[source_axis] = kept ? box->count[axis] : 1;
        selection.step[source_axis] = view->step[source_axis];
        axis += kept;
    }
    return selection;
}

/* A chunk's end is of use if it falls between two elements of the view, which happens after every size / gcd(size,
 * step) elements of the view. Steps and chunks have at least one element. */
struct shape view_grain(const struct data_view *view, const struct shape *chunk) {
    if (view->source.rank == 0 || chunk->rank == 0) return *chunk;
    struct shape grain = {.rank = 0};
    for (int source_axis = 0; source_axis < view->source.rank; source_axis++) {
        if (view->dropped[source_axis]) continue;
        int64_t size = chunk->size[source_axis], step = view->step[source_axis];
        grain.size[grain.rank++] = step >= size ? 1 : size / greatest_common_divisor(size, step);
    }
    return grain;
}

void view_shift(const struct data_view *view, int64_t shift[MAX_RANK]) {
    memset(shift, 0, MAX_RANK * sizeof *shift);
    for (int source_axis = 0, axis = 0; source_axis < view->source.rank; source_axis++)
        if (!view->dropped[source_axis]) shift[axis++] = view->first[source_axis] / view->step[source_axis];
}

double view_excess(const struct data_view *view, const struct shape *shape, const struct shape *chunk) {
    double excess = 1;
    for (int source_axis = 0, axis = 0; source_axis < view->source.rank; source_axis++) {
        int64_t step = view->step[source_axis], size = chunk->rank ? chunk->size[source_axis] : 1;
        int64_t source_size = view->source.size[source_axis];
        int64_t count = view->dropped[source_axis] ? 1 : shape->size[axis];
        axis += !view->dropped[source_axis];
        bool last = source_axis == view->source.rank - 1;
        if (chunk->rank == 0) {
            if (last) excess *= (double)step; /* a row is read with the gaps between its elements */
        } else if (count > 0) {
            double span = (double)((count - 1) * step + 1);
            double chunks = step > size ? (double)count : span / (double)size + 1;
            double read = chunks * (double)size;
            excess *= (read < (double)source_size ? read : (double)source_size) / (double)count;
        }
    }
    return excess;
}
