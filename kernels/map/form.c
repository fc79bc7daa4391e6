/* form.c - the form of a launch, for which a kernel is compiled (cuda_text.h), and the arguments of that kernel. */
#include "cuda_text.h"

#include <string.h>

const struct map_compiler *map_compiler;

/* The elements of a vector that has 16 bytes in the widest type. */
static int vector_elements(const struct map_args *args) {
    size_t widest = dtype_size(args->out);
    for (int i = 0; i < args->map->inputs; i++)
        if (dtype_size(args->dtypes[i]) > widest) widest = dtype_size(args->dtypes[i]);
    return 16 / (int)widest;
}

/* From this many bytes on, data that is read and written once would evict a repeated input from L2, so kernels ask L2
 * to keep the input. With that, a stack minus one matrix of 16 MiB runs at 0.86 of a copy's rate on an H100, else at
 * 0.68. */
#define SEEN_IN_L2 (1 << 20)

struct map_form map_form(const struct map_args *args, int max_elements) {
    enum { ALL_LOOPS = 7 };
    struct map_form form;
    memset(&form, 0, sizeof form); /* forms are compared as bytes, so padding must be equal too */
    int64_t count = args->extent[0] * args->extent[1] * args->extent[2];
    form.wide_index = count >= INT64_C(1) << 31;
    form.elements = vector_elements(args) < max_elements ? vector_elements(args) : max_elements;
    form.rows = args->extent[2] % form.elements == 0;
    for (int i = 0; i < KERNEL_AXES; i++) {
        const struct map_axis *axis = &args->axes[i];
        form.axes[i] = axis->loop;
        bool loop_leaves_axis = args->start[axis->loop] + args->extent[axis->loop] > axis->size;
        form.merged[i] = axis->inner > 1 || loop_leaves_axis;
    }
    for (int i = 0; i < args->map->inputs; i++) {
        form.dtypes[i] = args->dtypes[i];
        form.loops[i] = args->loops[i];
        form.has_result_layout[i] = map_has_result_layout(args, i);
        if (form.has_result_layout[i]) form.loops[i] = ALL_LOOPS;
        int64_t bytes = (int64_t)dtype_size(args->dtypes[i]);
        for (int loop = 0; loop < 3; loop++)
            if (form.loops[i] >> loop & 1) bytes *= args->extent[loop];
        if (!form.has_result_layout[i] && bytes >= SEEN_IN_L2) form.spares_l2 = true;
    }
    return form;
}

struct map_kernel_args map_kernel_args(const struct map_args *args) {
    struct map_kernel_args all = {.y = args->y, .aligned = (uintptr_t)args->y % 16 == 0};
    all.count = args->extent[0] * args->extent[1] * args->extent[2];
    for (int loop = 0; loop < 3; loop++) all.extent[loop] = args->extent[loop], all.start[loop] = args->start[loop];
    for (int i = 0; i < args->map->inputs; i++) {
        int64_t stride[3];
        map_strides(args, i, stride);
        for (int loop = 0; loop < 3; loop++) all.stride[i][loop] = stride[loop];
        all.x[i] = args->x[i];
        all.aligned = all.aligned && (uintptr_t)args->x[i] % 16 == 0;
    }
    for (int axis = 0; axis < KERNEL_AXES; axis++) {
        all.inner[axis] = args->axes[axis].inner;
        all.size[axis] = args->axes[axis].size;
        all.first[axis] = args->axes[axis].first;
    }
    return all;
}
