/* scale/cpu.c - one pass over the elements: threads take blocks of PIECE elements, each a vectorised loop. */
#include "../core/cpu.h"
#include "../core/float16.h"

#define PIECE 8192 /* elements */

static inline uint16_t double_to_float16(double value) {
    return float_to_float16(double_to_odd_float(value));
}

static inline uint16_t double_to_bfloat16(double value) {
    return float_to_bfloat16(double_to_odd_float(value));
}

/* Computes y from x by `expression`, in which `value` is an element, and a and b are alpha and beta in the type
 * `arithmetic`, to which they are converted by way of the type `through`: negative integers become uint64_t through
 * int64_t. Arithmetic modulo 2^64 serves integers of either sign and any width. */
#define SCALE(element, arithmetic, through, expression)                                                                \
    do {                                                                                                               \
        arithmetic a = (arithmetic)(through)alpha, b = (arithmetic)(through)beta;                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                      \
            element value = ((const element *)x)[i];                                                                   \
            ((element *)y)[i] = (element)(expression);                                                                 \
        }                                                                                                              \
    } while (0)

/* Scales `count` elements. */
CPU_BODY scale_piece_body(enum dtype dtype, double alpha, double beta, int64_t count, const void *x, void *y) {
    switch (dtype) {
    case FLOAT32: SCALE(float, double, double, fma(a, value, b)); break;
    case FLOAT64: SCALE(double, double, double, fma(a, value, b)); break;
    case FLOAT16: SCALE(uint16_t, double, double, double_to_float16(fma(a, float16_to_float(value), b))); break;
    case BFLOAT16: SCALE(uint16_t, double, double, double_to_bfloat16(fma(a, bfloat16_to_float(value), b))); break;
    case INT8:
    case UINT8: SCALE(uint8_t, uint64_t, int64_t, a * value + b); break;
    case INT16:
    case UINT16: SCALE(uint16_t, uint64_t, int64_t, a * value + b); break;
    case INT32:
    case UINT32: SCALE(uint32_t, uint64_t, int64_t, a * value + b); break;
    case INT64:
    case UINT64: SCALE(uint64_t, uint64_t, int64_t, a * value + b); break;
    case DTYPE_COUNT: break;
    }
}
CPU_VERSIONS(scale_piece, (enum dtype dtype, double alpha, double beta, int64_t count, const void *x, void *y),
             (dtype, alpha, beta, count, x, y))

static int scale_cpu_launch(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    const char *x = args->x;
    char *y = args->y;
    int64_t size = (int64_t)dtype_size(launch->dtype);
#pragma omp parallel for num_threads(cpu_threads(launch, (double)args->count))
    for (int64_t start = 0; start < args->count; start += PIECE)
        scale_piece(launch->dtype, args->alpha, args->beta, min_int64(PIECE, args->count - start), x + start * size,
                    y + start * size);
    return 0;
}

KERNEL(scale_cpu) = {
    .name = "cpu",
    .op = OP_SCALE,
    .device = DEVICE_CPU,
    .summary = "one vectorised pass over the elements, several threads",
    .dtypes = DTYPES_ALL,
    .edges = {{PIECE}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .launch = scale_cpu_launch,
};
