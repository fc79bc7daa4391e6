/* cublas.cuh - opens the vendor's libraries, the baselines, at run time, so that neither the build nor a machine
 * without them needs them. Only their headers, which come with the toolkit, are compiled in. */
#ifndef KERNELS_CUBLAS_CUH
#define KERNELS_CUBLAS_CUH

#include "kernel.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>

/* Structures change size from one major version to the next, so only the headers' own major version is opened. */
#define TEXT_OF(number) #number
#define TEXT(macro)     TEXT_OF(macro)
#define CUBLAS_MAJOR    TEXT(CUBLAS_VER_MAJOR)
#define CUBLAS_DEVICES  16 /* devices whose handles are kept */

/* Opens the library called `name`, else the one at `path`; NULL if there is none. It stays open. */
inline void *cublas_open(const char *name, const char *path) {
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return file ? file : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Sets `function` to the library's function `name`. false: the library (NULL: none) lacks it, and `function` is
 * NULL. */
template <typename F> bool cublas_find(void *file, const char *name, F &function) {
    function = file ? reinterpret_cast<F>(dlsym(file, name)) : nullptr;
    return function != nullptr;
}

/* Names a library: "cuBLASLt 13.1.0, /usr/.../libcublasLt.so.13". `version` is the library's own number, and `function`
 * one of its functions. */
inline void cublas_name(const char *product, size_t version, const void *function, char name[512]) {
    const size_t major = version / 10000, minor = version / 100 % 100, patch = version % 100;
    Dl_info about = {};
    const char *file = dladdr(function, &about) && about.dli_fname ? about.dli_fname : "its file is unknown";
    snprintf(name, 512, "%s %zu.%zu.%zu, %s", product, major, minor, patch, file);
}

/* A launch returns a cudaError_t: the one nearest to `status`. */
inline cudaError_t cublas_error(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return cudaSuccess;
    case CUBLAS_STATUS_NOT_SUPPORTED: return cudaErrorNotSupported;
    case CUBLAS_STATUS_ALLOC_FAILED: return cudaErrorMemoryAllocation;
    case CUBLAS_STATUS_INVALID_VALUE: return cudaErrorInvalidValue;
    default: return cudaErrorUnknown;
    }
}

/* Both return from the function that uses them if the call fails, with a cudaError_t. */
#define CUBLAS(call)                                                                                                   \
    do {                                                                                                               \
        const cublasStatus_t status_ = (call);                                                                         \
        if (status_ != CUBLAS_STATUS_SUCCESS) return cublas_error(status_);                                            \
    } while (0)
#define CUDART(call)                                                                                                   \
    do {                                                                                                               \
        const cudaError_t code_ = (call);                                                                              \
        if (code_ != cudaSuccess) return code_;                                                                        \
    } while (0)

/* Refuses a launch that is only rehearsed under stream capture: there a library can neither start nor time
 * algorithms. */
inline cudaError_t cublas_can_run(const struct launch *launch) {
    cudaStreamCaptureStatus capture;
    CUDART(cudaStreamIsCapturing(static_cast<cudaStream_t>(launch->stream), &capture));
    return capture == cudaStreamCaptureStatusNone ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

#endif
