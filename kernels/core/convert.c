/* convert.c - rows of elements from one type to another; one vectorised loop for each pair. */
#include "convert.h"
#include "cpu.h"
#include "float16.h"

#include <string.h>

#define ROW(from_type, to_type, expression)                                                                            \
    do {                                                                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                      \
            from_type value = ((const from_type *)from)[i];                                                            \
            ((to_type *)to)[i] = (to_type)(expression);                                                                \
        }                                                                                                              \
    } while (0)

CPU_BODY to_float_body(enum dtype dtype, const void *from, int64_t count, float *to) {
    switch (dtype) {
    case FLOAT16: ROW(uint16_t, float, float16_to_float(value)); break;
    case BFLOAT16: ROW(uint16_t, float, bfloat16_to_float(value)); break;
    case FLOAT32: memcpy(to, from, (size_t)count * sizeof *to); break;
    case FLOAT64:
    case INTEGER_TYPES:
    case DTYPE_COUNT: break; /* not summed in float */
    }
}
CPU_VERSIONS(to_float, (enum dtype dtype, const void *from, int64_t count, float *to), (dtype, from, count, to))

CPU_BODY to_double_body(enum dtype dtype, const void *from, int64_t count, double *to) {
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
CPU_VERSIONS(to_double, (enum dtype dtype, const void *from, int64_t count, double *to), (dtype, from, count, to))

CPU_BODY from_double_body(enum dtype dtype, const double *from, int64_t count, void *to) {
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
CPU_VERSIONS(from_double, (enum dtype dtype, const double *from, int64_t count, void *to), (dtype, from, count, to))

CPU_BODY to_integer_body(enum dtype dtype, const void *from, int64_t count, int64_t *to) {
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
CPU_VERSIONS(to_integer, (enum dtype dtype, const void *from, int64_t count, int64_t *to), (dtype, from, count, to))

void convert_to_float(enum dtype dtype, const void *from, int64_t count, float *to) {
    to_float(dtype, from, count, to);
}

void convert_to_double(enum dtype dtype, const void *from, int64_t count, double *to) {
    to_double(dtype, from, count, to);
}

void convert_from_double(enum dtype dtype, const double *from, int64_t count, void *to) {
    from_double(dtype, from, count, to);
}

void convert_to_integer(enum dtype dtype, const void *from, int64_t count, int64_t *to) {
    to_integer(dtype, from, count, to);
}
