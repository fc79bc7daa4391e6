/* cpu.h - helps the CPU variants: chooses vector instructions at run time, and the number of threads of a launch. Also
 * has ceil_div and min_int64, for all C files. */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernel.h"
#include <omp.h>

/* CPU_VERSIONS(name, (int n, float *x), (n, x)) defines `static void name(int n, float *x)` from an inline function
 * name_body. The body is compiled for AVX-512, for AVX2 with FMA and for any processor; each call chooses one version.
 * A body's loops are marked `omp simd`. CPU_FUNCTION also takes the linkage: `static` or nothing. (GCC's target_clones
 * does the same, but only if ifunc works.) */
#define CPU_BODY static inline __attribute__((always_inline)) void
#ifdef __x86_64__
#define CPU_AVX512       __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define CPU_AVX2         __attribute__((target("avx2,fma")))
#define CPU_HAS_AVX512() (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#define CPU_HAS_AVX2()   (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are declarations
#define CPU_FUNCTION(linkage, name, parameters, arguments)                                                             \
    CPU_AVX512 static void name##_avx512 parameters {                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    CPU_AVX2 static void name##_avx2 parameters {                                                                      \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static void name##_any parameters {                                                                                \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    linkage void name parameters {                                                                                     \
        if (CPU_HAS_AVX512())                                                                                          \
            name##_avx512 arguments;                                                                                   \
        else if (CPU_HAS_AVX2())                                                                                       \
            name##_avx2 arguments;                                                                                     \
        else                                                                                                           \
            name##_any arguments;                                                                                      \
    }
#else
#define CPU_FUNCTION(linkage, name, parameters, arguments)                                                             \
    linkage void name parameters {                                                                                     \
        name##_body arguments;                                                                                         \
    }
#endif
// NOLINTEND(bugprone-macro-parentheses)
#define CPU_VERSIONS(name, parameters, arguments) CPU_FUNCTION(static, name, parameters, arguments)

/* Work, in elements or multiply-adds, that one thread does in the time that a parallel region takes to start and end.
 * With less work a region is slower, and on many cores its idle threads cost a multiple of the work. */
#define CPU_ALONE (INT64_C(1) << 17)
/* Like CPU_ALONE, but for work that is done once, by threads that sleep: waking 16 of them takes as long as 2^21
 * multiply-adds. */
#define CPU_ALONE_ONCE (INT64_C(1) << 21)

/* Returns the number of threads for a launch of `work`: 1 or all. For a number in between, libgomp would end the
 * threads that a smaller team leaves out, and start them again for the next team. */
static inline int cpu_threads(const struct launch *launch, double work) {
    if (work <= (double)CPU_ALONE) return 1;
    return launch->multiprocessors > 0 ? launch->multiprocessors : omp_get_max_threads();
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static inline int64_t min_int64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
