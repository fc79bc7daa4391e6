/* transpose/merge.c - expresses any order of axes as a transpose of the last two of up to three axes. Axes that stay
 * adjacent in order form a run, which becomes one axis. The host reads the input with its runs in the result's order,
 * except that the last two runs are swapped; the kernel swaps these two back. With one run nothing moves. */
#include "../core/reference.h"

#include "../core/axes.h"

/* Finds order[axis], the axis of the input that becomes `axis` of the result. Without the option the last two axes
 * are swapped. */
static enum status find_order(const struct op_options *options, int rank, int order[MAX_RANK], struct error *error) {
    bool seen[MAX_RANK] = {false};
    if (rank < 2) return fail_key(error, "inputs", 0, "transpose takes two axes or more");
    for (int axis = 0; axis < rank; axis++) order[axis] = axis < rank - 2 ? axis : 2 * rank - 3 - axis;
    if (options->axis_count == 0) return STATUS_OK;
    if (options->axis_count != rank)
        return fail_key(error, "axes", -1, "'axes' must have %d entries, one for each axis of the input, not %d", rank,
                        options->axis_count);
    for (int axis = 0; axis < rank; axis++) {
        int input_axis = options->axes[axis];
        if (input_axis < -rank || input_axis >= rank || seen[input_axis < 0 ? input_axis + rank : input_axis])
            return fail_key(error, "axes", axis, "'axes' must name each of the %d axes once", rank);
        order[axis] = input_axis < 0 ? input_axis + rank : input_axis;
        seen[order[axis]] = true;
    }
    return STATUS_OK;
}

/* Appends the result's axes first .. end - 1 as one merged axis. `named`: with their numbers in the input, else with
 * those in the result. */
static void append_run(struct axes *axes, const struct shape *shape, const int *order, int first, int end, bool named) {
    axes_begin(axes);
    for (int axis = first; axis < end; axis++) axes_append(axes, shape->size[order[axis]], named ? order[axis] : axis);
}

/* operation->merge: merges all runs but the last two into one axis, the stack, and each of these two into one. */
enum status transpose_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                                 struct error *error) {
    int rank = shapes[0].rank, order[MAX_RANK] = {0}, begin[MAX_RANK + 1] = {0}, runs = 0;
    TRY(find_order(options, rank, order, error));
    for (int axis = 0; axis < rank; axis++)
        if (axis == 0 || order[axis] != order[axis - 1] + 1) begin[runs++] = axis;
    begin[runs] = rank;
    /* The last two runs swap; those before them are the stack, of one matrix if there is only one run. */
    int last = begin[runs - 1], before = runs > 1 ? begin[runs - 2] : 0;
    if (before > 0) {
        append_run(&merged->in[0], &shapes[0], order, 0, before, true);
        append_run(&merged->out, &shapes[0], order, 0, before, false);
    }
    append_run(&merged->in[0], &shapes[0], order, last, rank, true);
    append_run(&merged->in[0], &shapes[0], order, before, last, true);
    append_run(&merged->out, &shapes[0], order, before, last, false);
    append_run(&merged->out, &shapes[0], order, last, rank, false);
    return STATUS_OK;
}
