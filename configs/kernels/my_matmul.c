/* my_matmul.c - C[b] = alpha * A[b] B[b] in blocks of TILE rows of B: a row of C is updated by TILE rows of B, which
 * stay in cache while the next rows of C need them. `tile` is swept by own-kernel.yaml. */
#include "tilerun.h"

int my_matmul(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const int64_t m = args->m, n = args->n, k = args->k;
    if (!T_IS_FLOAT || T_IS_BFLOAT16 || T_IS_FLOAT16 || args->transpose_a || args->transpose_b) return 1;
    for (int64_t batch = 0; batch < args->batch; batch++) {
        const T *a = (const T *)args->a + batch * args->a_batch_stride;
        const T *b = (const T *)args->b + batch * args->b_batch_stride;
        T *c = (T *)args->c + batch * m * n; /* for float32 and float64 the partial sums are in C, too */
#pragma omp parallel for num_threads(launch->multiprocessors) schedule(static)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n && args->first; j++) c[i * n + j] = 0;
        for (int64_t from = 0; from < k; from += TILE) {
            const int64_t to = from + TILE < k ? from + TILE : k;
#pragma omp parallel for num_threads(launch->multiprocessors) schedule(static)
            for (int64_t i = 0; i < m; i++)
                for (int64_t p = from; p < to; p++) {
                    const T factor = a[i * k + p];
#pragma omp simd
                    for (int64_t j = 0; j < n; j++) c[i * n + j] += factor * b[p * n + j];
                }
        }
#pragma omp parallel for num_threads(launch->multiprocessors) schedule(static)
        for (int64_t i = 0; i < m * n; i++)
            if (args->last) c[i] = (T)(args->alpha * c[i]);
    }
    return 0; /* no error */
}
