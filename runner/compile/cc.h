/* cc.h - compiles a C file with the machine's compiler ($CC, else cc) and loads it. */
#ifndef RUNNER_COMPILE_CC_H
#define RUNNER_COMPILE_CC_H

#include "../../kernels/core/status.h"

#define CC_MAX_MACROS 16

/* What is compiled. */
struct cc_source {
    const char *path;                  /* of the .c file, as messages show it */
    const char *kernel;                /* the function to find */
    const char *macros[CC_MAX_MACROS]; /* "-DT=float" */
    int macro_count;
};

/* A loaded function. */
struct cc_code {
    void *library; /* NULL: nothing is loaded */
    void *function;
};

/* Compiles, unless the cache has the code, and loads. STATUS_USAGE: a mistake in the file; the message is the
 * compiler's, which begins with FILE:LINE:COLUMN. STATUS_IO: there is no temporary folder. `warnings`: compiles even if
 * the cache has the code, and appends the compiler's warnings to *warnings, which the caller frees; NULL: they are not
 * wanted. The caller calls cc_code_free, also after an error. */
enum status cc_compile(const struct cc_source *source, char **warnings, struct cc_code *code, struct error *error);
void cc_code_free(struct cc_code *code);

#endif
