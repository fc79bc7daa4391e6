/* convert.c - converts rows of elements, by one vectorised loop for each pair of types. */
#include "convert.h"
#include "cpu.h"
#include "float16.h"

#include <math.h>
#include <string.h>

/* The analyser cannot see that every type fills the blocks below. */
// NOLINTBEGIN(clang-analyzer-core.*)

/* Sets each element of `to` to `expression`, in which `value` is the element of `from`. */
#define ROW(from_type, to_type, expression)                                                                            \
    do {                                                                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                      \
            from_type value = ((const from_type *)from)[i];                                                            \
            ((to_type *)to)[i] = (to_type)(expression);                                                                \
        }                                                                                                              \
    } while (0)

/* Converts elements of the types that float holds exactly, and INT32, which is rounded once. */
CPU_BODY convert_to_float_body(enum dtype dtype, const void *from, int64_t count, float *to) {
    switch (dtype) {
    case FLOAT16: ROW(uint16_t, float, float16_to_float(value)); break;
    case BFLOAT16: ROW(uint16_t, float, bfloat16_to_float(value)); break;
    case FLOAT32: memcpy(to, from, (size_t)count * sizeof *to); break;
    case INT8: ROW(int8_t, float, value); break;
    case UINT8: ROW(uint8_t, float, value); break;
    case INT16: ROW(int16_t, float, value); break;
    case UINT16: ROW(uint16_t, float, value); break;
    case INT32: ROW(int32_t, float, value); break;
    case FLOAT64:
    case INT64:
    case UINT32:
    case UINT64:
    case DTYPE_COUNT: break; /* never converted to float */
    }
}
CPU_FUNCTION(, convert_to_float, (enum dtype dtype, const void *from, int64_t count, float *to),
             (dtype, from, count, to))

/* Converts elements exactly; INT64 and UINT64 are rounded once. */
CPU_BODY convert_to_double_body(enum dtype dtype, const void *from, int64_t count, double *to) {
    switch (dtype) {
    case FLOAT32: ROW(float, double, value); break;
    case FLOAT64: memcpy(to, from, (size_t)count * sizeof *to); break;
    case FLOAT16: ROW(uint16_t, double, float16_to_float(value)); break;
    case BFLOAT16: ROW(uint16_t, double, bfloat16_to_float(value)); break;
    case INT8: ROW(int8_t, double, value); break;
    case INT16: ROW(int16_t, double, value); break;
    case INT32: ROW(int32_t, double, value); break;
    case INT64: ROW(int64_t, double, value); break;
    case UINT8: ROW(uint8_t, double, value); break;
    case UINT16: ROW(uint16_t, double, value); break;
    case UINT32: ROW(uint32_t, double, value); break;
    case UINT64: ROW(uint64_t, double, value); break;
    case DTYPE_COUNT: break;
    }
}
CPU_FUNCTION(, convert_to_double, (enum dtype dtype, const void *from, int64_t count, double *to),
             (dtype, from, count, to))

/* Converts to floats, rounded once to nearest, and to integers as dtype_store does. */
CPU_BODY convert_from_double_body(enum dtype dtype, const double *from, int64_t count, void *to) {
    switch (dtype) {
    case FLOAT32: ROW(double, float, value); break;
    case FLOAT64: memcpy(to, from, (size_t)count * sizeof *from); break;
    case FLOAT16: ROW(double, uint16_t, float_to_float16(double_to_odd_float(value))); break;
    case BFLOAT16: ROW(double, uint16_t, float_to_bfloat16(double_to_odd_float(value))); break;
    case INTEGER_TYPES:
        for (int64_t i = 0; i < count; i++) dtype_store(dtype, to, i, from[i]);
        break;
    case DTYPE_COUNT: break;
    }
}
CPU_FUNCTION(, convert_from_double, (enum dtype dtype, const double *from, int64_t count, void *to),
             (dtype, from, count, to))

