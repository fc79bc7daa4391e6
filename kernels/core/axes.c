/* axes.c - merges axes, and splits boxes of merged axes into boxes of the unmerged ones. */
#include "axes.h"

#include "map.h"

#include <string.h>

void axes_begin(struct axes *axes) {
    axes->group[axes->groups++] = 0;
}

void axes_append(struct axes *axes, int64_t size, int array_axis) {
    axes->size[axes->rank] = size;
    axes->array_axis[axes->rank++] = array_axis;
    axes->group[axes->groups - 1]++;
    if (array_axis >= axes->array_rank) axes->array_rank = array_axis + 1;
}

struct shape axes_merged_shape(const struct axes *axes) {
    struct shape shape = {.rank = axes->groups};
    for (int group = 0, axis = 0; group < axes->groups; group++) {
        shape.size[group] = 1;
        for (int i = 0; i < axes->group[group]; i++) shape.size[group] *= axes->size[axis++];
    }
    return shape;
}

static bool uses_indices(const struct map *map) {
    for (int i = 0; i < map->count; i++)
        if (map->nodes[i].function == MAP_INDEX) return true;
    return false;
}

/* Does the operation accept these shapes without merging? It must merge to broadcast, to keep reduced axes, and for a
 * map that uses indices. */
static bool fits_as_it_is(const struct operation *operation, const struct op_options *options,
                          const struct shape shapes[]) {
    int inputs = operation_inputs(operation, options);
    for (int i = 0; i < inputs; i++)
        if (shapes[i].rank > OPERAND_RANK) return false;
    if (options->map && uses_indices(options->map)) return false;
    for (int i = 1; i < inputs && options->map; i++) {
        if (shapes[i].rank != shapes[0].rank) return false;
        for (int axis = 0; axis < shapes[0].rank; axis++)
            if (shapes[i].size[axis] != shapes[0].size[axis]) return false;
    }
    bool stacks = !options->map && inputs == 2 && shapes[0].rank == OPERAND_RANK && shapes[1].rank == OPERAND_RANK;
    if (stacks && shapes[0].size[0] != shapes[1].size[0] && (shapes[0].size[0] == 1 || shapes[1].size[0] == 1))
        return false;
    return options->axis_count == 0 && !options->keepdims;
}

enum status geometry_make(enum op op, const struct op_options *options, const struct shape shapes[],
                          const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct operation *operation = operations[op];
    if (fits_as_it_is(operation, options, shapes)) return operation->geometry(options, shapes, dtypes, geometry, error);
    struct merged merged = {.options = *options};
    struct shape merged_shapes[MAX_INPUTS];
    TRY(operation->merge(options, shapes, &merged, error));
    int inputs = operation_inputs(operation, options);
    for (int i = 0; i < inputs; i++) merged_shapes[i] = axes_merged_shape(&merged.in[i]);
    TRY(operation->geometry(&merged.options, merged_shapes, dtypes, geometry, error));
    for (int i = 0; i < inputs; i++) geometry->in[i].axes = merged.in[i];
    geometry->out.axes = merged.out;
    /* The `shape` column has the unmerged shape. (matmul's text of b, m, n and k needs no change.) */
    struct shape out = operand_array(&geometry->out);
    if (operation->inputs == 1 || options->map) shape_format(options->map ? &out : &shapes[0], geometry->shape_text);
    return STATUS_OK;
}

bool operand_is_plain(const struct operand *operand) {
    return operand->axes.groups == 0;
}

bool operand_is_rearranged(const struct operand *operand) {
    const struct axes *axes = &operand->axes;
    for (int axis = 0, next = 0; axis < axes->rank; axis++) {
        if (axes->array_axis[axis] < 0 && axes->size[axis] != 1) return true;
        if (axes->array_axis[axis] < 0) continue;
        if (axes->array_axis[axis] < next) return true;
        next = axes->array_axis[axis] + 1;
    }
    return false;
}

