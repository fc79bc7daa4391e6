/* cpu.h - what the CPU variants share: vector instructions chosen at run time, and the number of threads of a
 * launch. */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernel.h"
#include <omp.h>

/* CPU_VERSIONS(name, (int n, float *x), (n, x)) defines `static void name(int n, float *x)` from an inline function
 * name_body. It is compiled for AVX-512, for AVX2 with FMA and for any processor; each call chooses. A body's loops are
 * marked `omp simd`. (GCC's target_clones does the same, but only where ifunc works.) */
#define CPU_BODY static inline __attribute__((always_inline)) void
#ifdef __x86_64__
#define CPU_AVX512       __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define CPU_AVX2         __attribute__((target("avx2,fma")))
#define CPU_HAS_AVX512() (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#define CPU_HAS_AVX2()   (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define CPU_VERSIONS(name, parameters, arguments)                                                                      \
    CPU_AVX512 static void name##_avx512 parameters {                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    CPU_AVX2 static void name##_avx2 parameters {                                                                      \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static void name##_any parameters {                                                                                \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static void name parameters {                                                                                      \
        if (CPU_HAS_AVX512())                                                                                          \
            name##_avx512 arguments;                                                                                   \
        else if (CPU_HAS_AVX2())                                                                                       \
            name##_avx2 arguments;                                                                                     \
        else                                                                                                           \
            name##_any arguments;                                                                                      \
    }
#else
#define CPU_VERSIONS(name, parameters, arguments)                                                                      \
    static void name parameters {                                                                                      \
        name##_body arguments;                                                                                         \
    }
#endif

static inline int cpu_threads(const struct launch *launch) {
    return launch->multiprocessors > 0 ? launch->multiprocessors : omp_get_max_threads();
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static inline int64_t min_int64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
