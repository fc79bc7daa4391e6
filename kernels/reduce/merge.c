/* reduce/merge.c - reductions over any axes: the reduced axes form one group, the axes before and after it form others.
 * Reduced axes that are not adjacent are moved behind the other axes while the host reads the array. */
#include "../core/reference.h"

#include "../core/axes.h"

/* Sets reduced[axis] for each axis that the options name. Reports an axis that does not exist or is named twice, and
 * argmin or argmax over several axes but not all. */
static enum status find_axes(const struct op_options *options, int rank, bool reduced[MAX_RANK], struct error *error) {
    int count = options->axis_count ? options->axis_count : 1;
    bool all = options->axis_count == 0 && options->axis == REDUCE_ALL_AXES;
    for (int axis = 0; axis < rank; axis++) reduced[axis] = all;
    for (int i = 0; i < count && !all; i++) {
        int axis = options->axis_count ? options->axes[i] : options->axis;
        if (axis < -rank || axis >= rank)
            return fail_key(error, "axis", i, "there is no axis %d: the input has %d, numbered from 0", axis, rank);
        if (axis < 0) axis += rank;
        if (reduced[axis]) return fail_key(error, "axis", i, "axis %d is named twice", axis);
        reduced[axis] = true;
    }
    if (count > 1 && count < rank && (options->reduce == REDUCE_ARGMIN || options->reduce == REDUCE_ARGMAX))
        return fail_key(error, "axis", 0, "argmin and argmax take one axis, or all of them");
    return STATUS_OK;
}

/* Appends to a new group those axes from `first` to `end` - 1 whose `reduced` equals `which`. false: there are none. */
static bool append_group(struct axes *axes, const struct shape *shape, const bool reduced[MAX_RANK], bool which,
                         int first, int end) {
    bool any = false;
    for (int axis = first; axis < end; axis++) {
        if (reduced[axis] != which) continue;
        if (!any) axes_begin(axes);
        axes_append(axes, shape->size[axis], axis);
        any = true;
    }
    return any;
}

/* operation->merge: makes up to three groups: the axes before the reduced ones, the reduced axes, and the axes behind
 * them; or, if the reduced axes are not adjacent, all other axes and then the reduced ones. */
enum status reduce_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error) {
    const struct shape *shape = &shapes[0];
    int rank = shape->rank, first = rank, end = 0;
    bool reduced[MAX_RANK], adjacent = true;
    TRY(find_axes(options, rank, reduced, error));
    merged->options.axis_count = 0;
    for (int axis = 0; axis < rank; axis++) {
        if (!reduced[axis]) continue;
        if (axis < first) first = axis;
        end = axis + 1;
        merged->options.axes[merged->options.axis_count++] = axis;
    }
    for (int axis = first; axis < end; axis++) adjacent = adjacent && reduced[axis];
    struct axes *in = &merged->in[0];
    if (!adjacent) first = rank;
    bool before = append_group(in, shape, reduced, false, 0, first);
    append_group(in, shape, reduced, true, 0, rank);
    if (adjacent) append_group(in, shape, reduced, false, end, rank);
    merged->options.axis = merged->options.axis_count == rank ? REDUCE_ALL_AXES : before;
    if (options->keepdims && merged->options.axis_count == rank)
        return fail_key(error, "keepdims", 0, "a result of one element needs no axes: it is broadcast as it is");
    /* The result has the other axes, in their order. */
    for (int axis = 0, out_axis = 0; axis < rank; axis++) {
        if (reduced[axis]) continue;
        if (out_axis == 0 || (adjacent && axis == end)) axes_begin(&merged->out);
        axes_append(&merged->out, shape->size[axis], options->keepdims ? axis : out_axis);
        out_axis++;
    }
    if (options->keepdims) merged->out.array_rank = rank;
    return STATUS_OK;
}