bool operands_alike(const struct operand *one, const struct operand *other) {
    bool same = one->dtype == other->dtype && shape_equal(&one->shape, &other->shape);
    if (!same || (!operand_is_rearranged(one) && !operand_is_rearranged(other))) return same;
    same = one->axes.rank == other->axes.rank;
    for (int axis = 0; axis < one->axes.rank && same; axis++)
        same = one->axes.array_axis[axis] == other->axes.array_axis[axis] &&
               one->axes.size[axis] == other->axes.size[axis];
    return same;
}

struct shape operand_array(const struct operand *operand) {
    const struct axes *axes = &operand->axes;
    if (operand_is_plain(operand)) return operand->shape;
    struct shape shape = {.rank = axes->array_rank, .size = {1, 1, 1, 1, 1, 1, 1, 1}};
    for (int axis = 0; axis < axes->rank; axis++)
        if (axes->array_axis[axis] >= 0) shape.size[axes->array_axis[axis]] = axes->size[axis];
    return shape;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* The state of splitting one box of merged axes. */
struct split {
    const struct operand *operand;
    const struct box *box;
    box_callback *call;
    void *context;
    struct error *error;
    struct box part; /* a box of unmerged axes; set for the groups that were split so far */
};

/* Finds the largest box that begins a group's elements [start, end): sets its `at` and `count` along each of the
 * group's axes, whose sizes are given. Along one axis, `level`, the box has as many steps as fit; it is whole along the
 * axes inside that one, and has one step along those outside. Returns the box's number of elements. */
static int64_t first_box(const int64_t *size, int axes, int64_t start, int64_t end, int64_t *at, int64_t *count) {
    int64_t stride = 1, rest = start;
    int level = axes;
    for (int axis = axes - 1; axis >= 0; axis--) { /* the outermost axis along which whole steps fit */
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
    if (level == axes) return 1; /* the group has no axes */
    int64_t steps = (end - start) / stride, remaining = size[level] - at[level];
    count[level] = steps < remaining ? steps : remaining;
    return count[level] * stride;
}

/* Returns the number of the group's first axis among all axes. */
static int first_axis(const struct axes *axes, int group) {
    int axis = 0;
    for (int i = 0; i < group; i++) axis += axes->group[i];
    return axis;
}

/* Do the ranges of all groups from number `group` on form one box? */
static bool is_one_box(const struct split *split, int group) {
    const struct axes *axes = &split->operand->axes;
    for (; group < axes->groups; group++) {
        int axis = first_axis(axes, group);
        int64_t at[MAX_RANK], count[MAX_RANK], start = split->box->start[group], all = split->box->count[group];
        if (all > 0 && first_box(axes->size + axis, axes->group[group], start, start + all, at, count) < all)
            return false;
    }
    return true;
}

/* Calls split->call for each box, with the axes of groups 0 to group - 1 of split->part already set. */
static enum status split_groups(struct split *split, int group) {
    const struct axes *axes = &split->operand->axes;
    if (group == axes->groups) return split->call(split->context, &split->part, split->error);
    int axis = first_axis(axes, group);
    int64_t start = split->box->start[group], end = start + split->box->count[group];
    bool one = is_one_box(split, group + 1);
    enum status status = STATUS_OK;
    while (start < end && status == STATUS_OK) { /* element by element if the inner groups form several boxes */
        start += first_box(axes->size + axis, axes->group[group], start, one ? end : start + 1,
                           split->part.start + axis, split->part.count + axis);
        status = split_groups(split, group + 1);
    }
    return status;
}

enum status operand_boxes(const struct operand *operand, const struct box *box, box_callback *call, void *context,
                          struct error *error) {
    if (operand_is_plain(operand)) return call(context, box, error);
    struct split split = {operand, box, call, context, error, {.rank = operand->axes.rank}};
    return box_elements(box) > 0 ? split_groups(&split, 0) : STATUS_OK;
}
