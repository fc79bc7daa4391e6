/* registry.c - lists every variant of kernels/, in the order of registry.def; finds variants, and says why one cannot
 * run. A CUDA variant that this build did not compile has a descriptor without functions, which registry.awk
 * generates. */
#include "operation.h"
#include <stdio.h>
#include <string.h>

/* Only this file includes registry.def: a new line rebuilds nothing else. */
#define CPU(name)  DECLARE_KERNEL(name);
#define CUDA(name) DECLARE_KERNEL(name);
#include "registry.def"
#undef CPU
#undef CUDA

const struct kernel *const kernel_registry[] = {
#define CPU(name)  &(name),
#define CUDA(name) &(name),
#include "registry.def"
#undef CPU
#undef CUDA
};

const int kernel_count = sizeof kernel_registry / sizeof kernel_registry[0];

const struct kernel *kernel_find(enum op op, const char *name) {
    for (int i = 0; i < kernel_count; i++)
        if (kernel_registry[i]->op == op && strcmp(kernel_registry[i]->name, name) == 0) return kernel_registry[i];
    return NULL;
}

int kernel_names(enum op op, const char *names[], int max_count) {
    int count = 0;
    for (int i = 0; i < kernel_count && count < max_count; i++)
        if (kernel_registry[i]->op == op) names[count++] = kernel_registry[i]->name;
    return count;
}

const char *kernel_left_out(const struct kernel *kernel) {
#if TILERUN_CUDA && !TILERUN_SM90A
    if (kernel->only_below == 100) return "this build has no code for compute capability 9.0a (CUDA_ARCHS)";
#endif
    if (kernel->launch) return NULL;
    return TILERUN_CUDA ? "not in this build: run `make`" : "this build has no CUDA";
}

size_t kernel_workspace(const struct kernel *kernel, const struct launch *launch) {
    return kernel->workspace ? kernel->workspace(launch) : 0;
}

bool kernel_same_bits(const struct kernel *kernel, const struct launch *one, const struct launch *other) {
    return kernel->divisible && (!kernel->way || kernel->way(one) == kernel->way(other));
}

const char *kernel_missing(const struct kernel *kernel) {
    const char *left_out = kernel_left_out(kernel);
    return left_out || !kernel->missing ? left_out : kernel->missing();
}

const char *kernel_refusal(const struct kernel *kernel, const struct launch *launch) {
    const char *missing = kernel_missing(kernel);
    return missing || !kernel->refuses ? missing : kernel->refuses(launch);
}
