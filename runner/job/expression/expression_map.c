/* expression_map.c - turns the tree of an expression over arrays into a map: a list of nodes for kernels. */
#include "../../base/fail.h"
#include "expression_tree.h"

#include "../../../kernels/core/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct map_builder {
    const struct array_names *names;
    expression_lookup *lookup;
    void *context;
    struct expression_fault *fault;
    struct map *map;
};

/* Fills the fault and returns -1, which every caller returns too. */
static int fault_at(struct map_builder *builder, const struct node *node, const char *message) {
    builder->fault->at = node->at;
    snprintf(builder->fault->message, sizeof builder->fault->message, "%s", message);
    return -1;
}

/* Does the value have a data type: is an array in it, or a cast? */
static bool is_typed(const struct node *node) {
    if (node->kind != NODE_FUNCTION) return node->kind == NODE_INPUT || node->kind == NODE_INDEX;
    if (node->function->map == MAP_CAST) return true;
    for (int i = 0; i < node->function->operands; i++)
        if (is_typed(node->operands[i])) return true;
    return false;
}

/* Appends a node to the map. Returns its index; -1: the map is full, which fills the fault. `from`: its tree. */
static int add_node(struct map_builder *builder, const struct node *from, struct map_node node) {
    struct map *map = builder->map;
    if (map->count == MAP_NODES) {
        char message[80];
        snprintf(message, sizeof message, "the expression has more than %d operands and operators", MAP_NODES);
        return fault_at(builder, from, message);
    }
    node.at = from->at;
    map->nodes[map->count] = node;
    return map->count++;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* Appends a constant so that it reads back with its type: a real number that is whole gets ".0". */
static void append_value(char **text, const struct map_node *node) {
    char digits[SCALAR_TEXT_BYTES];
    struct scalar value = {.kind = node->weak == WEAK_REAL      ? SCALAR_REAL
                                   : node->weak == WEAK_INTEGER ? SCALAR_INTEGER
                                                                : SCALAR_BOOL,
                           .integer = node->integer,
                           .real = node->real};
    const char *number = scalar_format(&value, digits);
    bool looks_integer = value.kind == SCALAR_REAL && number[strspn(number, "-0123456789")] == '\0';
    must_append(text, *number == '-' ? "(%s%s)" : "%s%s", number, looks_integer ? ".0" : "");
}

/* Appends the text of the map's node `number` and of its operands. */
static void append_text(const struct map_builder *builder, char **text, int number) {
    const struct map_node *node = &builder->map->nodes[number];
    bool called; /* "f(a, b)" instead of "(a f b)" */
    if (node->function == MAP_INPUT) {
        must_append(text, "%s", builder->names->names[node->number]);
        return;
    }
    if (node->function == MAP_INDEX) {
        must_append(text, "i%d", node->number);
        return;
    }
    if (node->function == MAP_CONSTANT) {
        append_value(text, node);
        return;
    }
    const struct expression_function *function = function_of_map(node->function, &called);
    must_append(text, "%s(", called ? function->name : "");
    if (!called && function->operands == 1)
        must_append(text, "%s", node->function == MAP_NOT ? "not " : node->function == MAP_NEGATIVE ? "-" : "+");
    for (int i = 0; i < MAP_OPERANDS && node->operands[i] >= 0; i++) {
        if (i > 0) must_append(text, called ? ", " : " %s ", function->name);
        append_text(builder, text, node->operands[i]);
    }
    if (node->function == MAP_CAST)
        must_append(text, ", \"%s\"", node->number == DTYPE_COUNT ? "bool" : dtype_name((enum dtype)node->number));
    must_append(text, ")");
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Evaluates a tree without arrays. false: it has no value, which fills the fault. */
static bool evaluate_node(struct map_builder *builder, const struct node *node, struct scalar *value) {
    return expression_evaluate(&(struct expression){.root = node}, builder->lookup, builder->context, value,
                               builder->fault);
}

/* Adds the value of a tree without arrays. Returns its index; -1: it cannot be added, which fills the fault. */
static int add_constant(struct map_builder *builder, const struct node *node) {
    struct scalar value;
    if (!evaluate_node(builder, node, &value)) return -1;
    if (value.kind == SCALAR_TEXT)
        return fault_at(builder, node,
                        "a text cannot be an element of an array: numbers and expressions have no quotes");
    struct map_node constant = {.function = MAP_CONSTANT, .operands = {-1, -1, -1}, .integer = value.integer};
    constant.weak = value.kind == SCALAR_REAL ? WEAK_REAL : value.kind == SCALAR_INTEGER ? WEAK_INTEGER : WEAK_BOOL;
    constant.real = value.kind == SCALAR_REAL ? value.real : (double)value.integer;
    if (value.kind == SCALAR_REAL) constant.integer = 0;
    return add_node(builder, node, constant);
}

/* Returns the type that the second operand of `cast` names; -1: it names no type, which fills the fault. */
static int cast_type(struct map_builder *builder, const struct node *node) {
    struct scalar value;
    if (is_typed(node)) return fault_at(builder, node, "a data type in quotes is expected");
    if (!evaluate_node(builder, node, &value)) return -1;
    int type = value.kind == SCALAR_TEXT ? type_of_text(value.text) : -1;
    return type >= 0 ? type : fault_at(builder, node, "the second operand is not a data type in quotes");
}

/* Adds a tree to the map, operands before their function. Returns the index of its root; -1: it cannot be added, which
 * fills the fault. */
static int add_tree(struct map_builder *builder, const struct node *node) {
    struct map_node made = {.operands = {-1, -1, -1}, .number = node->number};
    if (!is_typed(node)) return add_constant(builder, node);
    if (node->kind != NODE_FUNCTION) {
        made.function = node->kind == NODE_INPUT ? MAP_INPUT : MAP_INDEX;
        return add_node(builder, node, made);
    }
    made.function = node->function->map;
    int operands = node->function->operands - (made.function == MAP_CAST);
    for (int i = 0; i < operands; i++) {
        made.operands[i] = add_tree(builder, node->operands[i]);
        if (made.operands[i] < 0) return -1;
    }
    if (made.function == MAP_CAST) {
        made.number = cast_type(builder, node->operands[1]);
        if (made.number < 0) return -1;
    }
    return add_node(builder, node, made);
}

struct map *expression_map(const struct expression *expression, const struct array_names *names,
                           expression_lookup *lookup, void *context, struct expression_fault *fault) {
    struct map_builder builder = {names, lookup, context, fault, must_malloc(sizeof(struct map))};
    *builder.map = (struct map){.inputs = names->count};
    int result = add_tree(&builder, expression->root);
    if (result < 0) {
        map_free(builder.map);
        return NULL;
    }
    builder.map->text = must_strdup("");
    append_text(&builder, &builder.map->text, result);
    return builder.map;
}

void map_free(struct map *map) {
    if (!map) return;
    free(map->text);
    free(map);
}
