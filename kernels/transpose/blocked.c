/* transpose/blocked.c - tiles that stay in the L1 cache, divided among threads.
 *
 * transpose/cpu.c's loop writes one element of a cache line and returns for the next one a whole row later, when the
 * line has left the cache. Here a tile of 64 x 64 is copied row by row into a local array, which is then read by
 * columns. Main memory is read and written in contiguous runs, even where rows a power of two apart would share one
 * cache set. */
#include "../core/cpu.h"

#define TILE 64

#define TRANSPOSE_TILE(element)                                                                                        \
    do {                                                                                                               \
        const element *x = (const element *)args->x + first;                                                           \
        element local[TILE][TILE];                                                                                     \
        for (int64_t r = 0; r < height; r++)                                                                           \
            for (int64_t c = 0; c < width; c++) local[r][c] = x[r * cols + c];                                         \
        for (int64_t c = 0; c < width; c++)                                                                            \
            for (int64_t r = 0; r < height; r++) ((element *)args->y)[to + c * rows + r] = local[r][c];                \
    } while (0)

static int transpose_blocked_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for collapse(3) num_threads(cpu_threads(launch))
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t row = 0; row < rows; row += TILE)
            for (int64_t col = 0; col < cols; col += TILE) {
                int64_t first = (b * rows + row) * cols + col, to = (b * cols + col) * rows + row;
                int64_t height = min_int64(TILE, rows - row), width = min_int64(TILE, cols - col);
                switch (launch->dtype) {
                case INT8:
                case UINT8: TRANSPOSE_TILE(uint8_t); break;
                case INT16:
                case UINT16:
                case FLOAT16:
                case BFLOAT16: TRANSPOSE_TILE(uint16_t); break;
                case INT32:
                case UINT32:
                case FLOAT32: TRANSPOSE_TILE(uint32_t); break;
                case INT64:
                case UINT64:
                case FLOAT64: TRANSPOSE_TILE(uint64_t); break;
                case DTYPE_COUNT: break;
                }
            }
    return 0;
}

KERNEL(transpose_blocked) = {
    .name = "blocked",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "by cache-sized tiles, several threads",
    .dtypes = DTYPES_ALL,
    .edges = {{TILE}, {TILE}},
    .accuracy = ACCURACY_FULL,
    .launch = transpose_blocked_launch,
};
