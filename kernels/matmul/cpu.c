/* matmul/cpu.c - the sequential triple loop: one thread, no blocks, no vectors. All other variants are compared with
 * it. */
#include "../core/float16.h"
#include "../core/kernel.h"

/* Rounds a product with alpha, which is computed in double, to float16: once, and with double's range before. */
static uint16_t float16_of(double value) {
    return float_to_float16(double_to_odd_float(value));
}
static uint16_t bfloat16_of(double value) {
    return float_to_bfloat16(double_to_odd_float(value));
}

/* Defines the function for one type. Sums are of type `sum_type`; LOAD converts an element to that type, STORE converts
 * a double to an element. */
#define TRIPLE_LOOP(name, element, sum_type, LOAD, STORE)                                                              \
    static void name(const struct matmul_args *args) {                                                                 \
        int64_t m = args->m, n = args->n, k = args->k;                                                                 \
        for (int64_t batch = 0; batch < args->batch; batch++) {                                                        \
            const element *a = (const element *)args->a + batch * args->a_batch_stride;                                \
            const element *b = (const element *)args->b + batch * args->b_batch_stride;                                \
            for (int64_t i = 0; i < m; i++)                                                                            \
                for (int64_t j = 0; j < n; j++) {                                                                      \
                    int64_t out = (batch * m + i) * n + j;                                                             \
                    sum_type sum = args->first ? 0 : ((sum_type *)args->partial)[out];                                 \
                    for (int64_t p = 0; p < k; p++)                                                                    \
                        sum += LOAD(a[args->transpose_a ? p * m + i : i * k + p]) *                                    \
                               LOAD(b[args->transpose_b ? j * k + p : p * n + j]);                                     \
                    if (args->last)                                                                                    \
                        ((element *)args->c)[out] = STORE(args->alpha * (double)sum);                                  \
                    else                                                                                               \
                        ((sum_type *)args->partial)[out] = sum;                                                        \
                }                                                                                                      \
        }                                                                                                              \
    }

TRIPLE_LOOP(multiply_float32, float, float, , (float))
TRIPLE_LOOP(multiply_float64, double, double, , )
TRIPLE_LOOP(multiply_float16, uint16_t, float, float16_to_float, float16_of)
TRIPLE_LOOP(multiply_bfloat16, uint16_t, float, bfloat16_to_float, bfloat16_of)

static int matmul_cpu_launch(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    switch (launch->dtype) {
    case FLOAT32: multiply_float32(args); break;
    case FLOAT64: multiply_float64(args); break;
    case FLOAT16: multiply_float16(args); break;
    case BFLOAT16: multiply_bfloat16(args); break;
    case INTEGER_TYPES:
    case DTYPE_COUNT: break; /* not among its dtypes */
    }
    return 0;
}

/* Predicts the time for `auto`, from times that were measured on a Zen 3 core at 3 GHz. */
static double matmul_cpu_seconds(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    return 0.25e-6 + (double)args->batch * (double)args->m * (double)args->n * (1.2e-9 + 1.0e-9 * (double)args->k);
}

KERNEL(matmul_cpu) = {
    .name = "cpu",
    .op = OP_MATMUL,
    .device = DEVICE_CPU,
    .summary = "the sequential triple loop",
    .dtypes = DTYPES_FLOAT,
    .edges = {{1}, {1}, {1}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .seconds = matmul_cpu_seconds,
    .launch = matmul_cpu_launch,
};
