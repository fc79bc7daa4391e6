/* matmul/blas.c - calls this machine's BLAS, as a baseline: opens the library at run time, so that neither the build
 * nor a machine without BLAS needs one.
 *
 * The library is the one that TILERUN_BLAS names, else the first of OpenBLAS, MKL, BLIS and whatever the system calls
 * libblas, which may be the slow reference implementation. Its functions with the names of Fortran (sgemm_, dgemm_)
 * take matrices that are stored column by column. For them, our row-major C is the transpose C' = B' A', so the
 * operands change places and nothing moves in memory. The library gets as many threads as our own variants.
 *
 * BLAS has no 16-bit types. */
#include "../core/cpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sgemm_ or dgemm_: every argument is an address, and the lengths of the two texts come last, as compilers of Fortran
 * pass them. */
typedef void gemm_function(const char *transpose_a, const char *transpose_b, const int *m, const int *n, const int *k,
                           const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
                           const void *beta, void *c, const int *ldc, size_t length_a, size_t length_b);

static struct library {
    bool found;
    char why[256];  /* why it was not found */
    char name[512]; /* name, version and file; "": not open yet */
    gemm_function *sgemm, *dgemm;
    void (*set_threads)(int threads); /* NULL: the library has no such call */
} library;

/* Sets *function, a function pointer of any type, to the library's function `name`; NULL: the library lacks it. ISO C
 * forbids the conversion from a pointer to an object; POSIX allows it. */
static void find(void *file, const char *name, void *function) {
    *(void **)function = dlsym(file, name);
}

/* Sets library.name to the open library's product, version and file. Each product is recognized by the name of its call
 * for the version. A library without any of these calls is taken for the reference implementation, which computes one
 * element after the other. */
static void name_library(void *file) {
    char *(*openblas)(void) = NULL, *(*blis)(void) = NULL, version[128] = "";
    void (*mkl)(char *, int) = NULL;
    find(file, "openblas_get_config", (void *)&openblas);
    find(file, "bli_info_get_version_str", (void *)&blis);
    find(file, "MKL_Get_Version_String", (void *)&mkl);
    const char *product = openblas ? "" : blis ? "BLIS " : mkl ? "" : "reference BLAS (slow)";
    if (openblas)
        snprintf(version, sizeof version, "%s", openblas()); /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    if (blis) snprintf(version, sizeof version, "%s", blis());
    if (mkl) mkl(version, sizeof version - 1);
    for (char *end = version + strlen(version); end > version && end[-1] == ' ';) *--end = '\0';
    Dl_info about = {.dli_fname = NULL};
    char *path = dladdr(*(void **)&library.sgemm, &about) && about.dli_fname ? realpath(about.dli_fname, NULL) : NULL;
    snprintf(library.name, sizeof library.name, "%s%s, %s", product, version, path ? path : "its file is unknown");
    free(path);
}

/* Opens a library and finds its functions. false: it cannot be used; library.why then has the reason, worded for the
 * library that TILERUN_BLAS names. */
static bool try_library(const char *name) {
    static const char *const setters[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads",
                                          "bli_thread_set_num_threads"};
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays open */
    if (!file) {
        const char *words = dlerror();
        snprintf(library.why, sizeof library.why, "TILERUN_BLAS cannot be opened: %s", words ? words : name);
        return false;
    }
    snprintf(library.why, sizeof library.why, "the library that TILERUN_BLAS names is no BLAS");
    find(file, "sgemm_", (void *)&library.sgemm);
    find(file, "dgemm_", (void *)&library.dgemm);
    library.set_threads = NULL;
    for (size_t i = 0; i < sizeof setters / sizeof *setters && !library.set_threads; i++)
        find(file, setters[i], (void *)&library.set_threads);
    if (!library.sgemm || !library.dgemm) return false;
    name_library(file);
    return true;
}

