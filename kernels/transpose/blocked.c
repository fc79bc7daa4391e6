/* transpose/blocked.c - moves tiles that stay in the L1 cache; threads share the tiles.
 *
 * transpose/cpu.c's loop writes one element of a cache line and returns for the next one a whole row later, when the
 * line has left the cache. Here a tile of 64 x 64 is read by columns, so that each output row is written in one run.
 * The tile's rows stay in the L1 cache meanwhile. Rows that are a multiple of CONFLICT bytes apart would share a few
 * cache sets; they are first copied into a local array. */
#include "../core/cpu.h"
#include <string.h>

#define TILE     64
#define CONFLICT 2048 /* rows a multiple of this many bytes apart share cache sets */
#define LOW      16   /* tiles with fewer rows are read in order, as there is little to gain */

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
/* Transposes a tile of `height` rows, `cols` elements apart in x, to `width` rows that are `rows` elements apart in
 * y. */
#define TRANSPOSE_TILE(element)                                                                                        \
    static void transpose_##element(int64_t height, int64_t width, int64_t rows, int64_t cols,                         \
                                    const element *restrict x, element *restrict y) {                                  \
        element local[TILE * TILE];                                                                                    \
        if (height < LOW) {                                                                                            \
            for (int64_t r = 0; r < height; r++)                                                                       \
                for (int64_t c = 0; c < width; c++) y[c * rows + r] = x[r * cols + c];                                 \
            return;                                                                                                    \
        }                                                                                                              \
        if (cols * (int64_t)sizeof(element) % CONFLICT == 0) {                                                         \
            for (int64_t r = 0; r < height; r++) memcpy(local + r * TILE, x + r * cols, (size_t)width * sizeof *x);    \
            x = local, cols = TILE;                                                                                    \
        }                                                                                                              \
        for (int64_t c = 0; c < width; c++) {                                                                          \
            const element *from = x + c;                                                                               \
            element *to = y + c * rows;                                                                                \
            _Pragma("GCC unroll 8") for (int64_t r = 0; r < height; r++) to[r] = from[r * cols];                       \
        }                                                                                                              \
    }
TRANSPOSE_TILE(uint8_t)
TRANSPOSE_TILE(uint16_t)
TRANSPOSE_TILE(uint32_t)
TRANSPOSE_TILE(uint64_t)
/* Transposes the tile at hand. */
#define TILE_OF(element)                                                                                               \
    transpose_##element(height, width, rows, cols, (const element *)args->x + first, (element *)args->y + to)

// NOLINTEND(bugprone-macro-parentheses)

/* kernel->launch: a matrix of one row or column keeps its order; threads divide the tiles of the others. */
static int transpose_blocked_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    int64_t rows = args->rows, cols = args->cols;
    if (rows == 1 || cols == 1) {
        memcpy(args->y, args->x, (size_t)(args->batch * rows * cols) * dtype_size(launch->dtype));
        return 0;
    }
#pragma omp parallel for collapse(3) num_threads(cpu_threads(launch, (double)(args->batch * rows * cols)))
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t row = 0; row < rows; row += TILE)
            for (int64_t col = 0; col < cols; col += TILE) {
                int64_t first = (b * rows + row) * cols + col, to = (b * cols + col) * rows + row;
                int64_t height = min_int64(TILE, rows - row), width = min_int64(TILE, cols - col);
                switch (launch->dtype) {
                case INT8:
                case UINT8: TILE_OF(uint8_t); break;
                case INT16:
                case UINT16:
                case FLOAT16:
                case BFLOAT16: TILE_OF(uint16_t); break;
                case INT32:
                case UINT32:
                case FLOAT32: TILE_OF(uint32_t); break;
                case INT64:
                case UINT64:
                case FLOAT64: TILE_OF(uint64_t); break;
                case DTYPE_COUNT: break;
                }
            }
    return 0;
}

KERNEL(transpose_blocked) = {
    .name = "blocked",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "tiles that stay in the cache, several threads",
    .dtypes = DTYPES_ALL,
    .edges = {{TILE}, {TILE}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .roof_share = 0.5, /* measured on two Xeon cores: 0.24 to 0.78 */
    .launch = transpose_blocked_launch,
};
