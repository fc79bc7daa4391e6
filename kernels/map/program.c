/* program.c - finds the types of a map's values by NumPy's rules, and makes its steps. */
#include "program.h"
#include "../core/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A constant is a "weak scalar" of NumPy, which takes the type of the arrays beside it. Until then its type is
 * WEAK_TYPE plus its enum map_weak. */
#define WEAK_TYPE (MAP_BOOL + 1)

/* A value of a node: its type, and the number of the step that computes it. A constant has a node instead: as_type
 * makes its step when its type is known. Operations on constants alone do not occur: expression_map.c computes them. */
struct value {
    int type, step;
    const struct map_node *constant; /* NULL: it is no constant */
};

/* The state of giving types to the nodes of a map, one after the other. */
struct typing {
    const struct map_node *node; /* the one at hand */
    struct map_program *program;
    struct value values[MAP_NODES];
    struct error *error;
    enum status status; /* STATUS_USAGE after the first mistake */
};

/* ---- types ----------------------------------------------------------------------------------------------------- */

enum wide_type wide_type_of(int type) {
    if (type == MAP_BOOL) return WIDE_BOOL;
    if (type == FLOAT64) return WIDE_DOUBLE;
    if (type == UINT64) return WIDE_UINT;
    return dtype_is_float((enum dtype)type) ? WIDE_FLOAT : WIDE_INT;
}

enum dtype map_stored(int type) {
    return type == MAP_BOOL ? UINT8 : (enum dtype)type;
}

const char *map_type_name(int type) {
    return type == MAP_BOOL ? "bool" : dtype_name((enum dtype)type);
}

static bool is_float(int type) {
    return type < MAP_BOOL && dtype_is_float((enum dtype)type);
}

static bool is_integer(int type) {
    return type < MAP_BOOL && !dtype_is_float((enum dtype)type);
}

/* The float type in which NumPy computes functions of a type: of integers float16 for one byte, float32 for two, else
 * float64. */
static int float_of(int type) {
    if (is_float(type)) return type;
    size_t size = type == MAP_BOOL ? 1 : dtype_size((enum dtype)type);
    return size == 1 ? FLOAT16 : size == 2 ? FLOAT32 : FLOAT64;
}

/* The smallest type that holds two integer types; float64 if no integer type does (int64 with uint64). */
static int promote_integers(int a, int b) {
    static const enum dtype signed_of[9] = {[1] = INT8, [2] = INT16, [4] = INT32, [8] = INT64};
    size_t size_a = dtype_size((enum dtype)a), size_b = dtype_size((enum dtype)b);
    bool signed_a = dtype_is_signed((enum dtype)a);
    if (signed_a == dtype_is_signed((enum dtype)b)) return size_a >= size_b ? a : b;
    size_t with_sign = signed_a ? size_a : size_b, without = signed_a ? size_b : size_a;
    if (with_sign > without) return signed_of[with_sign];
    return without == 8 ? FLOAT64 : (int)signed_of[2 * without];
}

/* The type of an operation on two arrays of these types. Two float types of the same size are float16 and bfloat16:
 * float32 holds both. */
static int promote(int a, int b) {
    if (a == b || b == MAP_BOOL) return a;
    if (a == MAP_BOOL) return b;
    if (!is_float(a) && !is_float(b)) return promote_integers(a, b);
    int one = float_of(a), other = float_of(b);
    if (is_float(a) && is_float(b)) {
        size_t size_a = dtype_size((enum dtype)a), size_b = dtype_size((enum dtype)b);
        return size_a == size_b ? FLOAT32 : size_a > size_b ? a : b;
    }
    int type = is_float(a) ? a : b, needed = is_float(a) ? other : one; /* `needed`: to hold the integers */
    return dtype_size((enum dtype)type) >= dtype_size((enum dtype)needed) ? type : needed;
}

/* The type of an operation on all of the values, constants included. Float types come first: float16 with int8 and
 * uint8 is float16, though int8 with uint8 is int16, which needs float32. */
