/* vector.c - the instructions of a map's program on the CPU: a vectorised loop for each function and wide type, the
 * type in which values are computed (enum wide_type): bool, int64_t, uint64_t, float or double. */
#include "vector.h"

#include "../core/cpu.h"
#include "../core/float16.h"

#include <math.h>
#include <string.h>

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

/* C's conversion if it is defined; else modulo 2^64; 0 for NaN and infinities (convert.h). */
static inline int64_t integer_of(double value) {
    if (fabs(value) < 0x1p63) return (int64_t)value;
    if (!isfinite(value)) return 0;
    double rest = fmod(trunc(value), 0x1p64);
    return (int64_t)(uint64_t)(rest < 0 ? rest + 0x1p64 : rest);
}

/* NumPy's quotient rounded down, and the remainder with the divisor's sign. */
#define FLOOR_DIVISION(type, suffix)                                                                                   \
    static inline type remainder_##type(type a, type b) {                                                              \
        type rest = fmod##suffix(a, b);                                                                                \
        if (b == 0) return rest;                                                                                       \
        if (rest == 0) return copysign##suffix(0, b);                                                                  \
        return (b < 0) != (rest < 0) ? rest + b : rest;                                                                \
    }                                                                                                                  \
    static inline type floor_divide_##type(type a, type b) {                                                           \
        if (b == 0) return a / b;                                                                                      \
        type rest = fmod##suffix(a, b), quotient = (a - rest) / b;                                                     \
        if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;                                                         \
        if (quotient == 0) return copysign##suffix(0, a / b);                                                          \
        type floored = floor##suffix(quotient);                                                                        \
        return quotient - floored > (type)0.5 ? floored + 1 : floored;                                                 \
    }
FLOOR_DIVISION(float, f)
FLOOR_DIVISION(double, )

/* The same for integers; division by zero gives 0, as in NumPy. */
static inline int64_t floor_divide_int64_t(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static inline int64_t remainder_int64_t(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline uint64_t floor_divide_uint64_t(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a / b;
}

static inline uint64_t remainder_uint64_t(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a % b;
}

/* Powers modulo 2^64. A negative power of an integer is truncated: 1, -1 or 0. */
static inline uint64_t power_uint64_t(uint64_t base, uint64_t exponent) {
    uint64_t product = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) product *= base;
    return product;
}

static inline int64_t power_int64_t(int64_t base, int64_t exponent) {
    if (exponent >= 0) return (int64_t)power_uint64_t((uint64_t)base, (uint64_t)exponent);
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
}

/* ---- loops ----------------------------------------------------------------------------------------------------- */

/* Sets each element of `out` to `expression` of a and b, the elements of in[0] and in[1], which have type `from`. */
#define EACH(from, to, expression)                                                                                     \
    do {                                                                                                               \
        const from *as = in[0], *bs = in[1], *cs = in[2];                                                              \
        (void)bs, (void)cs;                                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                      \
            const from a = as[i];                                                                                      \
            ((to *)out)[i] = (to)(expression);                                                                         \
        }                                                                                                              \
    } while (0)
#define b (bs[i])

#define COMPARISONS(type)                                                                                              \
    case MAP_EQUAL: EACH(type, uint8_t, a == b); break;                                                                \
    case MAP_UNEQUAL: EACH(type, uint8_t, a != b); break;                                                              \
    case MAP_LESS: EACH(type, uint8_t, a < b); break;                                                                  \
    case MAP_LESS_EQUAL: EACH(type, uint8_t, a <= b); break;                                                           \
    case MAP_GREATER: EACH(type, uint8_t, a > b); break;                                                               \
    case MAP_GREATER_EQUAL: EACH(type, uint8_t, a >= b); break;

