/* blas_shim.c - a BLAS for test_blas.py, by plain loops: -DSGEMM and -DDGEMM give it one type's product each, and
 * -DSETTER=NAME the call that sets its threads. Whatever it is called with that a Fortran compiler's library would not
 * take ends the process. It writes the number of threads into the file BLAS_THREADS. */
#include <stdio.h>
#include <stdlib.h>

#define GEMM(name, real)                                                                                               \
    void name(const char *ta, const char *tb, const int *m, const int *n, const int *k, const void *alpha,             \
              const void *a, const int *lda, const void *b, const int *ldb, const void *beta, void *c, const int *ldc, \
              size_t length_a, size_t length_b) {                                                                      \
        const real *left = a, *right = b, by = *(const real *)alpha, before = *(const real *)beta;                     \
        const int turned_a = *ta == 'T', turned_b = *tb == 'T';                                                        \
        if (length_a != 1 || length_b != 1 || *lda < (turned_a ? *k : *m) || *ldb < (turned_b ? *n : *k) ||            \
            *ldc < *m || *lda < 1 || *ldb < 1)                                                                         \
            abort();                                                                                                   \
        for (int j = 0; j < *n; j++)                                                                                   \
            for (int i = 0; i < *m; i++) {                                                                             \
                real *to = (real *)c + (size_t)j * (size_t)*ldc + i, sum = 0;                                          \
                for (int p = 0; p < *k; p++)                                                                           \
                    sum += left[turned_a ? (size_t)i * (size_t)*lda + p : (size_t)p * (size_t)*lda + i] *              \
                           right[turned_b ? (size_t)p * (size_t)*ldb + j : (size_t)j * (size_t)*ldb + p];              \
                *to = by * sum + (before == 0 ? 0 : before * *to);                                                     \
            }                                                                                                          \
    }

#ifdef SGEMM
GEMM(sgemm_, float)
#endif
#ifdef DGEMM
GEMM(dgemm_, double)
#endif

#ifdef SETTER
void SETTER(int threads) {
    FILE *file = fopen(getenv("BLAS_THREADS"), "w");
    if (!file) abort();
    fprintf(file, "%d", threads);
    fclose(file);
}
#endif
