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
    /* Computes a scalar of `operands` scalars. Returns NULL, or a sentence about what is wrong. `choose` instead says
     * that only one operand after the first is evaluated (`if`, `where`, `and`, `or`). */
    const char *(*scalar)(const struct scalar in[], struct scalar *out);
    enum { CHOOSE_NONE, CHOOSE_IF, CHOOSE_AND, CHOOSE_OR } choose;
    bool takes_text;       /* operands may be texts */
    enum map_function map; /* computes it for arrays */
};

/* The type that a text names: a data type, or bool, which is DTYPE_COUNT; -1: none. */
int type_of_text(const char *text);
/* The function that expressions call by this name; NULL: there is none. */
const struct expression_function *function_find(const char *name, int length);
/* A hint about a wrong name: the nearest one, or all names. Writes it into `text` and returns it. */
#define FUNCTION_HINT 170
const char *function_hint(const char *name, char text[FUNCTION_HINT]);
/* An operator: "+", "unary -", "<=", "if". It must exist. */
const struct expression_function *operator_find(const char *name);
/* The row that a map computes by `map`: a function, with *called, else an operator. It must exist. */
const struct expression_function *function_of_map(enum map_function map, bool *called);

enum node_kind { NODE_VALUE, NODE_PARAMETER, NODE_INPUT, NODE_INDEX, NODE_FUNCTION };

struct node {
    enum node_kind kind;
    int at;                                         /* offset of the operand, operator or function in the text */
    int height;                                     /* levels of the tree below and with this node */
    int size;                                       /* nodes of that tree; `b` of `a < b < c` counts twice */
    struct scalar value;                            /* NODE_VALUE */
    const char *name;                               /* NODE_PARAMETER */
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