/* Widens integers to 64 bits; UINT64 keeps its bit pattern. */
CPU_BODY convert_to_integer_body(enum dtype dtype, const void *from, int64_t count, int64_t *to) {
    switch (dtype) {
    case INT8: ROW(int8_t, int64_t, value); break;
    case INT16: ROW(int16_t, int64_t, value); break;
    case INT32: ROW(int32_t, int64_t, value); break;
    case UINT8: ROW(uint8_t, int64_t, value); break;
    case UINT16: ROW(uint16_t, int64_t, value); break;
    case UINT32: ROW(uint32_t, int64_t, value); break;
    case INT64:
    case UINT64: memcpy(to, from, (size_t)count * sizeof *to); break;
    case FLOAT_TYPES:
    case DTYPE_COUNT: break; /* no integers */
    }
}
CPU_FUNCTION(, convert_to_integer, (enum dtype dtype, const void *from, int64_t count, int64_t *to),
             (dtype, from, count, to))

/* Counts infinities: elements whose `bits`, after a shift by one that drops the sign, are the largest exponent and no
 * fraction. */
#define INFINITIES(type, bits)                                                                                         \
    do {                                                                                                               \
        _Pragma("omp simd reduction(+ : found)") for (int64_t i = 0; i < count; i++) found +=                          \
            (type)(((const type *)data)[i] << 1) == (type)(bits);                                                      \
    } while (0)

/* Sets *result to the number of infinite elements. */
CPU_BODY infinities_body(enum dtype dtype, const void *data, int64_t count, int64_t *result) {
    int64_t found = 0;
    switch (dtype) {
    case FLOAT16: INFINITIES(uint16_t, 0xf800); break;
    case BFLOAT16: INFINITIES(uint16_t, 0xff00); break;
    case FLOAT32: INFINITIES(uint32_t, 0xff000000); break;
    case FLOAT64: INFINITIES(uint64_t, 0xffe0000000000000); break;
    case INTEGER_TYPES:
    case DTYPE_COUNT: break;
    }
    *result = found;
}
CPU_VERSIONS(infinities, (enum dtype dtype, const void *data, int64_t count, int64_t *result),
             (dtype, data, count, result))

