/* program.h - a map with known data types, as steps: each is one instruction that computes a value for every element.
 * Types follow NumPy's promotion (NEP 50): a constant takes the type of the arrays beside it. */
#ifndef KERNELS_MAP_PROGRAM_H
#define KERNELS_MAP_PROGRAM_H

#include "../core/kernel.h"
#include "../core/map.h"
#include "../core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A type of values: an enum dtype, or MAP_BOOL. */
#define MAP_BOOL DTYPE_COUNT

/* The types in which values are computed. The result of a step is then narrowed to the step's type. */
enum wide_type {
    WIDE_BOOL,   /* uint8_t, 0 or 1 */
    WIDE_INT,    /* int64_t: all integers but uint64 */
    WIDE_UINT,   /* uint64_t */
    WIDE_FLOAT,  /* float: also float16 and bfloat16 */
    WIDE_DOUBLE, /* double */
    WIDE_COUNT
};
enum wide_type wide_type_of(int type);
static inline bool wide_is_real(enum wide_type wide) {
    return wide == WIDE_FLOAT || wide == WIDE_DOUBLE;
}
#define MAX_WIDE_BYTES 8 /* of the largest wide type */

#define MAP_STEPS 1024

/* One instruction. MAP_CAST converts a value of type `number`, held as `wide`, to `type`. Every other function takes
 * operands of the wide type `wide`, and narrows its result to `type`. */
struct map_step {
    enum map_function function;
    enum wide_type wide;        /* of the operands (MAP_WHERE: of the second and third) */
    int type;                   /* of the result */
    int operands[MAP_OPERANDS]; /* numbers of earlier steps; -1: none */
    int number;                 /* MAP_INPUT: the input; MAP_INDEX: the axis; MAP_CAST: the operand's type */
    int64_t integer;            /* MAP_CONSTANT: the value if it is a bool or an integer */
    double real;                /* MAP_CONSTANT: the value if it is a float */
    int reg; /* the number of the register that gets the result; a register that is free again is reused */
};

struct map_program {
    int type, count, registers;
    bool exact; /* every step has exactly one right result, so all right programs give the same bits */
    struct map_step steps[MAP_STEPS];
};

/* Fills `program` for inputs of these types. STATUS_USAGE: the map has no type, such as the negative of a truth value;
 * error->key is "expression", and error->item is the offset in the text. */
enum status map_program(const struct map *map, const enum dtype dtypes[], struct map_program *program,
                        struct error *error);

/* Does an input of a launch have an element for each element of the result, in the same order? */
bool map_has_result_layout(const struct map_args *args, int input);
/* Sets `stride` to the distances, in elements of an input's tile, between neighbours along each loop; 0: the input
 * repeats an element along this loop. */
void map_strides(const struct map_args *args, int input, int64_t stride[3]);

/* The type in which results are stored: bool as uint8. */
enum dtype map_stored(int type);
const char *map_type_name(int type);

#ifdef __cplusplus
}
#endif
#endif
