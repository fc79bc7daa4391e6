/* nvrtc.h - compiles CUDA C at run time with NVIDIA's library NVRTC, which is opened at run time: neither the build nor
 * a machine without it needs it. */
#ifndef RUNNER_NVRTC_H
#define RUNNER_NVRTC_H

#include "../../kernels/core/status.h"

#include <stddef.h>

#define NVRTC_MAX_OPTIONS 32
#define NVRTC_MAX_HEADERS 8

/* What is compiled. The caller owns all texts. */
struct nvrtc_source {
    const char *name;   /* the file's path, as messages show it; `#include "x"` looks in its folder first */
    const char *text;   /* the CUDA C */
    const char *kernel; /* the __global__ function to find, "mine<float>"; NULL: its name is known, it is extern "C" */
    const char *options[NVRTC_MAX_OPTIONS]; /* for NVRTC, such as "-DTILE=32"; the architecture is added */
    int option_count;
    const char *header_names[NVRTC_MAX_HEADERS]; /* headers given as text, which are found before any file */
    const char *header_texts[NVRTC_MAX_HEADERS];
    int header_count;
    int capability; /* of the device, as in struct device_facts: 90 is 9.0 */
};

/* The code for one device. */
struct cubin {
    char *bytes; /* NULL: nothing is compiled yet */
    size_t size;
    char *kernel; /* the name of source->kernel inside the code; NULL: source->kernel was NULL */
    char *log;    /* the compiler's messages, with warnings; "": there are none */
};

/* Compiles to code for exactly this device: for sm_90a if NVRTC knows it, else for sm_90. The caller calls
 * cubin_free, also after an error. STATUS_USAGE: a mistake in the text; the message begins with FILE:LINE:COLUMN.
 * STATUS_DEVICE: there is no NVRTC, for which the message names the files that were tried, or it does not know the
 * device. Several threads may call nvrtc_compile at once. */
enum status nvrtc_compile(const struct nvrtc_source *source, struct cubin *cubin, struct error *error);
/* Appends the warnings of a log to `warnings`, in the format of errors. */
void nvrtc_warnings(const char *log, char **warnings);
void cubin_free(struct cubin *cubin);

/* NVRTC's version, file and the folder of the toolkit's headers, in one line: part of a cache's key. NULL: there is no
 * NVRTC, which `error` reports. */
const char *nvrtc_identity(struct error *error);
/* The folder of the toolkit's headers; NULL: no such folder was found. */
const char *nvrtc_include_folder(void);

/* Lets maps be compiled with NVRTC (kernels/map/cuda_text.h). Called before a GPU is used. */
void map_compile_provide(void);

#endif
