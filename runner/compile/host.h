/* host.h - compiles a C file with the machine's compiler ($CC, else cc) and loads it. */
#ifndef RUNNER_COMPILE_HOST_H
#define RUNNER_COMPILE_HOST_H

#include "../../kernels/core/status.h"

#define HOST_MAX_MACROS 16

struct host_source {
    const char *path;                    /* of the .c file, as messages show it */
    const char *kernel;                  /* the function to find */
    const char *macros[HOST_MAX_MACROS]; /* "-DT=float" */
    int macro_count;
};

/* A loaded function. */
struct host_code {
    void *library; /* NULL: none */
    void *function;
};

/* Compiles, unless the cache has it, and loads. STATUS_USAGE: a mistake in the file; the message is the compiler's,
 * which begins with FILE:LINE:COLUMN. `warnings`: compiles even if the cache has the code, and appends the compiler's
 * warnings, which the caller frees; NULL: not wanted. The caller calls host_code_free, also after an error. */
enum status host_compile(const struct host_source *source, char **warnings, struct host_code *code,
                         struct error *error);
void host_code_free(struct host_code *code);

#endif
