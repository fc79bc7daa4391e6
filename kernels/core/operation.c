/* operation.c - has the table of operations, and finds operations and operators. */
#include "map.h"
#include "reference.h"
#include <stdio.h>
#include <string.h>

const struct operation *const operations[OP_COUNT] = {
    [OP_MATMUL] = &operation_matmul, [OP_REDUCE] = &operation_reduce, [OP_TRANSPOSE] = &operation_transpose,
    [OP_SCALE] = &operation_scale,   [OP_MAP] = &operation_map,
};

int operation_inputs(const struct operation *operation, const struct op_options *options) {
    return options->map ? options->map->inputs : operation->inputs;
}

bool geometry_is_empty(const struct geometry *geometry) {
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->extent[loop] == 0) return true;
    return false;
}

const struct operation *operation_find(const char *name) {
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(operations[op]->name, name) == 0) return operations[op];
    return NULL;
}

bool unit_of_input(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    (void)options;
    return in[0] && snprintf(text, UNITS_TEXT, "%s", in[0]) < UNITS_TEXT;
}

bool long_name_of_input(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]) {
    (void)options;
    return in[0] && snprintf(text, LONG_NAME_TEXT, "%s", in[0]) < LONG_NAME_TEXT;
}

const char *operation_operator(const struct operation *operation, const struct op_options *options) {
    return operation->operators ? operation->operators[operation->operator_of(options)] : NULL;
}

bool kernel_has_operator(const struct kernel *kernel, const struct op_options *options) {
    const struct operation *operation = operations[kernel->op];
    return !operation->operators || kernel->operators == 0 ||
           (kernel->operators >> operation->operator_of(options) & 1);
}
