/* compiled.cuh - kernels that are compiled at run time for an expression, once per process. */
#ifndef KERNELS_MAP_COMPILED_CUH
#define KERNELS_MAP_COMPILED_CUH

#include "../core/launch.cuh"
#include "../core/map.h"
#include "cuda_text.h"

/* Names what is missing to compile kernels at run time; NULL: nothing. */
const char *map_missing();
/* Sets *found to the kernel of map_cuda_text() for the current device, after compiling it if there is none yet. Equal
 * forms must come with equal `constants` and `kernel_text`. Returns 0 or a cudaError_t. */
int map_kernel(const struct map_args *args, const struct map_form *form, const char *constants, const char *kernel_text,
               const struct loaded_kernel **found);

#endif
