/* my_transpose.c - y[b][c][r] = x[b][r][c] in blocks of HIGH x WIDE elements, so that the lines that a block of x is
 * written to stay in cache until they are full. search.yaml finds the fastest size. */
#include "tilerun.h"

int my_transpose(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    const int64_t rows = args->rows, cols = args->cols;
    for (int64_t batch = 0; batch < args->batch; batch++) {
        const T *x = (const T *)args->x + batch * rows * cols;
        T *y = (T *)args->y + batch * rows * cols;
#pragma omp parallel for num_threads(launch->multiprocessors) schedule(static)
        for (int64_t r0 = 0; r0 < rows; r0 += HIGH)
            for (int64_t c0 = 0; c0 < cols; c0 += WIDE)
                for (int64_t c = c0; c < c0 + WIDE && c < cols; c++)
                    for (int64_t r = r0; r < r0 + HIGH && r < rows; r++) y[c * rows + r] = x[r * cols + c];
    }
    return 0; /* no error */
}
