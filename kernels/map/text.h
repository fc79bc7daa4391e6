/* text.h - a map's program as CUDA C, for a compiler at run time: functions for a kernel that stores the values
 * (compiled.cu) or reduces them (fused.cu). */
#ifndef KERNELS_MAP_TEXT_H
#define KERNELS_MAP_TEXT_H

#include "../core/loaded.h"
#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MAP_BLOCK 256 /* threads */

/* All that the text depends on besides the map: the types and the shape of a launch. */
struct map_form {
    enum dtype dtypes[KERNEL_INPUTS];
    unsigned loops[KERNEL_INPUTS];         /* as in struct map_args */
    bool has_result_layout[KERNEL_INPUTS]; /* the input has the result's layout */
    int axes[KERNEL_AXES];                 /* the loop of each axis */
    bool merged[KERNEL_AXES];              /* the axis is merged with others */
    int elements;                          /* of a vector; of the widest type it has 16 bytes at most */
    int reduction;                         /* number of the reduction in fused.cu; 0: none */
    int unroll;                            /* vectors that a thread has in flight; chosen by the variant */
    bool wide_index;                       /* the tile has 2^31 elements or more */
    bool rows;                             /* rows of the result consist of whole vectors */
    bool spares_l2;                        /* data used once leaves the L2 cache first: a repeated input stays in it */
};

/* The form of a launch; forms are compared as bytes. A vector has at most `max_elements` elements. */
struct map_form map_form(const struct map_args *args, int max_elements);

/* The first argument of the kernel: a copy of what the text declares as `arguments`. */
struct map_kernel_args {
    long long count, extent[3], start[3], stride[KERNEL_INPUTS][3];
    const void *x[KERNEL_INPUTS];
    void *y;
    long long inner[KERNEL_AXES], size[KERNEL_AXES], first[KERNEL_AXES];
    int aligned; /* all whole inputs and the result begin at multiples of 16 bytes */
    int zero;    /* 0 */
};
struct map_kernel_args map_kernel_args(const struct map_args *args);

/* The text, which the caller frees; NULL: no memory. It ends with `constants` and `kernel`, a kernel called `map`.
 * Before them it defines N (form->elements), BLOCK (MAP_BLOCK) and:
 *
 *     VALUE value(a, INDEX e)                   element e of the result, from 0 on in row-major order
 *     void load(a, INDEX k, loaded &in)         loads what elements k * N to k * N + N - 1 need...
 *     void values(a, k, in, VALUE (&value)[N])  ...and makes their values */
char *map_cuda_text(const struct map_program *program, const struct map_args *args, const struct map_form *form,
                    const char *constants, const char *kernel);
/* The type of an element in memory (MAP_BOOL: a byte), and the function that makes such an element of a VALUE. */
const char *map_memory_type(int type);
const char *map_storing(int type);

/* The compiler that the runner provides. NULL: there is none. */
struct map_compiler {
    /* Compiles the text for devices of this compute capability, and loads its kernel `map` on the current one. */
    enum status (*compile)(const char *text, int capability, struct loaded_kernel *loaded, struct error *error);
    const char *(*missing)(void); /* names what it lacks to compile; NULL: nothing */
};
extern const struct map_compiler *map_compiler;

#ifdef __cplusplus
}
#endif
#endif
