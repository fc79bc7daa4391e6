/* transpose/cpu.c - the plain double loop: rows are read in order, columns written with a stride. */
#include "../core/kernel.h"

/* Transposes all matrices; `element`: an unsigned type of the elements' size. */
#define TRANSPOSE(element)                                                                                             \
    for (int64_t b = 0; b < args->batch; b++)                                                                          \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t c = 0; c < cols; c++)                                                                         \
    ((element *)args->y)[(b * cols + c) * rows + r] = ((const element *)args->x)[(b * rows + r) * cols + c]

static int transpose_cpu_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    int64_t rows = args->rows, cols = args->cols;
    switch (launch->dtype) {
    case INT8:
    case UINT8: TRANSPOSE(uint8_t); break;
    case INT16:
    case UINT16:
    case FLOAT16:
    case BFLOAT16: TRANSPOSE(uint16_t); break;
    case INT32:
    case UINT32:
    case FLOAT32: TRANSPOSE(uint32_t); break;
    case INT64:
    case UINT64:
    case FLOAT64: TRANSPOSE(uint64_t); break;
    case DTYPE_COUNT: break;
    }
    return 0;
}

KERNEL(transpose_cpu) = {
    .name = "cpu",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "the plain double loop, one thread",
    .dtypes = DTYPES_ALL,
    .edges = {{1}, {1}},
    .accuracy = ACCURACY_FULL,
    .launch = transpose_cpu_launch,
};
