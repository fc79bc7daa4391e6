/* expression_functions.c - defines the table of operators and functions, and computes them for scalars. */
#include "../../../kernels/core/convert.h"
#include "../../base/spelling.h"
#include "expression_tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char overflow[] = "the result has more than 64 bits";
static const char division_by_zero[] = "it divides by zero";

/* ---- scalars --------------------------------------------------------------------------------------------------- */

/* The value, which must not be a text, as a real number. */
static double real(const struct scalar *value) {
    return value->kind == SCALAR_REAL ? value->real : (double)value->integer;
}

/* Are both values, which must not be texts, integers? Booleans count as the integers 0 and 1. */
static bool both_integer(const struct scalar in[]) {
    return in[0].kind != SCALAR_REAL && in[1].kind != SCALAR_REAL;
}

static const char *give_real(struct scalar *out, double value) {
    *out = (struct scalar){.kind = SCALAR_REAL, .real = value};
    return NULL;
}

static const char *give_integer(struct scalar *out, int64_t value) {
    *out = (struct scalar){.kind = SCALAR_INTEGER, .integer = value};
    return NULL;
}

static const char *give_bool(struct scalar *out, bool value) {
    *out = (struct scalar){.kind = SCALAR_BOOL, .integer = value};
    return NULL;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

/* From here to the tables, functions have the contract of expression_function.scalar. */

/* With two integers it returns an integer, else a real number. */
#define ARITHMETIC(name, operator, checked)                                                                            \
    static const char *name(const struct scalar in[], struct scalar *out) {                                            \
        int64_t integer;                                                                                               \
        if (!both_integer(in)) return give_real(out, real(&in[0]) operator real(&in[1]));                              \
        return checked(in[0].integer, in[1].integer, &integer) ? overflow : give_integer(out, integer);                \
    }
ARITHMETIC(add, +, __builtin_add_overflow)
ARITHMETIC(subtract, -, __builtin_sub_overflow)
ARITHMETIC(multiply, *, __builtin_mul_overflow)

static const char *divide(const struct scalar in[], struct scalar *out) {
    if (real(&in[1]) == 0) return division_by_zero;
    return give_real(out, real(&in[0]) / real(&in[1]));
}

/* The quotient rounded down and the remainder with the divisor's sign: a = quotient * b + remainder. */
static const char *floor_divide(const struct scalar in[], struct scalar *quotient, struct scalar *remainder) {
    if (real(&in[1]) == 0) return division_by_zero;
    if (!both_integer(in)) {
        double a = real(&in[0]), b = real(&in[1]), rest = fmod(a, b); /* exact, with the sign of a */
        bool lower = rest != 0 && (rest < 0) != (b < 0);
        double rounded = (a - rest) / b - lower; /* an integer, but for an error of the division */
        give_real(remainder, rest == 0 ? copysign(0, b) : lower ? rest + b : rest);
        return give_real(quotient, rounded == 0 ? copysign(0, a / b) : rint(rounded));
    }
    int64_t a = in[0].integer, b = in[1].integer;
    if (b == -1) { /* the hardware's division traps for the least integer */
        give_integer(remainder, 0);
        return subtract((struct scalar[]){{.kind = SCALAR_INTEGER}, in[0]}, quotient);
    }
    bool lower = a % b != 0 && (a % b < 0) != (b < 0);
    give_integer(remainder, a % b + (lower ? b : 0));
    return give_integer(quotient, a / b - lower);
}

static const char *quotient(const struct scalar in[], struct scalar *out) {
    struct scalar remainder;
    return floor_divide(in, out, &remainder);
}

static const char *remainder_of(const struct scalar in[], struct scalar *out) {
    struct scalar rounded;
    const char *fault = floor_divide(in, &rounded, out);
    return fault == overflow ? NULL : fault; /* where the quotient overflows, the remainder is 0 */
}

/* a ** b: an integer for integers with b >= 0, by squaring; else a real number. */
static const char *power(const struct scalar in[], struct scalar *out) {
    if (!both_integer(in) || in[1].integer < 0) {
        if (real(&in[0]) == 0 && real(&in[1]) < 0) return division_by_zero;
        return give_real(out, pow(real(&in[0]), real(&in[1])));
    }
    int64_t base = in[0].integer, exponent = in[1].integer, product = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(product, base, &product)) return overflow;
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow;
    }
    return give_integer(out, product);
}

