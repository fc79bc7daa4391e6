/* axes.c - merges axes, and takes boxes of merged axes apart. */
#include "axes.h"

#include <string.h>

void axes_begin(struct axes *axes) {
    axes->group[axes->groups++] = 0;
}

void axes_append(struct axes *axes, int64_t size, int of) {
    axes->size[axes->rank] = size;
    axes->of[axes->rank++] = of;
    axes->group[axes->groups - 1]++;
    if (of >= axes->array_rank) axes->array_rank = of + 1;
}

struct shape axes_merged_shape(const struct axes *axes) {
    struct shape shape = {.rank = axes->groups};
    for (int group = 0, axis = 0; group < axes->groups; group++) {
        shape.size[group] = 1;
        for (int i = 0; i < axes->group[group]; i++) shape.size[group] *= axes->size[axis++];
    }
    return shape;
}

/* A stack of one matrix is broadcast, as those of several axes are. */
static bool fits_as_it_is(const struct operation *operation, const struct op_options *options,
                          const struct shape shapes[]) {
    for (int i = 0; i < operation->inputs; i++)
        if (shapes[i].rank > OPERAND_RANK) return false;
    bool stacks = operation->inputs == 2 && shapes[0].rank == OPERAND_RANK && shapes[1].rank == OPERAND_RANK;
    if (stacks && shapes[0].size[0] != shapes[1].size[0] && (shapes[0].size[0] == 1 || shapes[1].size[0] == 1))
        return false;
    return options->axis_count == 0;
}

enum status geometry_make(enum op op, const struct op_options *options, const struct shape shapes[],
                          const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct operation *operation = operations[op];
    if (fits_as_it_is(operation, options, shapes)) return operation->geometry(options, shapes, dtypes, geometry, error);
    struct merged merged = {.options = *options};
    struct shape small[MAX_INPUTS];
    enum status status = operation->merge(options, shapes, &merged, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < operation->inputs; i++) small[i] = axes_merged_shape(&merged.in[i]);
    status = operation->geometry(&merged.options, small, dtypes, geometry, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < operation->inputs; i++) geometry->in[i].axes = merged.in[i];
    geometry->out.axes = merged.out;
    if (operation->inputs == 1) shape_format(&shapes[0], geometry->shape_text);
    return STATUS_OK;
}

bool operand_is_plain(const struct operand *operand) {
    return operand->axes.groups == 0;
}

bool operand_is_rearranged(const struct operand *operand) {
    const struct axes *axes = &operand->axes;
    for (int axis = 0, next = 0; axis < axes->rank; axis++) {
        if (axes->of[axis] < 0 && axes->size[axis] != 1) return true;
        if (axes->of[axis] < 0) continue;
        if (axes->of[axis] < next) return true;
        next = axes->of[axis] + 1;
    }
    return false;
}

bool operands_alike(const struct operand *one, const struct operand *other) {
    bool same = one->dtype == other->dtype && one->shape.rank == other->shape.rank;
    for (int axis = 0; axis < one->shape.rank && same; axis++) same = one->shape.size[axis] == other->shape.size[axis];
    if (!same || (!operand_is_rearranged(one) && !operand_is_rearranged(other))) return same;
    same = one->axes.rank == other->axes.rank;
    for (int axis = 0; axis < one->axes.rank && same; axis++)
        same = one->axes.of[axis] == other->axes.of[axis] && one->axes.size[axis] == other->axes.size[axis];
    return same;
}

struct shape operand_array(const struct operand *operand) {
    const struct axes *axes = &operand->axes;
    if (operand_is_plain(operand)) return operand->shape;
    struct shape shape = {.rank = axes->array_rank, .size = {1, 1, 1, 1, 1, 1, 1, 1}};
    for (int axis = 0; axis < axes->rank; axis++)
        if (axes->of[axis] >= 0) shape.size[axes->of[axis]] = axes->size[axis];
    return shape;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

struct apart {
    const struct operand *operand;
    const struct box *box;
    take_box *take;
    void *context;
    struct error *error;
    struct box part; /* of `axes`, as far as it is known */
};

/* The first box of a group's elements from `start` to `end`, into `part`; returns how many elements it has. */
static int64_t first_box(const int64_t *size, int axes, int64_t start, int64_t end, int64_t *at, int64_t *count) {
    int64_t stride = 1, rest = start;
    int level = axes;
    for (int axis = axes - 1; axis >= 0; axis--) { /* the largest steps that begin at `start` and end by `end` */
        if (start % stride == 0 && start + stride <= end) level = axis;
        stride *= size[axis];
    }
    stride = 1;
    for (int axis = axes - 1; axis > level; axis--) stride *= size[axis];
    for (int axis = axes - 1; axis >= 0; axis--) {
        at[axis] = rest % size[axis];
        count[axis] = axis > level ? size[axis] : 1;
        rest /= size[axis];
    }
    if (level == axes) return 1; /* of no axes */
    int64_t steps = (end - start) / stride, room = size[level] - at[level];
    count[level] = steps < room ? steps : room;
    return count[level] * stride;
}

static int first_axis(const struct axes *axes, int group) {
    int axis = 0;
    for (int i = 0; i < group; i++) axis += axes->group[i];
    return axis;
}

/* Are the parts of the groups from `group` on one box? */
static bool is_one_box(const struct apart *apart, int group) {
    const struct axes *axes = &apart->operand->axes;
    for (; group < axes->groups; group++) {
        int axis = first_axis(axes, group);
        int64_t at[MAX_RANK], count[MAX_RANK], start = apart->box->start[group], all = apart->box->count[group];
        if (all > 0 && first_box(axes->size + axis, axes->group[group], start, start + all, at, count) < all)
            return false;
    }
    return true;
}

static enum status take_groups(struct apart *apart, int group) {
    const struct axes *axes = &apart->operand->axes;
    if (group == axes->groups) return apart->take(apart->context, &apart->part, apart->error);
    int axis = first_axis(axes, group);
    int64_t start = apart->box->start[group], end = start + apart->box->count[group];
    bool one = is_one_box(apart, group + 1);
    enum status status = STATUS_OK;
    while (start < end && status == STATUS_OK) { /* where what follows is several boxes, element after element */
        start += first_box(axes->size + axis, axes->group[group], start, one ? end : start + 1,
                           apart->part.start + axis, apart->part.count + axis);
        status = take_groups(apart, group + 1);
    }
    return status;
}

enum status operand_boxes(const struct operand *operand, const struct box *box, take_box *take, void *context,
                          struct error *error) {
    if (operand_is_plain(operand)) return take(context, box, error);
    struct apart apart = {operand, box, take, context, error, {.rank = operand->axes.rank}};
    return box_elements(box) > 0 ? take_groups(&apart, 0) : STATUS_OK;
}
