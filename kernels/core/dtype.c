/* dtype.c - describes the element types, and loads and stores single elements as double or 64-bit integer. */
#include "float16.h"
#include "kernel.h"

static const struct {
    const char *name;
    size_t size;
    bool is_float, is_signed;
    double epsilon, smallest, largest;
} types[DTYPE_COUNT] = {
    [FLOAT32] = {"float32", 4, true, true, 0x1p-23, 0x1p-149, 0x1.fffffep127},
    [FLOAT64] = {"float64", 8, true, true, 0x1p-52, 0x1p-1074, 0x1.fffffffffffffp1023},
    [FLOAT16] = {"float16", 2, true, true, 0x1p-10, 0x1p-24, 0x1.ffcp15},
    [BFLOAT16] = {"bfloat16", 2, true, true, 0x1p-7, 0x1p-133, 0x1.fep127},
    [INT8] = {"int8", 1, false, true, 0, 0, 0},
    [INT16] = {"int16", 2, false, true, 0, 0, 0},
    [INT32] = {"int32", 4, false, true, 0, 0, 0},
    [INT64] = {"int64", 8, false, true, 0, 0, 0},
    [UINT8] = {"uint8", 1, false, false, 0, 0, 0},
    [UINT16] = {"uint16", 2, false, false, 0, 0, 0},
    [UINT32] = {"uint32", 4, false, false, 0, 0, 0},
    [UINT64] = {"uint64", 8, false, false, 0, 0, 0},
};

const char *dtype_name(enum dtype dtype) {
    return types[dtype].name;
}

size_t dtype_size(enum dtype dtype) {
    return types[dtype].size;
}

bool dtype_is_float(enum dtype dtype) {
    return types[dtype].is_float;
}

bool dtype_is_signed(enum dtype dtype) {
    return types[dtype].is_signed;
}

double dtype_epsilon(enum dtype dtype) {
    return types[dtype].epsilon;
}

double dtype_smallest(enum dtype dtype) {
    return types[dtype].smallest;
}

double dtype_largest(enum dtype dtype) {
    return types[dtype].largest;
}

/* The largest b for which the type represents all integers from 0 to 2^b - 1. */
static int integer_bits(enum dtype dtype) {
    return types[dtype].is_float ? 1 - ilogb(types[dtype].epsilon)
                                 : 8 * (int)types[dtype].size - types[dtype].is_signed;
}

bool dtype_holds(enum dtype wide, enum dtype narrow) {
    if (types[narrow].is_float && !types[wide].is_float) return false;
    if (types[narrow].is_float && types[wide].largest < types[narrow].largest) return false;
    bool holds_signs = types[wide].is_signed || !types[narrow].is_signed;
    return holds_signs && integer_bits(wide) >= integer_bits(narrow);
}

enum dtype dtype_common(enum dtype as, const enum dtype others[], int count) {
    const enum dtype candidates[] = {as, others[0], others[count - 1], FLOAT32};
    for (size_t c = 0; c < sizeof candidates / sizeof *candidates; c++) {
        bool holds = types[candidates[c]].is_float && dtype_holds(candidates[c], as);
        for (int i = 0; i < count; i++) holds = holds && dtype_holds(candidates[c], others[i]);
        if (holds) return candidates[c];
    }
    return FLOAT64;
}

double dtype_load(enum dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
    case FLOAT32: return ((const float *)data)[index];
    case FLOAT64: return ((const double *)data)[index];
    case FLOAT16: return float16_to_float(((const uint16_t *)data)[index]);
    case BFLOAT16: return bfloat16_to_float(((const uint16_t *)data)[index]);
    case UINT64: return (double)((const uint64_t *)data)[index];
    case INT8:
    case INT16:
    case INT32:
    case INT64:
    case UINT8:
    case UINT16:
    case UINT32: return (double)dtype_load_integer(dtype, data, index);
    case DTYPE_COUNT: break;
    }
    return NAN;
}

int64_t dtype_load_integer(enum dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
    case INT8: return ((const int8_t *)data)[index];
    case INT16: return ((const int16_t *)data)[index];
    case INT32: return ((const int32_t *)data)[index];
    case INT64:
    case UINT64: return ((const int64_t *)data)[index];
    case UINT8: return ((const uint8_t *)data)[index];
    case UINT16: return ((const uint16_t *)data)[index];
    case UINT32: return ((const uint32_t *)data)[index];
    case FLOAT_TYPES:
    case DTYPE_COUNT: break; /* not integers */
    }
    return 0;
}

/* Rounds to nearest, ties to even, then takes the value modulo 2^64; NaN and infinities become 0. */
static int64_t integer_of_double(double value) {
    if (!isfinite(value)) return 0;
    double whole = nearbyint(value);
    if (whole >= (double)INT64_MIN && whole < -(double)INT64_MIN) return (int64_t)whole;
    double modulo = fmod(whole, 0x1p64);
    return (int64_t)(uint64_t)(modulo < 0 ? modulo + 0x1p64 : modulo);
}

void dtype_store(enum dtype dtype, void *data, int64_t index, double value) {
    switch (dtype) {
    case FLOAT32: ((float *)data)[index] = (float)value; break;
    case FLOAT64: ((double *)data)[index] = value; break;
    case FLOAT16: ((uint16_t *)data)[index] = float_to_float16(double_to_odd_float(value)); break;
    case BFLOAT16: ((uint16_t *)data)[index] = float_to_bfloat16(double_to_odd_float(value)); break;
    case INTEGER_TYPES: dtype_store_integer(dtype, data, index, integer_of_double(value)); break;
    case DTYPE_COUNT: break;
    }
}

void dtype_store_integer(enum dtype dtype, void *data, int64_t index, int64_t value) {
    switch (dtype) {
    case INT8:
    case UINT8: ((uint8_t *)data)[index] = (uint8_t)value; break;
    case INT16:
    case UINT16: ((uint16_t *)data)[index] = (uint16_t)value; break;
    case INT32:
    case UINT32: ((uint32_t *)data)[index] = (uint32_t)value; break;
    case INT64:
    case UINT64: ((uint64_t *)data)[index] = (uint64_t)value; break;
    case FLOAT_TYPES:
    case DTYPE_COUNT: break; /* not integers */
    }
}