int64_t convert_infinities(enum dtype dtype, const void *data, int64_t count) {
    int64_t found;
    infinities(dtype, data, count, &found);
    return found;
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

#define BLOCK 512 /* elements that are widened at a time */

/* Can convert_to_float do the whole cast, with nothing to count? It is the usual cast, from the types of most files to
 * float32. */
static bool converts_at_once(enum dtype from_type, enum dtype to_type) {
    const unsigned types = DTYPE_BIT(INT8) | DTYPE_BIT(UINT8) | DTYPE_BIT(INT16) | DTYPE_BIT(UINT16) | DTYPE_BIT(INT32);
    return to_type == FLOAT32 && (types >> from_type & 1);
}

/* Adds to *overflowed the number of finite elements of `from` that are infinite in `to`. */
CPU_BODY count_overflows_body(const double *from, const double *to, int64_t count, int64_t *overflowed) {
    int64_t found = 0;
#pragma omp simd reduction(+ : found)
    for (int64_t i = 0; i < count; i++) found += fabs(from[i]) < INFINITY && fabs(to[i]) == INFINITY;
    *overflowed += found;
}
CPU_VERSIONS(count_overflows, (const double *from, const double *to, int64_t count, int64_t *overflowed),
             (from, to, count, overflowed))

/* Returns a float64 that rounds to a narrower float in the same way as the 64-bit integer does: an integer of more than
 * the 53 bits that float64 keeps is rounded to odd, in bit 11. */
static double odd_double(int64_t value, bool is_signed) {
    bool negative = is_signed && value < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
    return negative ? -(double)magnitude : (double)magnitude;
}

/* Converts up to BLOCK integers of type `from_type`, widened to 64 bits, to any type. Counts those that overflow a
 * 16-bit float or leave the range of an integer type. */
static void integers_to(enum dtype from_type, const int64_t *from, int64_t count, enum dtype to_type, void *to,
                        struct casts *casts) {
    bool is_signed = dtype_is_signed(from_type), to_signed = dtype_is_signed(to_type);
    double wide[BLOCK], back[BLOCK];
    switch (to_type) {
    case FLOAT64:
        for (int64_t i = 0; i < count; i++) ((double *)to)[i] = is_signed ? (double)from[i] : (double)(uint64_t)from[i];
        break;
    case FLOAT32:
        for (int64_t i = 0; i < count; i++) ((float *)to)[i] = is_signed ? (float)from[i] : (float)(uint64_t)from[i];
        break;
    case FLOAT16:
    case BFLOAT16:
        for (int64_t i = 0; i < count; i++) wide[i] = odd_double(from[i], is_signed);
        convert_from_double(to_type, wide, count, to);
        convert_to_double(to_type, to, count, back);
        count_overflows(wide, back, count, &casts->overflowed);
        break;
    case INTEGER_TYPES:
        for (int64_t i = 0; i < count; i++) {
            dtype_store_integer(to_type, to, i, from[i]);
            int64_t kept = dtype_load_integer(to_type, to, i);
            casts->wrapped += kept != from[i] || (is_signed != to_signed && kept < 0);
        }
        break;
    case DTYPE_COUNT: break;
    }
}

/* Returns an integral float64 modulo 2^64. */
static int64_t modulo(double value) {
    double rest = fabs(value) < 0x1p63 ? value : fmod(value, 0x1p64);
    if (fabs(rest) < 0x1p63) return (int64_t)rest;
    return (int64_t)(rest < 0 ? 0 - (uint64_t)-rest : (uint64_t)rest);
}

/* Converts to an integer type, towards zero; what is out of range as convert_elements says. Counts both changes. */
static void doubles_to_integers(const double *from, int64_t count, enum dtype to_type, void *to, struct casts *casts) {
    int bits = 8 * (int)dtype_size(to_type) - dtype_is_signed(to_type);
    double above = ldexp(1, bits), lowest = dtype_is_signed(to_type) ? -above : 0;
    for (int64_t i = 0; i < count; i++) {
        bool finite = fabs(from[i]) < INFINITY;
        double integer = finite ? trunc(from[i]) : 0;
        dtype_store_integer(to_type, to, i, modulo(integer));
        casts->wrapped += !finite || integer < lowest || integer >= above;
        casts->truncated += finite && integer != from[i];
    }
}

/* Converts up to BLOCK elements between two different types; counts the elements whose values change. */
static void convert_block(enum dtype from_type, const void *from, int64_t count, enum dtype to_type, void *to,
                          struct casts *casts) {
    double wide[BLOCK], back[BLOCK];
    int64_t integers[BLOCK];
    if (converts_at_once(from_type, to_type)) {
        convert_to_float(from_type, from, count, to);
    } else if (!dtype_is_float(from_type)) {
        convert_to_integer(from_type, from, count, integers);
        integers_to(from_type, integers, count, to_type, to, casts);
    } else {
        convert_to_double(from_type, from, count, wide);
        if (!dtype_is_float(to_type)) {
            doubles_to_integers(wide, count, to_type, to, casts);
            return;
        }
        convert_from_double(to_type, wide, count, to);
        if (dtype_largest(to_type) >= dtype_largest(from_type)) return;
        convert_to_double(to_type, to, count, back);
        count_overflows(wide, back, count, &casts->overflowed);
    }
}

void casts_add(struct casts *to, const struct casts *more) {
    to->overflowed += more->overflowed;
    to->wrapped += more->wrapped;
    to->truncated += more->truncated;
    to->rounded += more->rounded;
    to->missing += more->missing;
}

void convert_elements(enum dtype from_type, const void *from, int64_t count, enum dtype to_type, void *to,
                      struct casts *casts) {
    if (from_type == to_type) {
        memcpy(to, from, (size_t)count * dtype_size(to_type));
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK)
        convert_block(from_type, (const char *)from + at * (int64_t)dtype_size(from_type), min_int64(BLOCK, count - at),
                      to_type, (char *)to + at * (int64_t)dtype_size(to_type), casts);
}

// NOLINTEND(clang-analyzer-core.*)
