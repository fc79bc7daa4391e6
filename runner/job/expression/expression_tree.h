/* expression_tree.h - declares the tree of an expression, and the table of its operators and functions; for this folder
 * only. */
#ifndef RUNNER_EXPRESSION_TREE_H
#define RUNNER_EXPRESSION_TREE_H

#include "../../../kernels/core/map.h"
#include "expression.h"

#define FUNCTION_OPERANDS 3

/* An operator or a function. */
struct expression_function {
    const char *name; /* for messages: "+", "sqrt", "if" */
    int operands;
    /* Computes `out` of `operands` scalars, which are no texts unless `takes_text`. Returns NULL, or a sentence about
     * what is wrong. NULL: `choose` says how the result is one of the operands (`if`, `where`, `and`, `or`), of which
     * only the first and that one are evaluated. */
    const char *(*scalar)(const struct scalar in[], struct scalar *out);
    enum { CHOOSE_NONE, CHOOSE_IF, CHOOSE_AND, CHOOSE_OR } choose;
    bool takes_text;       /* operands may be texts */
    enum map_function map; /* computes it for arrays */
};

/* The type that a text names: a data type, or DTYPE_COUNT for bool; -1: it names no type. */
int type_of_text(const char *text);
/* The function that expressions call by this name; NULL: there is none. */
const struct expression_function *function_find(const char *name, int length);
/* A hint about a wrong name of a function: what to write instead, the nearest name, or as many names as fit. Returns
 * the hint, which may be written into `text`. */
#define FUNCTION_HINT 170
const char *function_hint(const char *name, char text[FUNCTION_HINT]);
/* The operator called "+", "unary -", "<=", "if". It must exist. */
const struct expression_function *operator_find(const char *name);
/* The function or operator that a map computes by `map`, which must exist; *called: it is a function. */
const struct expression_function *function_of_map(enum map_function map, bool *called);

enum node_kind { NODE_VALUE, NODE_PARAMETER, NODE_INPUT, NODE_INDEX, NODE_FUNCTION };

struct node {
    enum node_kind kind;
    int at;                                         /* offset of the operand, operator or function in the text */
    int height;                                     /* levels of the tree below and with this node */
    int size;                                       /* nodes of that tree; `b` of `a < b < c` counts twice */
    struct scalar value;                            /* NODE_VALUE */
    char *name;                                     /* NODE_PARAMETER */
    int number;                                     /* NODE_INPUT: the array's; NODE_INDEX: the axis's */
    const struct expression_function *function;     /* NODE_FUNCTION */
    const struct node *operands[FUNCTION_OPERANDS]; /* NODE_FUNCTION */
    struct node *next;                              /* links all nodes of the expression, in no order */
};

struct expression {
    const struct node *root;
    struct node *nodes; /* all of them */
};

#endif