/* Integers are computed as uint64_t, so that overflow wraps. */
#define INTEGERS(type)                                                                                                 \
    COMPARISONS(type)                                                                                                  \
    case MAP_ADD: EACH(type, type, (uint64_t)a + (uint64_t)b); break;                                                  \
    case MAP_SUBTRACT: EACH(type, type, (uint64_t)a - (uint64_t)b); break;                                             \
    case MAP_MULTIPLY: EACH(type, type, (uint64_t)a *(uint64_t)b); break;                                              \
    case MAP_NEGATIVE: EACH(type, type, 0 - (uint64_t)a); break;                                                       \
    case MAP_ABS: EACH(type, type, a > 0 ? (uint64_t)a : 0 - (uint64_t)a); break;                                      \
    case MAP_SIGN: EACH(type, type, a > 0 ? 1 : a == 0 ? 0 : -1); break;                                               \
    case MAP_FLOOR_DIVIDE: EACH(type, type, floor_divide_##type(a, b)); break;                                         \
    case MAP_REMAINDER: EACH(type, type, remainder_##type(a, b)); break;                                               \
    case MAP_POWER: EACH(type, type, power_##type(a, b)); break;                                                       \
    case MAP_MINIMUM: EACH(type, type, a < b ? a : b); break;                                                          \
    case MAP_MAXIMUM: EACH(type, type, a > b ? a : b); break;

/* The minimum and the maximum with a NaN are NaN. */
#define FLOATS(type, suffix)                                                                                           \
    COMPARISONS(type)                                                                                                  \
    case MAP_ADD: EACH(type, type, a + b); break;                                                                      \
    case MAP_SUBTRACT: EACH(type, type, a - b); break;                                                                 \
    case MAP_MULTIPLY: EACH(type, type, a *b); break;                                                                  \
    case MAP_DIVIDE: EACH(type, type, a / b); break;                                                                   \
    case MAP_FLOOR_DIVIDE: EACH(type, type, floor_divide_##type(a, b)); break;                                         \
    case MAP_REMAINDER: EACH(type, type, remainder_##type(a, b)); break;                                               \
    case MAP_POWER: EACH(type, type, pow##suffix(a, b)); break;                                                        \
    case MAP_HYPOT: EACH(type, type, hypot##suffix(a, b)); break;                                                      \
    case MAP_MINIMUM: EACH(type, type, a < b || a != a ? a : b); break;                                                \
    case MAP_MAXIMUM: EACH(type, type, a > b || a != a ? a : b); break;                                                \
    case MAP_NEGATIVE: EACH(type, type, -a); break;                                                                    \
    case MAP_ABS: EACH(type, type, fabs##suffix(a)); break;                                                            \
    case MAP_SIGN: EACH(type, type, a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a); break;                                   \
    case MAP_ISNAN: EACH(type, uint8_t, a != a); break;                                                                \
    case MAP_ISFINITE: EACH(type, uint8_t, fabs##suffix(a) < INFINITY); break;                                         \
    case MAP_FLOOR: EACH(type, type, floor##suffix(a)); break;                                                         \
    case MAP_CEIL: EACH(type, type, ceil##suffix(a)); break;                                                           \
    case MAP_RINT: EACH(type, type, rint##suffix(a)); break;                                                           \
    case MAP_SQRT: EACH(type, type, sqrt##suffix(a)); break;                                                           \
    case MAP_EXP: EACH(type, type, exp##suffix(a)); break;                                                             \
    case MAP_LOG: EACH(type, type, log##suffix(a)); break;                                                             \
    case MAP_LOG2: EACH(type, type, log2##suffix(a)); break;                                                           \
    case MAP_LOG10: EACH(type, type, log10##suffix(a)); break;                                                         \
    case MAP_SIN: EACH(type, type, sin##suffix(a)); break;                                                             \
    case MAP_COS: EACH(type, type, cos##suffix(a)); break;                                                             \
    case MAP_TAN: EACH(type, type, tan##suffix(a)); break;                                                             \
    case MAP_TANH: EACH(type, type, tanh##suffix(a)); break;

/* Sets each element to the second operand's if the first operand's is true, else to the third operand's. */
#define CHOOSE(type)                                                                                                   \
    do {                                                                                                               \
        const uint8_t *conditions = in[0];                                                                             \
        const type *yes = in[1], *no = in[2];                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)((type *)out)[i] = conditions[i] ? yes[i] : no[i];      \
    } while (0)

/* Sets each element of `out` to a constant. */
#define FILL(type, value)                                                                                              \
    do {                                                                                                               \
        const type one = (type)(value);                                                                                \
        for (int64_t i = 0; i < count; i++) ((type *)out)[i] = one;                                                    \
    } while (0)

/* Converts from the wide type `from` to the one of step->type. */
#define TO_WIDE(from, to_integer)                                                                                      \
    switch (wide_type_of(step->type)) {                                                                                \
    case WIDE_BOOL: EACH(from, uint8_t, a != 0); break;                                                                \
    case WIDE_INT: EACH(from, int64_t, to_integer(a)); break;                                                          \
    case WIDE_UINT: EACH(from, uint64_t, to_integer(a)); break;                                                        \
    case WIDE_FLOAT: EACH(from, float, a); break;                                                                      \
    case WIDE_DOUBLE: EACH(from, double, a); break;                                                                    \
    case WIDE_COUNT: break;                                                                                            \
    }

#define SAME(x) (x)

/* Fills a vector with the step's constant. */
CPU_BODY constant_body(const struct map_step *step, int64_t count, void *out) {
    switch (step->wide) {
    case WIDE_BOOL: FILL(uint8_t, step->integer); break;
    case WIDE_INT: FILL(int64_t, step->integer); break;
    case WIDE_UINT: FILL(uint64_t, step->integer); break;
    case WIDE_FLOAT: FILL(float, step->real); break;
    case WIDE_DOUBLE: FILL(double, step->real); break;
    case WIDE_COUNT: break;
    }
}

/* Casts a vector to the step's wide type; narrow_body then rounds it to the step's own type. */
CPU_BODY cast_body(const struct map_step *step, int64_t count, const void *const in[], void *out) {
    bool half = step->type == FLOAT16 || step->type == BFLOAT16;
    switch (step->wide) {
    case WIDE_BOOL: TO_WIDE(uint8_t, SAME); break;
    case WIDE_INT: TO_WIDE(int64_t, SAME); break;
    case WIDE_UINT: TO_WIDE(uint64_t, SAME); break;
    case WIDE_FLOAT: TO_WIDE(float, integer_of); break;
    case WIDE_DOUBLE:
        if (half) /* rounded to odd first, so that the second rounding is right */
            EACH(double, float, double_to_odd_float(a));
        else
            TO_WIDE(double, integer_of);
        break;
    case WIDE_COUNT: break;
    }
}

/* out[i] = in[0][i] ? in[1][i] : in[2][i]. Elements of 8 bytes are copied as uint64_t. */
CPU_BODY choose_body(enum wide_type wide, int64_t count, const void *const in[], void *out) {
    switch (wide) {
    case WIDE_BOOL: CHOOSE(uint8_t); break;
    case WIDE_FLOAT: CHOOSE(float); break;
    case WIDE_INT:
    case WIDE_UINT:
    case WIDE_DOUBLE: CHOOSE(uint64_t); break;
    case WIDE_COUNT: break;
    }
}

/* Five bodies, one for each wide type, compute a function of vectors of that type. */
CPU_BODY truths_body(enum map_function function, int64_t count, const void *const in[], void *out) {
    switch (function) {
        COMPARISONS(uint8_t)
    case MAP_AND:
    case MAP_MINIMUM: EACH(uint8_t, uint8_t, a & b); break;
    case MAP_OR:
    case MAP_MAXIMUM: EACH(uint8_t, uint8_t, a | b); break;
    case MAP_NOT: EACH(uint8_t, uint8_t, !a); break;
    default: break;
    }
}

CPU_BODY ints_body(enum map_function function, int64_t count, const void *const in[], void *out) {
    switch (function) {
        INTEGERS(int64_t)
    default: break;
    }
}

CPU_BODY uints_body(enum map_function function, int64_t count, const void *const in[], void *out) {
    switch (function) {
        INTEGERS(uint64_t)
    default: break;
    }
}

CPU_BODY floats_body(enum map_function function, int64_t count, const void *const in[], void *out) {
    switch (function) {
        FLOATS(float, f)
    default: break;
    }
}

CPU_BODY doubles_body(enum map_function function, int64_t count, const void *const in[], void *out) {
    switch (function) {
        FLOATS(double, )
    default: break;
    }
}
#undef b

// NOLINTBEGIN(bugprone-macro-parentheses,bugprone-signed-char-misuse): the arguments are types
/* Narrows values of a wide type to a smaller type: integers modulo 2^bits, floats rounded. */
#define NARROW(values, element)                                                                                        \
    do {                                                                                                               \
        values *wide = out;                                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) wide[i] = (element)wide[i];                            \
    } while (0)

/* Reduces values to the range and precision of their type; they stay stored in the wide type. */
CPU_BODY narrow_body(int type, int64_t count, void *out) {
    float *value = out;
    switch (type) {
    case INT8: NARROW(int64_t, int8_t); break;
    case INT16: NARROW(int64_t, int16_t); break;
    case INT32: NARROW(int64_t, int32_t); break;
    case UINT8: NARROW(int64_t, uint8_t); break;
    case UINT16: NARROW(int64_t, uint16_t); break;
    case UINT32: NARROW(int64_t, uint32_t); break;
    case FLOAT16:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) value[i] = float16_to_float(float_to_float16(value[i]));
        break;
    case BFLOAT16:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) value[i] = bfloat16_to_float(float_to_bfloat16(value[i]));
        break;
    default: break; /* is a wide type itself */
    }
}

/* Computes a step that is neither an input nor an index, for `count` elements, and rounds to the step's type. */
CPU_BODY step_vector_body(const struct map_step *step, int64_t count, const void *const in[], void *out) {
    if (step->function == MAP_CONSTANT) {
        constant_body(step, count, out);
        return;
    }
    if (step->function == MAP_CAST)
        cast_body(step, count, in, out);
    else if (step->function == MAP_WHERE)
        choose_body(step->wide, count, in, out);
    else
        switch (step->wide) {
        case WIDE_BOOL: truths_body(step->function, count, in, out); break;
        case WIDE_INT: ints_body(step->function, count, in, out); break;
        case WIDE_UINT: uints_body(step->function, count, in, out); break;
        case WIDE_FLOAT: floats_body(step->function, count, in, out); break;
        case WIDE_DOUBLE: doubles_body(step->function, count, in, out); break;
        case WIDE_COUNT: break;
        }
    narrow_body(step->type, count, out);
}
CPU_VERSIONS(step_vector, (const struct map_step *step, int64_t count, const void *const in[], void *out),
             (step, count, in, out))

void map_vector(const struct map_step *step, int64_t count, const void *const in[MAP_OPERANDS], void *out) {
    step_vector(step, count, in, out);
}

/* ---- elements -------------------------------------------------------------------------------------------------- */

/* Sets each element of `result` to `expression`, in which source[i] is the element of `elements`. */
#define ELEMENTS(from, to, expression)                                                                                 \
    do {                                                                                                               \
        const from *source = elements;                                                                                 \
        to *target = result;                                                                                           \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) target[i] = (to)(expression);                          \
    } while (0)

// NOLINTEND(bugprone-macro-parentheses,bugprone-signed-char-misuse)

/* Widens elements in memory: 16-bit floats to float, integers of less than 64 bits to int64. */
CPU_BODY load_body(enum dtype dtype, int64_t count, const void *elements, void *result) {
    switch (dtype) {
    case FLOAT32: memcpy(result, elements, (size_t)count * sizeof(float)); break;
    case FLOAT64:
    case INT64:
    case UINT64: memcpy(result, elements, (size_t)count * 8); break;
    case FLOAT16: ELEMENTS(uint16_t, float, float16_to_float(source[i])); break;
    case BFLOAT16: ELEMENTS(uint16_t, float, bfloat16_to_float(source[i])); break;
    case INT8: ELEMENTS(int8_t, int64_t, source[i]); break;
    case INT16: ELEMENTS(int16_t, int64_t, source[i]); break;
    case INT32: ELEMENTS(int32_t, int64_t, source[i]); break;
    case UINT8: ELEMENTS(uint8_t, int64_t, source[i]); break;
    case UINT16: ELEMENTS(uint16_t, int64_t, source[i]); break;
    case UINT32: ELEMENTS(uint32_t, int64_t, source[i]); break;
    case DTYPE_COUNT: break;
    }
}
CPU_VERSIONS(load, (enum dtype dtype, int64_t count, const void *elements, void *result),
             (dtype, count, elements, result))

/* The reverse of load_body: rounds floats, and keeps the low bits of integers. */
CPU_BODY store_body(enum dtype dtype, int64_t count, const void *elements, void *result) {
    switch (dtype) {
    case FLOAT32: memcpy(result, elements, (size_t)count * sizeof(float)); break;
    case FLOAT64:
    case INT64:
    case UINT64: memcpy(result, elements, (size_t)count * 8); break;
    case FLOAT16: ELEMENTS(float, uint16_t, float_to_float16(source[i])); break;
    case BFLOAT16: ELEMENTS(float, uint16_t, float_to_bfloat16(source[i])); break;
    case INT8:
    case UINT8: ELEMENTS(int64_t, uint8_t, source[i]); break;
    case INT16:
    case UINT16: ELEMENTS(int64_t, uint16_t, source[i]); break;
    case INT32:
    case UINT32: ELEMENTS(int64_t, uint32_t, source[i]); break;
    case DTYPE_COUNT: memcpy(result, elements, (size_t)count); break; /* truth values */
    }
}
CPU_VERSIONS(store, (enum dtype dtype, int64_t count, const void *elements, void *result),
             (dtype, count, elements, result))

void map_load(enum dtype dtype, int64_t count, const void *from, void *values) {
    load(dtype, count, from, values);
}

void map_store(enum dtype dtype, int64_t count, const void *values, void *to) {
    store(dtype, count, values, to);
}
