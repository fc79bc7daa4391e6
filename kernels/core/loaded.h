/* loaded.h - kernels from code that was compiled at run time: loaded from memory and launched through the CUDA driver,
 * which is opened at run time. So this compiles without CUDA, and then finds no driver. */
#ifndef KERNELS_LOADED_H
#define KERNELS_LOADED_H

#include "status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel for any GPU of the process whose architecture its code is for. */
struct loaded_kernel {
    void *library, *kernel; /* a CUlibrary and a CUkernel; NULL: not loaded */
    int registers;          /* per thread */
    int local_bytes;        /* per thread, in the device's memory: spilled registers and arrays */
    int shared_bytes;       /* per block, without those that a launch asks for */
    int max_threads;        /* per block */
};

/* Loads a copy of a cubin and finds its kernel `name`, as the code spells that name. The thread must have set a device
 * (cudaSetDevice). The caller calls loaded_close, also after an error. STATUS_DEVICE: there is no driver, or the driver
 * refuses the code. */
enum status loaded_open(const void *cubin, size_t size, const char *name, struct loaded_kernel *loaded,
                        struct error *error);
void loaded_close(struct loaded_kernel *loaded);

/* Launches the kernel on the current device. `shared` is in bytes, and may exceed 48 KiB; `stream` is a cudaStream_t;
 * `args` points to pointers to the kernel's arguments. Returns 0 or a cudaError_t. */
int loaded_launch(const struct loaded_kernel *loaded, const unsigned grid[3], const unsigned block[3], size_t shared,
                  void *stream, void **args);
/* Returns the number of blocks of a launch that fit on a multiprocessor at once; 0: unknown. */
int loaded_blocks(const struct loaded_kernel *loaded, int threads, size_t shared);

#ifdef __cplusplus
}
#endif
#endif
