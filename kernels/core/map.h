/* map.h - defines an expression over arrays for the operation `map`: a list of nodes, each after its operands. The last
 * node is the result. Data types are not known yet (kernels/map/program.h). */
#ifndef KERNELS_MAP_H
#define KERNELS_MAP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAP_NODES    256 /* most nodes of a map */
#define MAP_OPERANDS 3

enum map_function {
    /* Leaves. */
    MAP_INPUT,    /* an element of input `number` */
    MAP_INDEX,    /* the element's index along axis `number` of the result, int64 */
    MAP_CONSTANT, /* a number without a type of its own, which takes the type of the arrays beside it */
    /* Functions of one operand, like NumPy's. */
    MAP_CAST, /* casts to the type `number`, an enum dtype, or MAP_BOOL */
    MAP_NEGATIVE,
    MAP_POSITIVE,
    MAP_ABS,
    MAP_SIGN,
    MAP_NOT,
    MAP_ISNAN,
    MAP_ISFINITE,
    MAP_FLOOR,
    MAP_CEIL,
    MAP_RINT,
    MAP_SQRT,
    MAP_EXP,
    MAP_LOG,
    MAP_LOG2,
    MAP_LOG10,
    MAP_SIN,
    MAP_COS,
    MAP_TAN,
    MAP_TANH,
    /* Functions of two operands. */
    MAP_ADD,
    MAP_SUBTRACT,
    MAP_MULTIPLY,
    MAP_DIVIDE,
    MAP_FLOOR_DIVIDE,
    MAP_REMAINDER,
    MAP_POWER,
    MAP_HYPOT,
    MAP_MINIMUM,
    MAP_MAXIMUM,
    MAP_EQUAL,
    MAP_UNEQUAL,
    MAP_LESS,
    MAP_LESS_EQUAL,
    MAP_GREATER,
    MAP_GREATER_EQUAL,
    MAP_AND,
    MAP_OR,
    /* Functions of three operands. */
    MAP_WHERE, /* the second if the first is true, else the third */
    MAP_CLIP,  /* the first, at least the second and at most the third */
    MAP_FUNCTION_COUNT
};

/* The kind of a constant, which has no data type: a "weak scalar" in NumPy's words. */
enum map_weak { WEAK_BOOL, WEAK_INTEGER, WEAK_REAL };

struct map_node {
    enum map_function function;
    int operands[MAP_OPERANDS]; /* numbers of earlier nodes */
    int number;                 /* MAP_INPUT, MAP_INDEX, MAP_CAST */
    enum map_weak weak;         /* MAP_CONSTANT... */
    int64_t integer;            /* ...WEAK_BOOL, WEAK_INTEGER */
    double real;                /* ...its value in float64, of any kind */
    int at;                     /* the operator's or operand's offset in the text that it was written as */
};

struct map {
    int inputs, count;
    struct map_node nodes[MAP_NODES];
    char *text; /* the expression in parentheses, with values instead of parameters; owned by whoever owns the map */
};

#ifdef __cplusplus
}
#endif
#endif
