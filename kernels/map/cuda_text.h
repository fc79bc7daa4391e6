/* cuda_text.h - writes a map's program as CUDA C, which is compiled at run time: functions for a kernel that stores the
 * values (compiled.cu) or reduces them (fused.cu). */
#ifndef KERNELS_MAP_CUDA_TEXT_H
#define KERNELS_MAP_CUDA_TEXT_H

#include "../core/loaded.h"
#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MAP_BLOCK 256 /* threads of a block */

/* All that the text depends on besides the map: the types and the shape of a launch. */
struct map_form {
    enum dtype dtypes[KERNEL_INPUTS];
    unsigned loops[KERNEL_INPUTS];         /* as in struct map_args */
    bool has_result_layout[KERNEL_INPUTS]; /* the input has the result's layout */
    int axes[KERNEL_AXES];                 /* the loop of each axis */
    bool merged[KERNEL_AXES];              /* the axis is merged with others */
    int elements;                          /* of a vector, which has 16 bytes at most, in the widest type too */
    int reduction;                         /* number of the reduction in fused.cu; 0: none */
    int unroll;                            /* vectors that a thread has in flight; chosen by the variant */
    bool wide_index;                       /* the tile has 2^31 elements or more */
    bool rows;                             /* rows of the result consist of whole vectors */
    bool spares_l2;                        /* data that is used once leaves L2 first, so that a repeated input stays */
};

/* The form of a launch; forms are compared as bytes. A vector has at most `max_elements` elements. */
struct map_form map_form(const struct map_args *args, int max_elements);

/* The first argument of the kernel, which the text declares alike as `struct arguments`. */
struct map_kernel_args {
    long long count;                    /* elements of the tile */
    long long extent[3], start[3];      /* of the tile, along each loop */
    long long stride[KERNEL_INPUTS][3]; /* of each input along each loop, in elements (map_strides) */
    const void *x[KERNEL_INPUTS];       /* the inputs */
    void *y;
    long long inner[KERNEL_AXES], size[KERNEL_AXES], first[KERNEL_AXES]; /* of each axis, as in struct map_axis */
    int aligned; /* all inputs and the result begin at multiples of 16 bytes */
    int zero;    /* 0, which the compiler cannot know: unknown_zero() in the text reads it */
};
/* The arguments for a launch. */
struct map_kernel_args map_kernel_args(const struct map_args *args);

/* Returns the text, which the caller frees; NULL: there is too little memory. The text ends with `constants` and
 * `kernel`, the text of a kernel called `map`. Before them it defines N (form->elements), BLOCK (MAP_BLOCK) and:
 *
 *     VALUE value(a, INDEX e)                   element e of the result, from 0 on in row-major order
 *     void load(a, INDEX k, loaded &in)         loads what elements k * N to k * N + N - 1 need...
 *     void values(a, k, in, VALUE (&value)[N])  ...and makes their values */
char *map_cuda_text(const struct map_program *program, const struct map_args *args, const struct map_form *form,
                    const char *constants, const char *kernel);
/* The type in CUDA C of an element in memory (MAP_BOOL: a byte). */
const char *map_memory_type(int type);
/* The name of the function in the text that makes an element in memory of a VALUE; "": C's conversion does. */
const char *map_storing(int type);

/* The compiler that the runner provides. NULL: there is none. */
struct map_compiler {
    /* Compiles the text for devices of this compute capability, and loads its kernel `map` on the current one. */
    enum status (*compile)(const char *text, int capability, struct loaded_kernel *loaded, struct error *error);
    const char *(*missing)(void); /* names what the compiler lacks; NULL: nothing */
};
extern const struct map_compiler *map_compiler; /* the runner sets it before the first launch */

#ifdef __cplusplus
}
#endif
#endif
