/* expression_value.c - evaluates an expression's tree for scalars, and prints scalars. */
#include "expression_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scalar_evaluation {
    expression_lookup *lookup;
    void *context;
    struct expression_fault *fault;
};

bool scalar_is_true(const struct scalar *value) {
    return value->kind == SCALAR_REAL ? value->real != 0 : value->integer != 0;
}

static bool evaluate_scalar(const struct scalar_evaluation *evaluation, const struct node *node, struct scalar *value);

/* Is the value a truth value, that is no text (`no` is a text)? A text fills the fault. */
static bool is_truth(const struct scalar_evaluation *evaluation, const struct node *node, const struct scalar *value) {
    if (value->kind != SCALAR_TEXT) return true;
    evaluation->fault->at = node->at;
    snprintf(evaluation->fault->message, sizeof evaluation->fault->message,
             "'%.60s' is a text: write true or false, or compare it", value->text);
    return false;
}

/* Evaluates `if`, `where`, `and`, `or`: the first operand, and then only the one that gives the result. */
static bool choose(const struct scalar_evaluation *evaluation, const struct node *node, struct scalar *value) {
    const struct node *operand = node->operands[0];
    if (!evaluate_scalar(evaluation, operand, value) || !is_truth(evaluation, operand, value)) return false;
    bool truth = scalar_is_true(value);
    if (node->function->choose == CHOOSE_IF) return evaluate_scalar(evaluation, node->operands[truth ? 1 : 2], value);
    if (truth == (node->function->choose == CHOOSE_AND)) {
        operand = node->operands[1];
        if (!evaluate_scalar(evaluation, operand, value) || !is_truth(evaluation, operand, value)) return false;
        truth = scalar_is_true(value);
    }
    *value = (struct scalar){.kind = SCALAR_BOOL, .integer = truth};
    return true;
}

/* Evaluates a subtree. Returns false, and fills the fault, if it has no value. */
static bool evaluate_scalar(const struct scalar_evaluation *evaluation, const struct node *node, struct scalar *value) {
    struct expression_fault *fault = evaluation->fault;
    if (node->kind == NODE_VALUE) {
        *value = node->value;
        return true;
    }
    if (node->kind == NODE_PARAMETER) {
        if (evaluation->lookup(evaluation->context, node->name, value, fault->message)) return true;
        fault->at = node->at;
        return false;
    }
    if (node->function->choose) return choose(evaluation, node, value);
    struct scalar in[FUNCTION_OPERANDS];
    for (int i = 0; i < node->function->operands; i++) {
        if (!evaluate_scalar(evaluation, node->operands[i], &in[i])) return false;
        if (in[i].kind != SCALAR_TEXT || node->function->takes_text) continue;
        fault->at = node->at;
        snprintf(fault->message, sizeof fault->message, "'%s' takes numbers, and '%.60s' is a text%s",
                 node->function->name, in[i].text,
                 strpbrk(in[i].text, "0123456789") ? ": numbers and expressions have no quotes" : "");
        return false;
    }
    const char *wrong = node->function->scalar(in, value);
    if (!wrong) return true;
    fault->at = node->at;
    snprintf(fault->message, sizeof fault->message, "'%s' has no value here: %s", node->function->name, wrong);
    return false;
}

bool expression_evaluate(const struct expression *expression, expression_lookup *lookup, void *context,
                         struct scalar *value, struct expression_fault *fault) {
    return evaluate_scalar(&(struct scalar_evaluation){lookup, context, fault}, expression->root, value);
}

bool expression_holds(const struct expression *expression, expression_lookup *lookup, void *context, bool *holds,
                      struct expression_fault *fault) {
    struct scalar value;
    if (!expression_evaluate(expression, lookup, context, &value, fault) ||
        !is_truth(&(struct scalar_evaluation){lookup, context, fault}, expression->root, &value))
        return false;
    *holds = scalar_is_true(&value);
    return true;
}

const char *scalar_format(const struct scalar *value, char text[SCALAR_TEXT_BYTES]) {
    switch (value->kind) {
    case SCALAR_TEXT: return value->text;
    case SCALAR_BOOL: return value->integer ? "true" : "false";
    case SCALAR_INTEGER: snprintf(text, SCALAR_TEXT_BYTES, "%lld", (long long)value->integer); return text;
    case SCALAR_REAL: break;
    }
    double real = value->real;
    if (isnan(real)) return "nan";                           /* without the sign that printf shows */
    if (real == rint(real) && real > -1e15 && real < 1e15) { /* all digits of it are significant */
        snprintf(text, SCALAR_TEXT_BYTES, "%.0f", real);
        return text;
    }
    for (int digits = 15; digits <= 17; digits++) { /* 17 always suffice */
        snprintf(text, SCALAR_TEXT_BYTES, "%.*g", digits, real);
        if (strtod(text, NULL) == real) break;
    }
    return text;
}
