/* registry.c - every variant that was compiled in, in the order of registry.def. */
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
#define CPU(name) &(name),
#if TILERUN_CUDA
#define CUDA(name) &(name),
#else
#define CUDA(name)
#endif
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

int kernel_names(enum op op, const char *names[], int most) {
    /* A descriptor is called OPERATION_VARIANT. */
    static const char *const descriptors[] = {
#define CPU(name_)  #name_,
#define CUDA(name_) #name_,
#include "registry.def"
#undef CPU
#undef CUDA
    };
    size_t length = strlen(operations[op]->name);
    int count = 0;
    for (unsigned i = 0; i < sizeof descriptors / sizeof descriptors[0] && count < most; i++)
        if (strncmp(descriptors[i], operations[op]->name, length) == 0 && descriptors[i][length] == '_')
            names[count++] = descriptors[i] + length + 1;
    return count;
}

bool kernel_left_out(enum op op, const char *name) {
    const char *names[KERNELS_MOST];
    int count = kernel_names(op, names, KERNELS_MOST);
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return kernel_find(op, name) == NULL;
    return false;
}

size_t kernel_workspace(const struct kernel *kernel, const struct launch *launch) {
    return kernel->workspace ? kernel->workspace(launch) : 0;
}

bool kernel_same_bits(const struct kernel *kernel, const struct launch *one, const struct launch *other) {
    return kernel->divisible && (!kernel->way || kernel->way(one) == kernel->way(other));
}

const char *kernel_missing(const struct kernel *kernel) {
    return kernel->missing ? kernel->missing() : NULL;
}

const char *kernel_refusal(const struct kernel *kernel, const struct launch *launch) {
    const char *missing = kernel_missing(kernel);
    return missing || !kernel->refuses ? missing : kernel->refuses(launch);
}
