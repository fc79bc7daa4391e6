/* compiled.cuh - kernels that are compiled at run time for an expression, once a process. */
#ifndef KERNELS_MAP_COMPILED_CUH
#define KERNELS_MAP_COMPILED_CUH

#include "../core/launch.cuh"
#include "../core/map.h"
#include "text.h"

/* Names what is missing to compile them; NULL: nothing. */
const char *map_missing();
/* Sets *found to the kernel of map_cuda_text() for the current device, which it compiles if there is none yet.
 * `constants` must follow from the form. Returns 0 or a cudaError_t. */
int map_kernel(const struct map_args *args, const struct map_form *form, const char *constants, const char *kernel_text,
               const struct loaded_kernel **found);

#endif
