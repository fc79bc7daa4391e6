/* transpose/cpu.c - the plain double loop: rows are read in order, columns written with a stride. */
#include "../core/kernel.h"

#define TRANSPOSE(element)                                                                                             \
    for (int64_t b = 0; b < args->batch; b++)                                                                          \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t c = 0; c < cols; c++)                                                                         \
    ((element *)args->y)[(b * cols + c) * rows + r] = ((const element *)args->x)[(b * rows + r) * cols + c]

static int transpose_cpu_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    int64_t rows = args->rows, cols = args->cols;
    switch (dtype_size(launch->dtype)) {
    case 1: TRANSPOSE(uint8_t); break;
    case 2: TRANSPOSE(uint16_t); break;
    case 4: TRANSPOSE(uint32_t); break;
    default: TRANSPOSE(uint64_t);
    }
    return 0;
}

KERNEL(transpose_cpu) = {
    .name = "cpu",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "the plain double loop",
    .dtypes = DTYPES_ALL,
    .edges = {{1}, {1}},
    .accuracy = ACCURACY_FULL,
    .launch = transpose_cpu_launch,
};
