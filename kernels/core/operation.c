/* operation.c - the table of operations, and the names of reduce's operators. */
#include "reference.h"
#include <stdio.h>
#include <string.h>

const struct operation *const operations[OP_COUNT] = {
    [OP_MATMUL] = &operation_matmul,
    [OP_REDUCE] = &operation_reduce,
    [OP_TRANSPOSE] = &operation_transpose,
    [OP_SCALE] = &operation_scale,
};

const struct operation *operation_find(const char *name) {
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(operations[op]->name, name) == 0) return operations[op];
    return NULL;
}

bool units_of_input(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    (void)options;
    return in[0] && snprintf(text, UNITS_TEXT, "%s", in[0]) < UNITS_TEXT;
}

static const char *const operator_names[REDUCE_OPERATOR_COUNT] = {
    [REDUCE_SUM] = "sum",   [REDUCE_PROD] = "prod",   [REDUCE_MIN] = "min",       [REDUCE_MAX] = "max",
    [REDUCE_MEAN] = "mean", [REDUCE_NORM2] = "norm2", [REDUCE_ARGMIN] = "argmin", [REDUCE_ARGMAX] = "argmax",
};

const char *reduce_operator_name(enum reduce_operator operator_) {
    return operator_names[operator_];
}