static int common_type(const struct value values[], int count) {
    int type = -1, weak = -1;
    for (int i = 0; i < count; i++)
        if (values[i].constant)
            weak = (int)values[i].constant->weak > weak ? (int)values[i].constant->weak : weak;
        else if (is_float(values[i].type))
            type = type < 0 ? values[i].type : promote(type, values[i].type);
    for (int i = 0; i < count; i++)
        if (!values[i].constant && !is_float(values[i].type))
            type = type < 0 ? values[i].type : promote(type, values[i].type);
    if (weak == WEAK_REAL && (type < 0 || !is_float(type))) return FLOAT64;
    if (weak == WEAK_INTEGER && (type < 0 || type == MAP_BOOL)) return INT64;
    return type < 0 ? MAP_BOOL : type;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

/* Reports the user's first mistake, at the node's place. Returns 0, the number of a step. */
static int mistake(struct typing *typing, const struct map_node *node, const char *text) {
    if (typing->status == STATUS_OK) typing->status = fail_key(typing->error, "expression", node->at, "%s", text);
    return 0;
}

/* Appends a step, and returns its number. Reports a program that is full. */
static int add_step(struct typing *typing, struct map_step step) {
    struct map_program *program = typing->program;
    if (program->count == MAP_STEPS) return mistake(typing, typing->node, "the expression has too many steps");
    program->steps[program->count] = step;
    return program->count++;
}

/* Appends a step with the operands a, b and c (numbers of steps; -1: none), and returns its value. */
static struct value add_value(struct typing *typing, enum map_function function, enum wide_type wide, int type, int a,
                              int b, int c) {
    struct map_step step = {.function = function, .wide = wide, .type = type, .operands = {a, b, c}};
    return (struct value){.type = type, .step = add_step(typing, step)};
}

/* Does an integer fit the type? */
static bool fits(int type, int64_t integer) {
    if (!is_integer(type)) return true;
    if (integer < 0 && !dtype_is_signed((enum dtype)type)) return false;
    int bits = 8 * (int)dtype_size((enum dtype)type) - dtype_is_signed((enum dtype)type);
    return bits >= 63 || (integer < INT64_C(1) << bits && integer >= -(INT64_C(1) << bits));
}

/* Adds a step for a constant, now that its type is known. Reports a number that does not fit into the type. */
static struct value constant_as_type(struct typing *typing, const struct map_node *node, int type) {
    struct map_step step = {.function = MAP_CONSTANT,
                            .wide = wide_type_of(type),
                            .type = type,
                            .operands = {-1, -1, -1},
                            .real = node->real,
                            .integer = node->integer};
    if (type == MAP_BOOL) step.integer = node->weak == WEAK_REAL ? node->real != 0 : node->integer != 0;
    bool fitting = fits(type, node->integer);
    if (is_integer(type) && node->weak == WEAK_REAL) { /* only MAP_CAST converts a real constant to an integer */
        struct casts casts = {0};
        convert_elements(FLOAT64, &node->real, 1, type == UINT64 ? UINT64 : INT64, &step.integer, &casts);
        fitting = !casts.wrapped && (type == UINT64 || fits(type, step.integer));
    }
    if (!fitting) {
        char text[128];
        snprintf(text, sizeof text, "the number does not fit into %s%s", dtype_name((enum dtype)type),
                 node->weak == WEAK_REAL ? "" : ": cast the arrays beside it to a wider type");
        mistake(typing, node, text);
    }
    if (is_float(type)) { /* rounded once */
        uint64_t bits = 0;
        dtype_store((enum dtype)type, &bits, 0, node->real);
        step.real = dtype_load((enum dtype)type, &bits, 0);
    }
    return (struct value){.type = type, .step = add_step(typing, step)};
}

/* Returns the value in type `type`: the value itself, or that of a new step which converts it. */
static struct value as_type(struct typing *typing, struct value value, int type) {
    if (value.constant) return constant_as_type(typing, value.constant, type);
    if (value.type == type) return value;
    struct map_step step = {.function = MAP_CAST,
                            .wide = wide_type_of(value.type),
                            .type = type,
                            .operands = {value.step, -1, -1},
                            .number = value.type};
    return (struct value){.type = type, .step = add_step(typing, step)};
}

/* Appends a step of `count` operands, all converted to `type` first, with a result of type `result`. */
static struct value apply(struct typing *typing, enum map_function function, const struct value values[], int count,
                          int type, int result) {
    int steps[MAP_OPERANDS] = {-1, -1, -1};
    for (int i = 0; i < count; i++) steps[i] = as_type(typing, values[i], type).step;
    return add_value(typing, function, wide_type_of(type), result, steps[0], steps[1], steps[2]);
}

static struct value as_bool(struct typing *typing, struct value value) {
    return as_type(typing, value, MAP_BOOL);
}

/* Appends a step for a truth value. */
static struct value bool_constant(struct typing *typing, bool value) {
    static const struct map_node constants[2] = {
        {.function = MAP_CONSTANT, .weak = WEAK_BOOL},
        {.function = MAP_CONSTANT, .weak = WEAK_BOOL, .integer = 1, .real = 1}};
    return as_bool(typing, (struct value){.constant = &constants[value]});
}

/* ---- functions ------------------------------------------------------------------------------------------------- */

/* A function of two numbers of one type, by NumPy's rules for truth values, quotients and powers. Powers of 2 and 0.5
 * become a product and a square root. */
static struct value arithmetic(struct typing *typing, enum map_function function, const struct value in[]) {
    int type = common_type(in, 2);
    if (type == MAP_BOOL && function == MAP_ADD) function = MAP_OR;
    if (type == MAP_BOOL && function == MAP_MULTIPLY) function = MAP_AND;
    if (type == MAP_BOOL && function == MAP_SUBTRACT)
        mistake(typing, typing->node, "truth values have no difference: use '!='");
    bool makes_int8_of_bools = function == MAP_FLOOR_DIVIDE || function == MAP_REMAINDER || function == MAP_POWER;
    if (type == MAP_BOOL && makes_int8_of_bools) type = INT8;
    if (function == MAP_DIVIDE && !is_float(type)) type = FLOAT64;
    if (function == MAP_POWER && is_integer(type) && in[1].constant && in[1].constant->integer < 0)
        mistake(typing, typing->node,
                "an integer to a negative power is not an integer: cast it to a float type first");
    const double exponent = function == MAP_POWER && in[1].constant ? in[1].constant->real : 0;
    if (exponent == 2) /* as in NumPy: rounded once, and many times as fast as pow() */
        return apply(typing, MAP_MULTIPLY, (struct value[]){in[0], in[0]}, 2, type, type);
    if (exponent == 0.5) return apply(typing, MAP_SQRT, in, 1, type, type);
    return apply(typing, function, in, 2, type, type);
}

static bool is_uint64(const struct value *value) {
    return !value->constant && value->type == UINT64;
}

static bool may_be_negative(const struct value *value) {
    return value->constant ? value->constant->integer < 0 : value->type != MAP_BOOL && dtype_is_signed(value->type);
}

/* Compares integers by value. No type holds both a uint64 and a negative number, so such a pair (`mixed`) becomes
 * where(number < 0, if_negative, comparison as uint64), in which `number` is the operand that may be negative. */
static struct value compare_integers(struct typing *typing, enum map_function function, const struct value in[]) {
    bool mixed = (is_uint64(&in[0]) && may_be_negative(&in[1])) || (is_uint64(&in[1]) && may_be_negative(&in[0]));
    int type = is_uint64(&in[0]) || is_uint64(&in[1]) ? UINT64 : INT64;
    if (!mixed) return apply(typing, function, in, 2, type, MAP_BOOL);
    int with_sign = is_uint64(&in[0]) ? 1 : 0;
    static const struct map_node zero = {.function = MAP_CONSTANT, .weak = WEAK_INTEGER};
    struct value number = as_type(typing, in[with_sign], INT64), pair[2], parts[3];
    pair[0] = number;
    pair[1] = (struct value){.constant = &zero};
    parts[0] = apply(typing, MAP_LESS, pair, 2, INT64, MAP_BOOL);
    bool if_negative = function == MAP_UNEQUAL;
    if (function == MAP_LESS || function == MAP_LESS_EQUAL) if_negative = with_sign == 0;
    if (function == MAP_GREATER || function == MAP_GREATER_EQUAL) if_negative = with_sign == 1;
    parts[1] = bool_constant(typing, if_negative);
    pair[with_sign] = number;
    pair[1 - with_sign] = in[1 - with_sign];
    parts[2] = apply(typing, function, pair, 2, UINT64, MAP_BOOL);
    return add_value(typing, MAP_WHERE, WIDE_BOOL, MAP_BOOL, parts[0].step, parts[1].step, parts[2].step);
}

static struct value compare(struct typing *typing, enum map_function function, const struct value in[]) {
    bool no_floats = true;
    for (int i = 0; i < 2; i++)
        no_floats = no_floats && (in[i].constant ? in[i].constant->weak != WEAK_REAL : !is_float(in[i].type));
    if (no_floats) return compare_integers(typing, function, in);
    return apply(typing, function, in, 2, common_type(in, 2), MAP_BOOL);
}

/* MAP_WHERE: the second and third operand become one type, and the first a truth value. */
static struct value choose(struct typing *typing, const struct value in[]) {
    int type = common_type(in + 1, 2);
    int condition = as_bool(typing, in[0]).step;
    int yes = as_type(typing, in[1], type).step, no = as_type(typing, in[2], type).step;
    return add_value(typing, MAP_WHERE, wide_type_of(type), type, condition, yes, no);
}

/* MAP_CLIP: the minimum of the third operand and the maximum of the first two. */
static struct value clip(struct typing *typing, const struct value in[]) {
    int type = common_type(in, 3);
    struct value raised[2] = {apply(typing, MAP_MAXIMUM, in, 2, type, type), in[2]};
    return apply(typing, MAP_MINIMUM, raised, 2, type, type);
}

/* Functions that concern the sign. Reports truth values, which have none, except for MAP_ABS, which leaves them. */
static struct value unary(struct typing *typing, enum map_function function, const struct value in[]) {
    int type = in[0].type;
    bool is_bool = type == MAP_BOOL;
    if (is_bool && (function == MAP_NEGATIVE || function == MAP_POSITIVE || function == MAP_SIGN))
        mistake(typing, typing->node, "a truth value has no sign");
    if (function == MAP_POSITIVE || (is_bool && function == MAP_ABS)) return in[0];
    return apply(typing, function, in, 1, type, type);
}

/* MAP_ISNAN, MAP_ISFINITE: for integers and truth values a constant. */
static struct value classify(struct typing *typing, enum map_function function, const struct value in[]) {
    if (is_float(in[0].type)) return apply(typing, function, in, 1, in[0].type, MAP_BOOL);
    return bool_constant(typing, function == MAP_ISFINITE);
}

/* Gives a node its type by NumPy's rules, and adds the steps that compute it. */
static struct value type_node(struct typing *typing, const struct map_node *node, const enum dtype dtypes[]) {
    struct value in[MAP_OPERANDS] = {{0}};
    enum map_function function = node->function;
    for (int i = 0; i < MAP_OPERANDS; i++)
        if (node->operands[i] >= 0) in[i] = typing->values[node->operands[i]];
    struct map_step leaf = {.function = function, .operands = {-1, -1, -1}, .number = node->number};
    switch (function) {
    case MAP_INPUT:
        leaf.type = dtypes[node->number];
        leaf.wide = wide_type_of(leaf.type);
        return (struct value){.type = leaf.type, .step = add_step(typing, leaf)};
    case MAP_INDEX:
        leaf.type = INT64;
        leaf.wide = WIDE_INT;
        return (struct value){.type = INT64, .step = add_step(typing, leaf)};
    case MAP_CONSTANT: return (struct value){.type = WEAK_TYPE + (int)node->weak, .constant = node};
    case MAP_CAST: return as_type(typing, in[0], node->number);
    case MAP_NEGATIVE:
    case MAP_POSITIVE:
    case MAP_ABS:
    case MAP_SIGN: return unary(typing, function, in);
    case MAP_FLOOR:
    case MAP_CEIL: return is_float(in[0].type) ? apply(typing, function, in, 1, in[0].type, in[0].type) : in[0];
    case MAP_NOT: in[0] = as_bool(typing, in[0]); return apply(typing, function, in, 1, MAP_BOOL, MAP_BOOL);
    case MAP_AND:
    case MAP_OR:
        for (int i = 0; i < 2; i++) in[i] = as_bool(typing, in[i]);
        return apply(typing, function, in, 2, MAP_BOOL, MAP_BOOL);
    case MAP_ISNAN:
    case MAP_ISFINITE: return classify(typing, function, in);
    case MAP_RINT:
    case MAP_SQRT:
    case MAP_EXP:
    case MAP_LOG:
    case MAP_LOG2:
    case MAP_LOG10:
    case MAP_SIN:
    case MAP_COS:
    case MAP_TAN:
    case MAP_TANH: return apply(typing, function, in, 1, float_of(in[0].type), float_of(in[0].type));
    case MAP_HYPOT: {
        int type = float_of(common_type(in, 2));
        if (!in[0].constant && !in[1].constant && !is_float(in[0].type) && !is_float(in[1].type))
            type = promote(float_of(in[0].type), float_of(in[1].type)); /* float16 of int8 and uint8 */
        return apply(typing, function, in, 2, type, type);
    }
    case MAP_ADD:
    case MAP_SUBTRACT:
    case MAP_MULTIPLY:
    case MAP_DIVIDE:
    case MAP_FLOOR_DIVIDE:
    case MAP_REMAINDER:
    case MAP_POWER: return arithmetic(typing, function, in);
    case MAP_MINIMUM:
    case MAP_MAXIMUM: {
        int type = common_type(in, 2);
        return apply(typing, function, in, 2, type, type);
    }
    case MAP_EQUAL:
    case MAP_UNEQUAL:
    case MAP_LESS:
    case MAP_LESS_EQUAL:
    case MAP_GREATER:
    case MAP_GREATER_EQUAL: return compare(typing, function, in);
    case MAP_WHERE: return choose(typing, in);
    case MAP_CLIP: return clip(typing, in);
    case MAP_FUNCTION_COUNT: break;
    }
    return in[0];
}

/* ---- registers ------------------------------------------------------------------------------------------------- */

/* Can several results of the step be right, since libraries compute its function differently? */
static bool is_inexact(const struct map_step *step) {
    return (step->function >= MAP_EXP && step->function <= MAP_TANH) || step->function == MAP_HYPOT ||
           (step->function == MAP_POWER && wide_is_real(step->wide));
}

/* Gives each step a register that holds no value which this or a later step reads, and sets program->exact. A constant
 * keeps its register to the end, so that it is written once. */
static void assign_registers(struct map_program *program) {
    int last_use[MAP_STEPS], free_registers[MAP_STEPS], free_count = 0;
    for (int i = 0; i < program->count; i++) {
        last_use[i] = i;
        for (int k = 0; k < MAP_OPERANDS; k++)
            if (program->steps[i].operands[k] >= 0) last_use[program->steps[i].operands[k]] = i;
    }
    for (int i = 0; i < program->count; i++) {
        struct map_step *step = &program->steps[i];
        bool fresh = step->function == MAP_CONSTANT || free_count == 0;
        step->reg = fresh ? program->registers++ : free_registers[--free_count];
        for (int k = 0; k < MAP_OPERANDS; k++) {
            int operand = step->operands[k];
            bool again = false;
            for (int j = 0; j < k; j++) again = again || step->operands[j] == operand;
            if (operand >= 0 && !again && last_use[operand] == i && program->steps[operand].function != MAP_CONSTANT)
                free_registers[free_count++] = program->steps[operand].reg;
        }
        program->exact = program->exact && !is_inexact(step);
    }
}

enum status map_program(const struct map *map, const enum dtype dtypes[], struct map_program *program,
                        struct error *error) {
    struct typing typing = {.program = program, .error = error};
    program->type = program->count = program->registers = 0;
    program->exact = true;
    for (int i = 0; i < map->count; i++) {
        typing.node = &map->nodes[i];
        typing.values[i] = type_node(&typing, typing.node, dtypes);
    }
    struct value result = typing.values[map->count - 1];
    result = as_type(&typing, result, common_type(&result, 1));
    if (typing.status != STATUS_OK) return typing.status;
    program->type = result.type;
    /* The result is the last step; later ones are not needed. */
    program->count = result.step + 1;
    assign_registers(program);
    return STATUS_OK;
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

bool map_has_result_layout(const struct map_args *args, int input) {
    for (int loop = 0; loop < 3; loop++)
        if (args->extent[loop] != 1 && !(args->loops[input] >> loop & 1)) return false;
    return true;
}

void map_strides(const struct map_args *args, int input, int64_t stride[3]) {
    int64_t elements = 1;
    for (int loop = 2; loop >= 0; loop--) {
        bool has = args->loops[input] >> loop & 1;
        stride[loop] = has ? elements : 0;
        if (has) elements *= args->extent[loop];
    }
}
