/* map/reference.c - the truth about a map, element by element. Arithmetic, square roots and roundings have one right
 * result (IEEE 754). Functions such as exp differ by a few units in the last place between libraries; beside each value
 * the code computes how far such differences can move it. */
#include "../core/reference.h"

#include "../core/convert.h"
#include "../core/cpu.h"
#include "program.h"
#include "reference_map.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (INT64_C(1) << 16) /* elements that are read at a time */
#define BLOCK 256                /* elements that a thread computes at a time */
#define ULPS  8                  /* the largest error of a library's function, in units in the last place */

/* A true value; for integers and truth values also the exact one. The value of a right program differs from it by at
 * most `error`, which is infinite if every value is right. */
struct number {
    double value, error;
    int64_t integer; /* of uint64 its bits */
};

/* ---- floats ------------------------------------------------------------------------------------------------------ */

static double rounded(int type, double value) {
    uint64_t bits = 0;
    if (type == FLOAT64) return value;
    dtype_store((enum dtype)type, &bits, 0, value);
    return dtype_load((enum dtype)type, &bits, 0);
}

/* The quotient rounded down, as NumPy computes it; a zero has the sign of a / b. */
static double quotient_down(double a, double b) {
    if (b == 0) return a / b;
    double rest = fmod(a, b), quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0));
    if (quotient == 0) return copysign(0, a / b);
    return floor(quotient) + (quotient - floor(quotient) > 0.5);
}

