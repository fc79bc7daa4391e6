/* job_expression.c - reads expressions over arrays. */
#include "job_parts.h"

#include "expression/expression.h"

#include <string.h>

/* Lists the names of the operation's inputs, as its expression writes them; "": a name cannot be read. Returns their
 * number. */
static int input_names(struct job_reader *reader, const struct job_operation *operation,
                       const char *names[MAX_INPUTS]) {
    const struct yaml_node *list = yaml_get(operation->node, "inputs");
    int count = 0;
    for (int i = 0; list && list->kind == YAML_LIST && i < list->count && count < MAX_INPUTS; i++) {
        const struct yaml_node *name = list->items[i]->text ? job_read_scalar(reader, list->items[i], "inputs") : NULL;
        names[count++] = name ? name->text : "";
    }
    return count;
}

int job_max_inputs(enum op op, const struct yaml_node *node) {
    return op == OP_REDUCE && yaml_get(node, "map") ? MAX_INPUTS : operations[op]->inputs;
}

/* Notes inputs that an expression does not name. This is no error: their shapes may enlarge the result. */
static void note_unnamed_inputs(struct job_reader *reader, const struct job_operation *operation,
                                const struct expression *expression, const struct array_names *arrays) {
    const struct yaml_node *list = yaml_get(operation->node, "inputs");
    if (expression_names(expression, -1)) return; /* it uses an index, `i0`, whose range the inputs' shapes set */
    for (int i = 0; i < arrays->count; i++) {
        int first = 0; /* of the same name, which is the one that the expression means */
        while (strcmp(arrays->names[first], arrays->names[i]) != 0) first++;
        if (expression_names(expression, first)) continue;
        job_note(reader, list->items[i], "the expression of '%s' uses input '%s' for its shape only", operation->id,
                 arrays->names[i]);
    }
}

void job_read_expression(struct job_reader *reader, struct job_operation *operation) {
    const char *key = operation->op == OP_MAP ? "expression" : "map";
    const struct yaml_node *node = yaml_get(operation->node, key);
    const char *names[MAX_INPUTS] = {NULL};
    if (!node || node->wrong || (operation->op != OP_MAP && operation->op != OP_REDUCE)) return;
    if (!node->text || node->kind == YAML_NULL || !*node->text) {
        job_error(reader, node, "'%s' must be text such as \"(A - B) * 2\"", key);
        return;
    }
    if (operation->input_count == 0 || operation->input_count < yaml_get(operation->node, "inputs")->count) return;
    struct array_names arrays = {input_names(reader, operation, names), names};
    struct expression_fault fault;
    struct expression *expression = expression_parse_arrays(node->text, &arrays, &fault);
    if (!expression) {
        const char *name = strrchr(fault.message, '$'); /* the message ends in "; a parameter is $n" */
        int bare = name ? parameters_find(&reader->parameters, name + 1, (int)strlen(name + 1)) : -1;
        if (bare >= 0) reader->parameters.used |= UINT64_C(1) << bare;
        yaml_error_inside(reader->document, node, fault.at, "%s", fault.message);
    } else {
        note_unnamed_inputs(reader, operation, expression, &arrays);
        operation->options.map = parameters_map(&reader->parameters, node, expression, &arrays, reader->choice);
    }
    reader->failed = reader->failed || !operation->options.map;
    expression_free(expression);
}
