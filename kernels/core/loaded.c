/* loaded.c - calls the driver's functions for libraries of kernels (CUDA 12.0 and later; the runtime has them since
 * 12.8). The driver's error numbers are the runtime's too. */
#include "loaded.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

/* Some values of cuda.h's CUfunction_attribute. */
enum attribute { MAX_THREADS = 0, SHARED_BYTES = 1, LOCAL_BYTES = 3, REGISTERS = 4, MAX_DYNAMIC_SHARED = 8 };
enum { DYNAMIC_SHARED = 48 << 10 }; /* bytes that every launch may ask for */
enum { UNKNOWN_ERROR = 999 };       /* cudaErrorUnknown */

/* Functions of the driver with the types of NVIDIA's cuda.h. */
static struct driver {
    bool found;
    int (*init)(unsigned flags);
    int (*error_text)(int code, const char **text);
    int (*load)(void **library, const void *code, void *jit, void *jit_values, unsigned jit_count, void *options,
                void *option_values, unsigned option_count);
    int (*unload)(void *library);
    int (*find)(void **kernel, void *library, const char *name);
    int (*get)(int *value, int attribute, void *kernel, int device);
    int (*set)(int attribute, int value, void *kernel, int device);
    int (*get_device)(int *device);
    int (*function)(void **function, void *kernel);
    int (*occupancy)(int *blocks, void *function, int threads, size_t shared);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **args, void **extra);
} driver;

/* Opens the CUDA driver and finds its functions. driver.found: all of them exist, and the driver is initialized. */
static void driver_load(void) {
    void *file = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays open */
    const struct {
        const char *name;
        void **call;
    } calls[] = {
        {"cuInit", (void **)&driver.init},
        {"cuGetErrorString", (void **)&driver.error_text},
        {"cuLibraryLoadData", (void **)&driver.load},
        {"cuLibraryUnload", (void **)&driver.unload},
        {"cuLibraryGetKernel", (void **)&driver.find},
        {"cuKernelGetAttribute", (void **)&driver.get},
        {"cuKernelSetAttribute", (void **)&driver.set},
        {"cuCtxGetDevice", (void **)&driver.get_device},
        {"cuKernelGetFunction", (void **)&driver.function},
        {"cuOccupancyMaxActiveBlocksPerMultiprocessor", (void **)&driver.occupancy},
        {"cuLaunchKernel", (void **)&driver.launch},
    };
    driver.found = file != NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && driver.found; i++)
        driver.found = (*calls[i].call = dlsym(file, calls[i].name)) != NULL;
    driver.found = driver.found && driver.init(0) == 0;
}

static const struct driver *driver_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, driver_load);
    return &driver;
}

/* Reports that the driver cannot do `what` ("load the code of") with kernel `name`, unless its `code` is 0. */
static enum status check(int code, const char *what, const char *name, struct error *error) {
    const char *text = NULL;
    if (code == 0) return STATUS_OK;
    if (driver.error_text(code, &text) != 0 || !text) text = "unknown error";
    return fail(error, STATUS_DEVICE, "the driver cannot %s kernel '%s': %s", what, name, text);
}

/* Fills the numbers of *loaded, whose kernel is loaded already, as the current device has them. */
static enum status read_attributes(struct loaded_kernel *loaded, const char *name, struct error *error) {
    const struct {
        enum attribute attribute;
        int *value;
    } attributes[] = {
        {MAX_THREADS, &loaded->max_threads},
        {SHARED_BYTES, &loaded->shared_bytes},
        {LOCAL_BYTES, &loaded->local_bytes},
        {REGISTERS, &loaded->registers},
    };
    int device;
    TRY(check(driver.get_device(&device), "find the device of", name, error));
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        TRY(check(driver.get(attributes[i].value, attributes[i].attribute, loaded->kernel, device), "describe", name,
                  error));
    return STATUS_OK;
}

enum status loaded_open(const void *cubin, size_t size, const char *name, struct loaded_kernel *loaded,
                        struct error *error) {
    *loaded = (struct loaded_kernel){.library = NULL};
    if (!driver_open()->found || size == 0)
        return fail(error, STATUS_DEVICE, "no CUDA driver (libcuda.so.1 of CUDA 12 or later) can be opened");
    TRY(check(driver.load(&loaded->library, cubin, NULL, NULL, 0, NULL, NULL, 0), "load the code of", name, error));
    TRY(check(driver.find(&loaded->kernel, loaded->library, name), "find", name, error));
    return read_attributes(loaded, name, error);
}

void loaded_close(struct loaded_kernel *loaded) {
    if (loaded->library) driver.unload(loaded->library);
    *loaded = (struct loaded_kernel){.library = NULL};
}

int loaded_launch(const struct loaded_kernel *loaded, const unsigned grid[3], const unsigned block[3], size_t shared,
                  void *stream, void **args) {
    int device, code;
    if (!loaded->kernel) return UNKNOWN_ERROR;
    if (shared > DYNAMIC_SHARED) {
        if ((code = driver.get_device(&device)) != 0) return code;
        if ((code = driver.set(MAX_DYNAMIC_SHARED, (int)shared, loaded->kernel, device)) != 0) return code;
    }
    /* The driver accepts a CUkernel instead of a CUfunction, and takes the function of the current device. */
    return driver.launch(loaded->kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], (unsigned)shared,
                         stream, args, NULL);
}

int loaded_blocks(const struct loaded_kernel *loaded, int threads, size_t shared) {
    void *function;
    int blocks = 0;
    if (!loaded->kernel || driver.function(&function, loaded->kernel) != 0) return 0;
    return driver.occupancy(&blocks, function, threads, shared) == 0 ? blocks : 0;
}