/* The remainder with the sign of b, as in NumPy. */
static double remainder_down(double a, double b) {
    double rest = fmod(a, b);
    if (rest == 0) return copysign(0, b);
    return b != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Computes in float64. Rounding the result for float32 operands then gives the result of float32 arithmetic. */
static double real_value(enum map_function function, double a, double b) {
    switch (function) {
    case MAP_ADD: return a + b;
    case MAP_SUBTRACT: return a - b;
    case MAP_MULTIPLY: return a * b;
    case MAP_DIVIDE: return a / b;
    case MAP_FLOOR_DIVIDE: return quotient_down(a, b);
    case MAP_REMAINDER: return remainder_down(a, b);
    case MAP_POWER: return pow(a, b);
    case MAP_HYPOT: return hypot(a, b);
    case MAP_MINIMUM: return a < b || isnan(a) ? a : b;
    case MAP_MAXIMUM: return a > b || isnan(a) ? a : b;
    case MAP_NEGATIVE: return -a;
    case MAP_ABS: return fabs(a);
    case MAP_SIGN: return isnan(a) ? a : (a > 0) - (a < 0);
    case MAP_FLOOR: return floor(a);
    case MAP_CEIL: return ceil(a);
    case MAP_RINT: return rint(a);
    case MAP_SQRT: return sqrt(a);
    case MAP_EXP: return exp(a);
    case MAP_LOG: return log(a);
    case MAP_LOG2: return log2(a);
    case MAP_LOG10: return log10(a);
    case MAP_SIN: return sin(a);
    case MAP_COS: return cos(a);
    case MAP_TAN: return tan(a);
    case MAP_TANH: return tanh(a);
    default: return a;
    }
}

/* Computes in float32, with rounded intermediate results. */
static double float_value(enum map_function function, float a, float b) {
    if (function == MAP_REMAINDER) {
        float rest = fmodf(a, b);
        if (rest == 0) return copysignf(0, b);
        return b != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    if (function != MAP_FLOOR_DIVIDE) return (float)real_value(function, a, b);
    if (b == 0) return a / b;
    float rest = fmodf(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysignf(0, a / b);
    float floored = floorf(quotient);
    return quotient - floored > 0.5F ? floored + 1 : floored;
}

/* The largest distance from `value` at the corners of the operands' ranges, for functions that are monotonic there. */
static double at_corners(enum map_function function, const struct number in[], double value) {
    double largest = 0;
    for (int corner = 0; corner < 4; corner++) {
        double a = in[0].value + (corner & 1 ? in[0].error : -in[0].error);
        double b = in[1].value + (corner & 2 ? in[1].error : -in[1].error);
        double off = fabs(real_value(function, a, b) - value);
        if (!(off <= largest)) largest = isnan(off) ? INFINITY : off;
    }
    return largest;
}

/* How far the result of a function can be from `value` because of its operands' errors. */
static double spread(enum map_function function, const struct number in[], double value) {
    double a = fabs(in[0].value), b = fabs(in[1].value), ea = in[0].error, eb = in[1].error;
    switch (function) {
    case MAP_ADD:
    case MAP_SUBTRACT:
    case MAP_HYPOT: return ea + eb;
    case MAP_MULTIPLY: return a * eb + b * ea + ea * eb;
    case MAP_MINIMUM:
    case MAP_MAXIMUM: return fmax(ea, eb);
    case MAP_NEGATIVE:
    case MAP_ABS:
    case MAP_SIN:
    case MAP_COS:
    case MAP_TANH: return ea;
    case MAP_DIVIDE: return b > eb ? (ea + fabs(value) * eb) / (b - eb) : INFINITY;
    case MAP_TAN: return ea * (1 + value * value) < 0.1 ? 2 * ea * (1 + value * value) : INFINITY;
    case MAP_SIGN: return a <= ea ? 2 : 0;
    case MAP_POWER: return in[0].value - ea > 0 ? at_corners(function, in, value) : INFINITY;
    case MAP_FLOOR_DIVIDE: return b > eb ? at_corners(function, in, value) : INFINITY;
    case MAP_REMAINDER:
        if (b <= eb || at_corners(MAP_FLOOR_DIVIDE, in, quotient_down(in[0].value, in[1].value)) > 0) return INFINITY;
        return ea + fabs(quotient_down(in[0].value, in[1].value)) * eb;
    default: return at_corners(function, in, value);
    }
}

static bool is_inexact(enum map_function function) {
    return (function >= MAP_EXP && function <= MAP_TANH) || function == MAP_HYPOT || function == MAP_POWER;
}

/* Computes a step of floats: the value, and how far a right program's value may lie from it. */
static struct number real_step(const struct map_step *step, const struct number in[]) {
    enum map_function function = step->function;
    struct number out = {0};
    double ulp = dtype_epsilon((enum dtype)step->type);
    out.value = step->wide == WIDE_FLOAT ? float_value(function, (float)in[0].value, (float)in[1].value)
                                         : real_value(function, in[0].value, in[1].value);
    out.value = rounded(step->type, out.value);
    if (is_inexact(function)) out.error = ULPS * (ulp * fabs(out.value) + dtype_smallest((enum dtype)step->type));
    if (in[0].error > 0 || in[1].error > 0)
        out.error += spread(function, in, out.value) + ulp * fabs(out.value) + dtype_smallest((enum dtype)step->type);
    /* Near the largest number of the type a right result may be infinite. */
    if (out.error > 0 && !(fabs(out.value) + out.error <= dtype_largest((enum dtype)step->type)))
        out.error = isnan(out.value) && in[0].error == 0 && in[1].error == 0 ? 0 : INFINITY;
    if (isnan(out.error)) out.error = INFINITY;
    return out;
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static int64_t narrowed(int type, int64_t integer) {
    int64_t bits = 0;
    if (type == MAP_BOOL) return integer != 0;
    dtype_store_integer((enum dtype)type, &bits, 0, integer);
    return dtype_load_integer((enum dtype)type, &bits, 0);
}

/* The integer as float64; of uint64 it holds the bits. */
static double real_of(int type, int64_t integer) {
    return type == UINT64 ? (double)(uint64_t)integer : (double)integer;
}

/* base ^ exponent modulo 2^64; of a negative exponent rounded towards zero. */
static int64_t power(bool is_signed, int64_t base, int64_t exponent) {
    uint64_t product = 1, factor = (uint64_t)base;
    if (is_signed && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    for (uint64_t rest = (uint64_t)exponent; rest > 0; rest >>= 1, factor *= factor)
        if (rest & 1) product *= factor;
    return (int64_t)product;
}

/* The quotient rounded down, or the remainder with the sign of b; both are 0 if b is. */
static int64_t divided(bool is_signed, int64_t a, int64_t b, bool remainder) {
    if (b == 0) return 0;
    if (!is_signed) return (int64_t)(remainder ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b);
    if (b == -1) return remainder ? 0 : (int64_t)(0 - (uint64_t)a);
    int64_t quotient = a / b, rest = a % b;
    bool below = rest != 0 && (rest < 0) != (b < 0);
    return remainder ? rest + (below ? b : 0) : quotient - below;
}

/* -1, 0 or 1: a is less than, equal to or greater than b. */
static int order(bool is_signed, int64_t a, int64_t b) {
    if (is_signed) return (a > b) - (a < b);
    return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
}

/* The value of a function of integers, modulo 2^64. `is_signed`: the 64 bits of a and b are signed numbers. */
static int64_t integer_value(enum map_function function, bool is_signed, int64_t a, int64_t b) {
    switch (function) {
    case MAP_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case MAP_SUBTRACT: return (int64_t)((uint64_t)a - (uint64_t)b);
    case MAP_MULTIPLY: return (int64_t)((uint64_t)a * (uint64_t)b);
    case MAP_FLOOR_DIVIDE: return divided(is_signed, a, b, false);
    case MAP_REMAINDER: return divided(is_signed, a, b, true);
    case MAP_POWER: return power(is_signed, a, b);
    case MAP_MINIMUM: return order(is_signed, a, b) < 0 ? a : b;
    case MAP_MAXIMUM: return order(is_signed, a, b) > 0 ? a : b;
    case MAP_NEGATIVE: return (int64_t)(0 - (uint64_t)a);
    case MAP_ABS: return is_signed && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case MAP_SIGN: return order(is_signed, a, 0);
    case MAP_AND: return a & b;
    case MAP_OR: return a | b;
    case MAP_NOT: return !a;
    default: return a;
    }
}

/* Computes a step of integers or truth values. If an operand has an error, any result is right, unless the function
 * only selects or negates an operand; of truth values, at most the other one. */
static struct number integer_step(const struct map_step *step, const struct number in[]) {
    bool is_signed = step->wide != WIDE_UINT;
    struct number out = {0};
    out.integer = narrowed(step->type, integer_value(step->function, is_signed, in[0].integer, in[1].integer));
    out.value = real_of(step->type, out.integer);
    bool keeps_error = step->function == MAP_MINIMUM || step->function == MAP_MAXIMUM || step->function == MAP_ABS ||
                       step->function == MAP_NEGATIVE;
    if (in[0].error > 0 || in[1].error > 0) out.error = keeps_error ? fmax(in[0].error, in[1].error) : INFINITY;
    if (step->wide == WIDE_BOOL && out.error > 0) out.error = 1;
    return out;
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

/* A truth value; unless it is certain, the other one may be right too. */
static struct number bool_value(bool value, bool certain) {
    return (struct number){.value = value, .integer = value, .error = certain ? 0 : 1};
}

/* Compares two numbers. The result is certain if they lie further apart than their errors. */
static struct number compared(const struct map_step *step, const struct number in[]) {
    double error = in[0].error + in[1].error;
    bool real = wide_is_real(step->wide), nan = real && (isnan(in[0].value) || isnan(in[1].value));
    int sign = real ? (in[0].value > in[1].value) - (in[0].value < in[1].value)
                    : order(step->wide != WIDE_UINT, in[0].integer, in[1].integer);
    bool certain = error == 0 || fabs(in[0].value - in[1].value) > error;
    switch (step->function) {
    case MAP_EQUAL: return bool_value(!nan && sign == 0, certain);
    case MAP_UNEQUAL: return bool_value(nan || sign != 0, certain);
    case MAP_LESS: return bool_value(!nan && sign < 0, certain);
    case MAP_LESS_EQUAL: return bool_value(!nan && sign <= 0, certain);
    case MAP_GREATER: return bool_value(!nan && sign > 0, certain);
    default: return bool_value(!nan && sign >= 0, certain);
    }
}

/* Converts a number to step->type, as MAP_CAST does, with its error. */
static struct number conversion(const struct map_step *step, struct number in) {
    struct number out = in;
    bool from_real = wide_is_real(step->wide), to_real = wide_is_real(wide_type_of(step->type));
    if (step->type == MAP_BOOL)
        return bool_value(from_real ? in.value != 0 : in.integer != 0, in.error == 0 || fabs(in.value) > in.error);
    if (to_real) {
        double exact = from_real ? in.value : real_of(step->number, in.integer);
        if (!from_real && step->type != FLOAT64) /* rounded once from 64 bits to float32 */
            exact = step->number == UINT64 ? (double)(float)(uint64_t)in.integer : (double)(float)in.integer;
        out.value = rounded(step->type, exact);
        if (in.error > 0) out.error = in.error + dtype_epsilon((enum dtype)step->type) * fabs(out.value);
        return out;
    }
    if (from_real) {
        struct casts ignored = {0};
        convert_elements(FLOAT64, &in.value, 1, INT64, &out.integer, &ignored);
        out.error = in.error == 0 || trunc(in.value - in.error) == trunc(in.value + in.error) ? 0 : INFINITY;
    }
    out.integer = narrowed(step->type, out.integer);
    out.value = real_of(step->type, out.integer);
    return out;
}

/* MAP_WHERE. If the condition has an error, the other operand may be right too. */
static struct number choice(const struct number in[]) {
    struct number out = in[0].integer ? in[1] : in[2];
    if (in[0].error == 0) return out;
    out.error = fabs(in[1].value - in[2].value) + in[1].error + in[2].error;
    if (isnan(out.error)) out.error = INFINITY;
    return out;
}

static struct number constant(const struct map_step *step) {
    if (wide_is_real(step->wide)) return (struct number){.value = step->real};
    return (struct number){.value = real_of(step->type, step->integer), .integer = step->integer};
}

/* Computes a step that is not MAP_INPUT or MAP_INDEX. */
static struct number next_value(const struct map_step *step, const struct number in[]) {
    enum map_function function = step->function;
    if (function == MAP_CONSTANT) return constant(step);
    if (function == MAP_CAST) return conversion(step, in[0]);
    if (function == MAP_WHERE) return choice(in);
    if (function >= MAP_EQUAL && function <= MAP_GREATER_EQUAL) return compared(step, in);
    if (function == MAP_ISNAN) return bool_value(isnan(in[0].value), isfinite(in[0].error));
    if (function == MAP_ISFINITE) return bool_value(isfinite(in[0].value), isfinite(in[0].error));
    return wide_is_real(step->wide) ? real_step(step, in) : integer_step(step, in);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* One piece of the box, with the elements of the inputs that it needs. */
struct evaluation {
    const struct geometry *geometry;
    const struct map_program *program;
    struct box piece;
    const struct operand *result;      /* has the piece's axes */
    struct map_axis axes[KERNEL_AXES]; /* the result array's axes */
    const char *elements[MAX_INPUTS];
    /* The elements of an input from one position along the piece's axis to the next. */
    int64_t stride[MAX_INPUTS][MAX_RANK];
};

/* The value of a leaf at position `at` in the piece: an input's element, or an index. */
static struct number leaf(const struct evaluation *evaluation, const struct map_step *step, const int64_t at[]) {
    const struct geometry *geometry = evaluation->geometry;
    struct number out = {0};
    if (step->function == MAP_INDEX) {
        const struct map_axis *axis = &evaluation->axes[step->number];
        int i = axis->loop - (OPERAND_RANK - evaluation->piece.rank);
        out.integer = axis->first + (evaluation->piece.start[i] + at[i]) / axis->inner % axis->size;
        out.value = (double)out.integer;
        return out;
    }
    int64_t offset = 0;
    for (int i = 0; i < evaluation->piece.rank; i++) offset += at[i] * evaluation->stride[step->number][i];
    enum dtype dtype = geometry->in[step->number].dtype;
    out.value = dtype_load(dtype, evaluation->elements[step->number], offset);
    if (!dtype_is_float(dtype)) out.integer = dtype_load_integer(dtype, evaluation->elements[step->number], offset);
    return out;
}

/* Computes element `number` of the piece, counted in row-major order, by all steps of the program. */
static struct number element(const struct evaluation *evaluation, int64_t number) {
    const struct map_program *program = evaluation->program;
    static const struct number none = {0};
    struct number numbers[MAP_STEPS], last = none;
    int64_t position[MAX_RANK] = {0}, rest = number;
    for (int axis = evaluation->piece.rank - 1; axis >= 0; axis--) {
        position[axis] = rest % evaluation->piece.count[axis];
        rest /= evaluation->piece.count[axis];
    }
    for (int i = 0; i < program->count; i++) {
        const struct map_step *step = &program->steps[i];
        struct number in[MAP_OPERANDS];
        bool is_leaf = step->function == MAP_INPUT || step->function == MAP_INDEX;
        for (int k = 0; k < MAP_OPERANDS; k++) in[k] = step->operands[k] >= 0 ? numbers[step->operands[k]] : none;
        numbers[i] = last = is_leaf ? leaf(evaluation, step, position) : next_value(step, in);
    }
    return last;
}

/* What evaluate() stores for the elements of a box; one member is set: their truth, their values in the map's type, or
 * their bounds. */
struct value_sink {
    struct truth *truth;
    void *data;
    double *bounds;
    enum map_bound bound;
};

/* The bound of the values that are right for an element with this result. */
static double bound_of(enum map_bound bound, struct number last) {
    double error = last.error;
    if (isnan(last.value) && error == 0) return last.value;
    if (bound == MAP_SMALLEST) return isinf(error) ? -INFINITY : last.value - error;
    if (bound == MAP_LARGEST) return isinf(error) ? INFINITY : last.value + error;
    return bound == MAP_RELATIVE && error > 0 ? error / fabs(last.value) : error;
}

/* Stores the bound, the value or the truth of element `at` of a box; `last` is what the last step gave. */
static void store_element(const struct value_sink *to, int type, struct number last, int64_t at) {
    struct truth *truth = to->truth;
    const bool every_number_is_right = isinf(last.error);
    if (to->bounds) {
        to->bounds[at] = bound_of(to->bound, last);
        return;
    }
    if (!truth) {
        if (wide_is_real(wide_type_of(type)))
            dtype_store((enum dtype)type, to->data, at, last.value);
        else
            dtype_store_integer(map_stored(type), to->data, at, last.integer);
        return;
    }
    const bool several_integers_are_right = truth->integer && last.error > 0;
    truth->overflow[at] = every_number_is_right || several_integers_are_right ? OVERFLOW_ANY : OVERFLOW_NONE;
    if (truth->integer) {
        truth->integer[at] = last.integer;
        return;
    }
    double magnitude = fabs(last.value) + last.error / dtype_epsilon((enum dtype)type);
    truth->value[at] = every_number_is_right ? 0 : last.value;
    truth->magnitude[at] = every_number_is_right ? INFINITY : isnan(magnitude) ? DBL_MAX : magnitude;
}

/* Reads the elements of each input that the piece needs into `memory`, and sets their strides. */
static enum status read_piece(struct evaluation *evaluation, const struct host_reader *reader, void *const memory[],
                              struct error *error) {
    const struct geometry *geometry = evaluation->geometry;
    for (int input = 0; input < geometry->inputs; input++) {
        const struct operand *operand = &geometry->in[input];
        struct box box = box_whole(&operand->shape);
        int64_t elements = 1;
        const void *from;
        for (int axis = operand->shape.rank - 1; axis >= 0; axis--)
            for (int i = 0; i < evaluation->piece.rank; i++)
                if (evaluation->result->loop[i] == operand->loop[axis]) {
                    box.start[axis] = evaluation->piece.start[i];
                    box.count[axis] = evaluation->piece.count[i];
                    evaluation->stride[input][i] = elements;
                    elements *= box.count[axis];
                }
        TRY(host_reader_get(reader, input, &box, memory[input], &from, error));
        evaluation->elements[input] = from;
        if (from != memory[input] && memory[input]) { /* a later read may free it */
            memcpy(memory[input], from, (size_t)(box_elements(&box) * (int64_t)dtype_size(operand->dtype)));
            evaluation->elements[input] = memory[input];
        }
    }
    return STATUS_OK;
}

/* Computes the elements of a box piece by piece, and stores them in `to`. `memory`: for a piece of each input. */
static enum status evaluate_pieces(const struct geometry *geometry, const struct operand *result,
                                   const struct map_program *program, const struct host_reader *reader,
                                   const struct box *box, void *const memory[], const struct value_sink *to,
                                   struct error *error) {
    struct cut cut = cut_box(box, NULL, PIECE);
    int64_t at = 0;
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct evaluation evaluation = {
            .geometry = geometry, .result = result, .program = program, .piece = cut_piece(&cut, number)};
        int64_t elements = box_elements(&evaluation.piece);
        map_axes(result, evaluation.axes);
        TRY(read_piece(&evaluation, reader, memory, error));
#pragma omp parallel for schedule(static, BLOCK) if (elements > BLOCK)
        for (int64_t i = 0; i < elements; i++) store_element(to, program->type, element(&evaluation, i), at + i);
        at += elements;
    }
    return STATUS_OK;
}

/* Makes the map's program, computes the elements of a box of `result`, and stores them in `to`. */
static enum status evaluate(const struct geometry *geometry, const struct operand *result,
                            const struct host_reader *reader, const struct box *box, const struct value_sink *to,
                            struct error *error) {
    struct map_program *program = malloc(sizeof *program);
    char *elements = malloc((size_t)(PIECE * 8 * geometry->inputs)); /* a piece of each input */
    void *memory[MAX_INPUTS] = {NULL};
    enum dtype dtypes[MAX_INPUTS];
    enum status status = STATUS_OK;
    for (int i = 0; i < geometry->inputs && elements; i++) {
        dtypes[i] = geometry->in[i].dtype;
        memory[i] = elements + i * PIECE * 8;
    }
    if (!program || !elements)
        status = fail(error, STATUS_RUN, "no host memory left to compute the reference result");
    else
        status = map_program(geometry->options.map, dtypes, program, error);
    if (status == STATUS_OK && program)
        status = evaluate_pieces(geometry, result, program, reader, box, memory, to, error);
    free(elements);
    free(program);
    return status;
}

enum status map_reference(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                          struct truth *truth, struct error *error) {
    return evaluate(geometry, &geometry->out, reader, box, &(struct value_sink){.truth = truth}, error);
}

enum status map_values(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       void *data, struct error *error) {
    return evaluate(geometry, &geometry->map_result, reader, box, &(struct value_sink){.data = data}, error);
}

enum status map_bounds(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       enum map_bound bound, double *data, struct error *error) {
    return evaluate(geometry, &geometry->map_result, reader, box, &(struct value_sink){.bounds = data, .bound = bound},
                    error);
}

bool map_is_exact(const struct geometry *geometry) {
    struct map_program *program = malloc(sizeof *program);
    enum dtype dtypes[MAX_INPUTS];
    struct error ignored = {.status = STATUS_OK};
    for (int i = 0; i < geometry->inputs; i++) dtypes[i] = geometry->in[i].dtype;
    bool exact = !program || map_program(geometry->options.map, dtypes, program, &ignored) || program->exact;
    free(program);
    return exact;
}