static const char *negate(const struct scalar in[], struct scalar *out) {
    if (in[0].kind == SCALAR_REAL) return give_real(out, -in[0].real);
    return subtract((struct scalar[]){{.kind = SCALAR_INTEGER}, in[0]}, out);
}

static const char *plus(const struct scalar in[], struct scalar *out) {
    return in[0].kind == SCALAR_REAL ? give_real(out, in[0].real) : give_integer(out, in[0].integer);
}

static const char *absolute(const struct scalar in[], struct scalar *out) {
    return real(&in[0]) < 0 || (in[0].kind == SCALAR_REAL && signbit(in[0].real)) ? negate(in, out) : plus(in, out);
}

static const char *sign(const struct scalar in[], struct scalar *out) {
    if (in[0].kind != SCALAR_REAL) return give_integer(out, (in[0].integer > 0) - (in[0].integer < 0));
    double value = in[0].real;
    return give_real(out, isnan(value) ? value : (value > 0) - (value < 0));
}

/* ---- comparisons ----------------------------------------------------------------------------------------------- */

/* Compares two scalars: -1, 0 or 1; 2: they have no order: one is NaN, or only one is a text. */
static int compare_scalars(const struct scalar in[]) {
    const struct scalar *a = &in[0], *b = &in[1];
    if (a->kind == SCALAR_TEXT && b->kind == SCALAR_TEXT) {
        int order = strcmp(a->text, b->text);
        return (order > 0) - (order < 0);
    }
    if (a->kind == SCALAR_TEXT || b->kind == SCALAR_TEXT) return 2;
    if (both_integer(in)) return (a->integer > b->integer) - (a->integer < b->integer);
    double x = real(a), y = real(b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

/* Why two values cannot be ordered; NULL: they can, or one is NaN. */
static const char *unordered(const struct scalar in[]) {
    bool mixed = (in[0].kind == SCALAR_TEXT) != (in[1].kind == SCALAR_TEXT);
    return mixed ? "a text and a number have no order" : NULL;
}

/* `holds` is a condition on `order`, the result of compare_scalars. */
#define COMPARISON(name, holds, fault)                                                                                 \
    static const char *name(const struct scalar in[], struct scalar *out) {                                            \
        int order = compare_scalars(in);                                                                               \
        give_bool(out, holds);                                                                                         \
        return fault;                                                                                                  \
    }
COMPARISON(equal, order == 0, NULL)
COMPARISON(unequal, order != 0, NULL)
COMPARISON(less, order == -1, unordered(in))
COMPARISON(less_or_equal, order <= 0, unordered(in))
COMPARISON(greater, order == 1, unordered(in))
COMPARISON(greater_or_equal, order == 0 || order == 1, unordered(in))

static const char *not_true(const struct scalar in[], struct scalar *out) {
    return give_bool(out, !scalar_is_true(&in[0]));
}

/* ---- functions ------------------------------------------------------------------------------------------------- */

#define REAL_FUNCTION(name)                                                                                            \
    static const char *name##_of(const struct scalar in[], struct scalar *out) {                                       \
        return give_real(out, name(real(&in[0])));                                                                     \
    }
REAL_FUNCTION(sqrt)
REAL_FUNCTION(exp)
REAL_FUNCTION(log)
REAL_FUNCTION(log2)
REAL_FUNCTION(log10)
REAL_FUNCTION(sin)
REAL_FUNCTION(cos)
REAL_FUNCTION(tan)
REAL_FUNCTION(tanh)

/* These return an integer unchanged. */
#define ROUNDING_FUNCTION(name)                                                                                        \
    static const char *name##_of(const struct scalar in[], struct scalar *out) {                                       \
        return in[0].kind == SCALAR_REAL ? give_real(out, name(in[0].real)) : plus(in, out);                           \
    }
ROUNDING_FUNCTION(floor)
ROUNDING_FUNCTION(ceil)
ROUNDING_FUNCTION(rint)

static const char *hypot_of(const struct scalar in[], struct scalar *out) {
    return give_real(out, hypot(real(&in[0]), real(&in[1])));
}

/* The smaller of two scalars; NaN if either is NaN. */
static const char *minimum(const struct scalar in[], struct scalar *out) {
    bool first = isnan(real(&in[0])) || compare_scalars(in) <= 0;
    *out = in[first ? 0 : 1];
    return NULL;
}

