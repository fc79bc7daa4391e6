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

/* The types in which values are computed; results of narrower types are then narrowed. */
enum map_lane {
    LANE_BOOL,   /* uint8_t, 0 or 1 */
    LANE_INT,    /* int64_t: all integers but uint64 */
    LANE_UINT,   /* uint64_t */
    LANE_FLOAT,  /* float: also float16 and bfloat16 */
    LANE_DOUBLE, /* double */
    LANE_COUNT
};
enum map_lane map_lane_of(int type);
static inline bool map_lane_is_real(enum map_lane lane) {
    return lane == LANE_FLOAT || lane == LANE_DOUBLE;
}
#define MAP_LANE_BYTES 8 /* most bytes of a value */

#define MAP_STEPS 1024

/* Operands are numbers of earlier steps. MAP_CAST converts to `type` from the operand's lane; values of the operand
 * have its type `number`. All other functions have operands of one lane, `lane`, and narrow their result to `type`. */
struct map_step {
    enum map_function function;
    enum map_lane lane; /* of the operands (of MAP_WHERE: of the second and third) */
    int type;           /* of the result */
    int operands[MAP_OPERANDS];
    int number;
    int64_t integer; /* MAP_CONSTANT: the value of lanes bool, int and uint... */
    double real;     /* ...and of lanes float and double */
    int place;       /* the register for the result; steps whose results are not needed at once share one */
};

struct map_program {
    int type, count, places;
    bool exact; /* every step has exactly one right result, so all right programs give the same bits */
    struct map_step steps[MAP_STEPS];
};

/* Fills `program` for inputs of these types. STATUS_USAGE: the map has no type, such as the negative of a truth value;
 * error->key is "expression", and error->item is the offset in the text. */
enum status map_program(const struct map *map, const enum dtype dtypes[], struct map_program *program,
                        struct error *error);

/* Does an input of a launch have the result's layout, so that nothing is repeated? */
bool map_is_whole(const struct map_args *args, int input);
/* The elements from one position along a loop to the next in an input's tile; 0: its element is repeated. */
void map_strides(const struct map_args *args, int input, int64_t stride[3]);

/* The type in which results are stored: bool as uint8. */
enum dtype map_stored(int type);
const char *map_type_name(int type);

#ifdef __cplusplus
}
#endif
#endif
