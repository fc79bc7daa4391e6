/* matmul/merge.c - products of stacks with any number of axes. The axes of a stack are merged into one. If an
 * operand is broadcast along them, as in NumPy, its matrices are read again. */
#include "../core/reference.h"

#include "../core/axes.h"

/* Merges the stacks' axes into one axis, and leaves the matrices' two axes as they are. */
enum status matmul_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error) {
    char texts[2][SHAPE_TEXT];
    int stack = 0; /* number of axes of the result's stack */
    for (int i = 0; i < 2; i++) {
        if (shapes[i].rank < 2)
            return fail_key(error, "inputs", i, "matmul takes matrices or stacks of them, input %d has shape %s", i + 1,
                            shape_format(&shapes[i], texts[i]));
        if (shapes[i].rank - 2 > stack) stack = shapes[i].rank - 2;
    }
    int64_t size[MAX_RANK];
    for (int axis = 0; axis < stack; axis++) {
        size[axis] = 1;
        for (int i = 0; i < 2; i++) {
            int input_axis = axis - stack + shapes[i].rank - 2;
            int64_t input_size = input_axis < 0 ? 1 : shapes[i].size[input_axis];
            if (input_size != 1 && size[axis] != 1 && input_size != size[axis])
                return fail_key(error, "inputs", 1,
                                "the stacks of %s and %s cannot be broadcast: sizes before the last two are matched "
                                "from the last on, and %lld and %lld meet",
                                shape_format(&shapes[0], texts[0]), shape_format(&shapes[1], texts[1]),
                                (long long)size[axis], (long long)input_size);
            if (input_size != 1) size[axis] = input_size;
        }
    }
    for (int i = 0; i < 2; i++) {
        struct axes *in = &merged->in[i];
        bool one_matrix = true; /* for the whole stack */
        int missing_axes = stack - (shapes[i].rank - 2);
        for (int axis = missing_axes; axis < stack; axis++)
            one_matrix = one_matrix && shapes[i].size[axis - missing_axes] == 1;
        if (!one_matrix) axes_begin(in);
        for (int axis = 0; axis < stack && !one_matrix; axis++) {
            int input_axis = axis - missing_axes;
            axes_append(in, size[axis], input_axis >= 0 && shapes[i].size[input_axis] == size[axis] ? input_axis : -1);
        }
        for (int input_axis = shapes[i].rank - 2; input_axis < shapes[i].rank; input_axis++) {
            axes_begin(in);
            axes_append(in, shapes[i].size[input_axis], input_axis);
        }
    }
    int64_t matrix[2] = {shapes[0].size[shapes[0].rank - (options->transpose_a ? 1 : 2)],
                         shapes[1].size[shapes[1].rank - (options->transpose_b ? 2 : 1)]};
    bool stacked = merged->in[0].groups == 3 || merged->in[1].groups == 3;
    for (int axis = 0; axis < stack + 2; axis++) {
        if (axis == 0 || (axis == stack && stacked) || axis == stack + 1) axes_begin(&merged->out);
        axes_append(&merged->out, axis < stack ? size[axis] : matrix[axis - stack], axis);
    }
    return STATUS_OK;
}