/* Opens the library that TILERUN_BLAS names, else the first that this machine has, and fills `library`. */
static void library_load(void) {
    static const char *const known[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libblis.so.4", "libblas.so.3"};
    const char *own = getenv("TILERUN_BLAS");
    if (own && *own) {
        library.found = try_library(own);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known && !library.found; i++) library.found = try_library(known[i]);
    snprintf(library.why, sizeof library.why, "no BLAS is installed here (OpenBLAS, MKL, BLIS or libblas.so.3)");
}

static const struct library *library_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    return &library;
}

/* The elements from one row of a matrix to the next; BLAS wants 1 of an empty one. */
static int pitch(int64_t columns) {
    return columns > 0 ? (int)columns : 1;
}

/* C = A B in the first launch over k; each later launch adds its product to C. Passes B' and A' (see above). */
static void multiply(const struct launch *launch) {
    static const float zero_float = 0, one_float = 1;
    static const double zero_double = 0, one_double = 1;
    const bool wide = launch->dtype == FLOAT64;
    const struct matmul_args *args = &launch->args.matmul;
    const int m = (int)args->m, n = (int)args->n, k = (int)args->k;
    const int lda = pitch(args->transpose_a ? m : k), ldb = pitch(args->transpose_b ? k : n);
    const void *zero = wide ? (const void *)&zero_double : &zero_float,
               *one = wide ? (const void *)&one_double : &one_float;
    const int64_t size = (int64_t)dtype_size(launch->dtype);
    gemm_function *gemm = wide ? library_open()->dgemm : library_open()->sgemm;
    for (int64_t batch = 0; batch < args->batch; batch++) {
        const char *a = (const char *)args->a + batch * args->a_batch_stride * size;
        const char *b = (const char *)args->b + batch * args->b_batch_stride * size;
        gemm(args->transpose_b ? "T" : "N", args->transpose_a ? "T" : "N", &n, &m, &k, one, b, &ldb, a, &lda,
             args->first ? zero : one, (char *)args->c + batch * args->m * args->n * size, &n, 1, 1 /* text lengths */);
    }
}

/* C = alpha * C, multiplied in double. The library could do it, but the reference implementation multiplies the
 * elements of an operand by alpha, and small ones then lose bits. */
static void scale(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const int64_t count = args->batch * args->m * args->n;
#pragma omp parallel for num_threads(cpu_threads(launch, (double)count))
    for (int64_t i = 0; i < count; i++)
        if (launch->dtype == FLOAT64)
            ((double *)args->c)[i] *= args->alpha;
        else
            ((float *)args->c)[i] = (float)(args->alpha * (double)((const float *)args->c)[i]);
}

static int matmul_blas_launch(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const struct library *blas = library_open();
    if (!blas->found) return 1;
    if (args->batch * args->m * args->n == 0) return 0;
    if (blas->set_threads) blas->set_threads(cpu_threads(launch, INFINITY)); /* the library decides how many it wakes */
    multiply(launch);
    if (args->last && args->alpha != 1) scale(launch);
    return 0;
}

static const char *matmul_blas_missing(void) {
    return library_open()->found ? NULL : library_open()->why;
}

static const char *matmul_blas_library(void) {
    return library.name[0] ? library.name : NULL;
}

static const char *matmul_blas_refuses(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    return args->m > INT_MAX || args->n > INT_MAX || args->k > INT_MAX ? "BLAS counts rows and columns in 32 bits"
                                                                       : NULL;
}

KERNEL(matmul_blas) = {
    .name = "blas",
    .op = OP_MATMUL,
    .device = DEVICE_CPU,
    .summary = "this machine's BLAS library; a baseline",
    .dtypes = DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT64),
    .edges = {{1}, {1}, {1}}, /* the library reports none */
    .accuracy = ACCURACY_FULL,
    .atomic_order = true, /* which library it is, and how it divides its work, may differ from run to run */
    .missing = matmul_blas_missing,
    .library = matmul_blas_library,
    .refuses = matmul_blas_refuses,
    .launch = matmul_blas_launch,
};
