/* matmul/merge.c - merges the axes of stacks with any number of axes into one axis. If an operand is broadcast along
 * some of them, as in NumPy, its matrices are read again. */
#include "../core/reference.h"

#include "../core/axes.h"

/* The axes of the result's stack: all axes but the last two, which the matrices have. */
struct stack {
    int rank;
    int64_t size[MAX_RANK];
};

/* Finds the stack that both inputs' stacks are broadcast to. */
static enum status broadcast_stacks(const struct shape shapes[2], struct stack *stack, struct error *error) {
    char texts[2][SHAPE_TEXT];
    stack->rank = 0;
    for (int i = 0; i < 2; i++) {
        if (shapes[i].rank < 2)
            return fail_key(error, "inputs", i, "matmul takes matrices or stacks of them, input %d has shape %s", i + 1,
                            shape_format(&shapes[i], texts[i]));
        if (shapes[i].rank - 2 > stack->rank) stack->rank = shapes[i].rank - 2;
    }
    for (int axis = 0; axis < stack->rank; axis++) {
        int64_t size = 1;
        for (int i = 0; i < 2; i++) {
            int input_axis = axis - stack->rank + shapes[i].rank - 2;
            int64_t input_size = input_axis < 0 ? 1 : shapes[i].size[input_axis];
            if (input_size != 1 && size != 1 && input_size != size)
                return fail_key(error, "inputs", 1,
                                "the stacks of %s and %s cannot be broadcast: sizes before the last two are matched "
                                "from the last on, and %lld and %lld meet",
                                shape_format(&shapes[0], texts[0]), shape_format(&shapes[1], texts[1]), (long long)size,
                                (long long)input_size);
            if (input_size != 1) size = input_size;
        }
        stack->size[axis] = size;
    }
    return STATUS_OK;
}

/* Groups an input's axes: the stack's axes, unless the input has one matrix for the whole stack, then the matrices' two
 * axes, each alone. */
static void merge_input(const struct shape *shape, const struct stack *stack, struct axes *in) {
    int own_stack = shape->rank - 2, missing_axes = stack->rank - own_stack;
    bool one_matrix = true;
    for (int axis = 0; axis < own_stack; axis++) one_matrix = one_matrix && shape->size[axis] == 1;
    if (!one_matrix) axes_begin(in);
    for (int axis = 0; axis < stack->rank && !one_matrix; axis++) {
        int input_axis = axis - missing_axes;
        bool has_axis = input_axis >= 0 && shape->size[input_axis] == stack->size[axis];
        axes_append(in, stack->size[axis], has_axis ? input_axis : -1);
    }
    for (int axis = own_stack; axis < shape->rank; axis++) {
        axes_begin(in);
        axes_append(in, shape->size[axis], axis);
    }
}

/* operation->merge: merges the stacks' axes into one axis, and leaves the matrices' two axes as they are. */
enum status matmul_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                              struct error *error) {
    struct stack stack = {.rank = 0};
    TRY(broadcast_stacks(shapes, &stack, error));
    for (int i = 0; i < 2; i++) merge_input(&shapes[i], &stack, &merged->in[i]);
    bool stacked = merged->in[0].groups == 3 || merged->in[1].groups == 3;
    int64_t rows = shapes[0].size[shapes[0].rank - (options->transpose_a ? 1 : 2)];
    int64_t columns = shapes[1].size[shapes[1].rank - (options->transpose_b ? 2 : 1)];
    axes_begin(&merged->out); /* if no input is stacked, the stack's axes have size 1 and join the rows' axis */
    for (int axis = 0; axis < stack.rank; axis++) axes_append(&merged->out, stack.size[axis], axis);
    if (stacked) axes_begin(&merged->out);
    axes_append(&merged->out, rows, stack.rank);
    axes_begin(&merged->out);
    axes_append(&merged->out, columns, stack.rank + 1);
    return STATUS_OK;
}