/* The larger of two scalars; NaN if either is NaN. */
static const char *maximum(const struct scalar in[], struct scalar *out) {
    int order = compare_scalars(in);
    bool first = isnan(real(&in[0])) || order == 0 || order == 1;
    *out = in[first ? 0 : 1];
    return NULL;
}

/* minimum(maximum(x, low), high), as in NumPy. */
static const char *clip(const struct scalar in[], struct scalar *out) {
    struct scalar raised[2];
    maximum(in, &raised[0]);
    raised[1] = in[2];
    return minimum(raised, out);
}

static const char *is_nan(const struct scalar in[], struct scalar *out) {
    return give_bool(out, isnan(real(&in[0])));
}
static const char *is_finite(const struct scalar in[], struct scalar *out) {
    return give_bool(out, isfinite(real(&in[0])));
}

/* Converts a number to a data type and back, so that scalars are rounded like array elements. */
static const char *cast(const struct scalar in[], struct scalar *out) {
    enum dtype type = 0;
    if (in[0].kind == SCALAR_TEXT) return "a text cannot be cast";
    if (in[1].kind == SCALAR_TEXT)
        while (type < DTYPE_COUNT && strcmp(dtype_name(type), in[1].text) != 0) type++;
    if (in[1].kind != SCALAR_TEXT || type == DTYPE_COUNT) return "the second operand is not a data type in quotes";
    bool integer = in[0].kind != SCALAR_REAL;
    struct casts casts = {0};
    uint64_t element = 0;
    convert_elements(integer ? INT64 : FLOAT64, integer ? (const void *)&in[0].integer : &in[0].real, 1, type, &element,
                     &casts);
    if (casts.wrapped) return "the value is out of the type's range";
    if (!dtype_is_float(type)) {
        *out = (struct scalar){.kind = SCALAR_INTEGER};
        convert_elements(type, &element, 1, INT64, &out->integer, &casts);
        return casts.wrapped ? overflow : NULL;
    }
    *out = (struct scalar){.kind = SCALAR_REAL};
    convert_elements(type, &element, 1, FLOAT64, &out->real, &casts);
    return NULL;
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static const struct expression_function operators[] = {
    {"+", 2, .scalar = add, .map = MAP_ADD},
    {"-", 2, .scalar = subtract, .map = MAP_SUBTRACT},
    {"*", 2, .scalar = multiply, .map = MAP_MULTIPLY},
    {"/", 2, .scalar = divide, .map = MAP_DIVIDE},
    {"//", 2, .scalar = quotient, .map = MAP_FLOOR_DIVIDE},
    {"%", 2, .scalar = remainder_of, .map = MAP_REMAINDER},
    {"**", 2, .scalar = power, .map = MAP_POWER},
    {"unary -", 1, .scalar = negate, .map = MAP_NEGATIVE},
    {"unary +", 1, .scalar = plus, .map = MAP_POSITIVE},
    {"==", 2, .scalar = equal, .takes_text = true, .map = MAP_EQUAL},
    {"!=", 2, .scalar = unequal, .takes_text = true, .map = MAP_UNEQUAL},
    {"<", 2, .scalar = less, .takes_text = true, .map = MAP_LESS},
    {"<=", 2, .scalar = less_or_equal, .takes_text = true, .map = MAP_LESS_EQUAL},
    {">", 2, .scalar = greater, .takes_text = true, .map = MAP_GREATER},
    {">=", 2, .scalar = greater_or_equal, .takes_text = true, .map = MAP_GREATER_EQUAL},
    {"not", 1, .scalar = not_true, .map = MAP_NOT},
    {"and", 2, .choose = CHOOSE_AND, .map = MAP_AND},
    {"or", 2, .choose = CHOOSE_OR, .map = MAP_OR},
    {"if", 3, .choose = CHOOSE_IF, .map = MAP_WHERE},
};

static const struct expression_function functions[] = {
    {"abs", 1, .scalar = absolute, .map = MAP_ABS},
    {"sqrt", 1, .scalar = sqrt_of, .map = MAP_SQRT},
    {"exp", 1, .scalar = exp_of, .map = MAP_EXP},
    {"log", 1, .scalar = log_of, .map = MAP_LOG},
    {"log2", 1, .scalar = log2_of, .map = MAP_LOG2},
    {"log10", 1, .scalar = log10_of, .map = MAP_LOG10},
    {"sin", 1, .scalar = sin_of, .map = MAP_SIN},
    {"cos", 1, .scalar = cos_of, .map = MAP_COS},
    {"tan", 1, .scalar = tan_of, .map = MAP_TAN},
    {"tanh", 1, .scalar = tanh_of, .map = MAP_TANH},
    {"floor", 1, .scalar = floor_of, .map = MAP_FLOOR},
    {"ceil", 1, .scalar = ceil_of, .map = MAP_CEIL},
    {"rint", 1, .scalar = rint_of, .map = MAP_RINT},
    {"minimum", 2, .scalar = minimum, .map = MAP_MINIMUM},
    {"maximum", 2, .scalar = maximum, .map = MAP_MAXIMUM},
    {"isnan", 1, .scalar = is_nan, .map = MAP_ISNAN},
    {"isfinite", 1, .scalar = is_finite, .map = MAP_ISFINITE},
    {"where", 3, .choose = CHOOSE_IF, .map = MAP_WHERE},
    {"clip", 3, .scalar = clip, .map = MAP_CLIP},
    {"hypot", 2, .scalar = hypot_of, .map = MAP_HYPOT},
    {"sign", 1, .scalar = sign, .map = MAP_SIGN},
    {"cast", 2, .scalar = cast, .takes_text = true, .map = MAP_CAST},
};
#define FUNCTIONS (int)(sizeof functions / sizeof *functions)

const struct expression_function *function_find(const char *name, int length) {
    for (int i = 0; i < FUNCTIONS; i++)
        if ((int)strlen(functions[i].name) == length && strncmp(functions[i].name, name, (size_t)length) == 0)
            return &functions[i];
    return NULL;
}

int type_of_text(const char *text) {
    if (strcmp(text, "bool") == 0) return DTYPE_COUNT;
    for (int type = 0; type < DTYPE_COUNT; type++)
        if (strcmp(dtype_name((enum dtype)type), text) == 0) return type;
    return -1;
}

const char *function_hint(const char *name, char text[FUNCTION_HINT]) {
    static const struct {
        const char *name, *hint;
    } others[] = {{"max", ": write maximum(a, b); over an axis it is an operator of reduce"},
                  {"min", ": write minimum(a, b); over an axis it is an operator of reduce"},
                  {"mean", ": it is an operator of reduce, whose result can be an input"},
                  {"sum", ": it is an operator of reduce, whose result can be an input"},
                  {"std", ": it is an operator of reduce, whose result can be an input"},
                  {"pow", ": write a ** b"},
                  {"power", ": write a ** b"},
                  {"round", ": write rint(a)"},
                  {"ln", ": write log(a)"},
                  {"isinf", ": write abs(a) == inf"},
                  {"float", ": write cast(a, 'float64')"},
                  {"int", ": write cast(a, 'int64')"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i].name) == 0) return others[i].hint;
    if (type_of_text(name) >= 0) {
        snprintf(text, FUNCTION_HINT, ": write cast(a, '%s')", name);
        return text;
    }
    const char *names[FUNCTIONS];
    for (int i = 0; i < FUNCTIONS; i++) names[i] = functions[i].name;
    if (*name_hint(name, names, FUNCTIONS, "", text) != '\0') return text;
    size_t length = (size_t)snprintf(text, FUNCTION_HINT, " (one of: ");
    for (int i = 0; i < FUNCTIONS && length < FUNCTION_HINT; i++)
        length += (size_t)snprintf(text + length, FUNCTION_HINT - length, "%s%s", i ? ", " : "", names[i]);
    if (length < FUNCTION_HINT - 1) memcpy(text + length, ")", 2);
    return text;
}

const struct expression_function *operator_find(const char *name) {
    const struct expression_function *found = operators;
    while (strcmp(found->name, name) != 0) found++;
    return found;
}

const struct expression_function *function_of_map(enum map_function map, bool *called) {
    const struct expression_function *found = functions;
    while (found < functions + FUNCTIONS && found->map != map) found++;
    *called = found < functions + FUNCTIONS;
    if (!*called)
        for (found = operators; found->map != map;) found++;
    return found;
}
