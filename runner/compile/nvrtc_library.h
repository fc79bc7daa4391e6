/* nvrtc_library.h - finds NVRTC and the toolkit's headers, for nvrtc.c alone. */
#ifndef RUNNER_NVRTC_LIBRARY_H
#define RUNNER_NVRTC_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum nvrtc_result { NVRTC_SUCCESS = 0, NVRTC_ERROR_INVALID_OPTION = 5, NVRTC_ERROR_COMPILATION = 6 };

/* The calls used here, as NVIDIA's nvrtc.h declares them. */
struct nvrtc_library {
    bool found;
    char identity[1200]; /* version, file and headers */
    char include[512];   /* the folder of the toolkit's headers; "": not found */
    char tried[1024];    /* the names and files that were tried */
    const char *(*error_text)(int result);
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *text, const char *name, int count, const char *const *texts,
                  const char *const *names);
    int (*destroy)(void **program);
    int (*add_name)(void *program, const char *name);
    int (*lowered_name)(void *program, const char *name, const char **lowered);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *text);
    int (*cubin_size)(void *program, size_t *size);
    int (*cubin)(void *program, char *bytes);
};

/* Opens the library at the first call; it stays open. `found` is false if there is none. */
const struct nvrtc_library *nvrtc_library(void);

#endif
