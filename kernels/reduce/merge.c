/* reduce/merge.c - reductions over any axes: those that disappear are one group, those before and behind it are others.
 * Where they are no neighbours the host puts them behind the others while it reads. */
#include "../core/reference.h"

#include "../core/axes.h"

static enum status find_axes(const struct op_options *options, int rank, bool gone[MAX_RANK], struct error *error) {
    int count = options->axis_count ? options->axis_count : 1;
    bool all = options->axis_count == 0 && options->axis == REDUCE_ALL_AXES;
    for (int axis = 0; axis < rank; axis++) gone[axis] = all;
    for (int i = 0; i < count && !all; i++) {
        int axis = options->axis_count ? options->axes[i] : options->axis;
        if (axis < -rank || axis >= rank)
            return fail(error, STATUS_USAGE, "there is no axis %d: the input has %d", axis, rank);
        if (axis < 0) axis += rank;
        if (gone[axis]) return fail(error, STATUS_USAGE, "axis %d is named twice", axis);
        gone[axis] = true;
    }
    if (count > 1 && (options->reduce == REDUCE_ARGMIN || options->reduce == REDUCE_ARGMAX))
        return fail(error, STATUS_USAGE, "argmin and argmax take one axis, or all of them");
    return STATUS_OK;
}

/* Appends the axes from `first` to `end` that are gone, or that are not, to a new group, if there are any. */
static bool take(struct axes *axes, const struct shape *shape, const bool gone[MAX_RANK], bool which, int first,
                 int end) {
    bool any = false;
    for (int axis = first; axis < end; axis++) {
        if (gone[axis] != which) continue;
        if (!any) axes_begin(axes);
        axes_append(axes, shape->size[axis], axis);
        any = true;
    }
    return any;
}

enum status reduce_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error) {
    const struct shape *shape = &shapes[0];
    int rank = shape->rank, first = rank, end = 0;
    bool gone[MAX_RANK], neighbours = true;
    enum status status = find_axes(options, rank, gone, error);
    if (status != STATUS_OK) return status;
    merged->options.axis_count = 0;
    for (int axis = 0; axis < rank; axis++) {
        if (!gone[axis]) continue;
        if (axis < first) first = axis;
        end = axis + 1;
        merged->options.axes[merged->options.axis_count++] = axis;
    }
    for (int axis = first; axis < end; axis++) neighbours = neighbours && gone[axis];
    struct axes *in = &merged->in[0];
    if (!neighbours) first = rank;
    bool before = take(in, shape, gone, false, 0, first);
    take(in, shape, gone, true, 0, rank);
    if (neighbours) take(in, shape, gone, false, end, rank);
    merged->options.axis = merged->options.axis_count == rank ? REDUCE_ALL_AXES : before;
    /* The result has the other axes, in their order. */
    for (int axis = 0, of = 0; axis < rank; axis++) {
        if (gone[axis]) continue;
        if (of == 0 || (neighbours && axis == end)) axes_begin(&merged->out);
        axes_append(&merged->out, shape->size[axis], of++);
    }
    return STATUS_OK;
}
