/* nvrtc_library.c - looks for NVRTC in CUDA_HOME, where the dynamic linker looks, and in /usr/local/cuda*. The driver
 * loads no code of a newer major version than its own, so a newer NVRTC is skipped. */
#include "nvrtc_library.h"

#include "../base/fail.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct nvrtc_library library;
static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
enum { NAMES = sizeof names / sizeof *names };

/* The highest major version of CUDA whose code the driver loads; 0: there is no driver. */
static int driver_major(void) {
    void *file = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays open: the runtime uses it too */
    int (*query)(int *version) = NULL;
    int version = 0;
    if (file) *(void **)&query = dlsym(file, "cuDriverGetVersion");
    return query && query(&version) == 0 ? version / 1000 : 0;
}

/* Looks up all functions in the open library. false: it lacks one, so it is too old. */
static bool resolve(void *file) {
    const struct {
        const char *name;
        void **function;
    } calls[] = {
        {"nvrtcGetErrorString", (void **)&library.error_text},
        {"nvrtcVersion", (void **)&library.version},
        {"nvrtcCreateProgram", (void **)&library.create},
        {"nvrtcDestroyProgram", (void **)&library.destroy},
        {"nvrtcAddNameExpression", (void **)&library.add_name},
        {"nvrtcGetLoweredName", (void **)&library.lowered_name},
        {"nvrtcCompileProgram", (void **)&library.compile},
        {"nvrtcGetProgramLogSize", (void **)&library.log_size},
        {"nvrtcGetProgramLog", (void **)&library.log},
        {"nvrtcGetCUBINSize", (void **)&library.cubin_size},
        {"nvrtcGetCUBIN", (void **)&library.cubin},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!(*calls[i].function = dlsym(file, calls[i].name))) return false;
    return true;
}

/* Adds a file or pattern to those that were tried. */
static void note_tried(const char *path) {
    size_t used = strlen(library.tried);
    snprintf(library.tried + used, sizeof library.tried - used, "%s%s", used ? ", " : "", path);
}

/* Sets library.include to the first of the usual folders that holds the toolkit's headers; those beside the library
 * `file` come first, because their version is the library's. It stays "" if none does. */
static void find_include_folder(const char *file) {
    char real[512] = "", *end;
    const char *home = getenv("CUDA_HOME");
    OWNED char *path = must_realpath(file);
    snprintf(real, sizeof real, "%s", path ? path : file);
    if ((end = strrchr(real, '/'))) *end = '\0';
    const struct {
        const char *root, *below;
    } folders[] = {
        {real, "/../include"}, {real, "/../../include"},        {real, "/../../cuda_runtime/include"},
        {home, "/include"},    {"/usr/local/cuda", "/include"}, {"/usr", "/include"},
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        OWNED char *folder = must_printf("%s%s", folders[i].root ? folders[i].root : "", folders[i].below);
        OWNED char *header = must_printf("%s/cuda_fp16.h", folder);
        if (folders[i].root && access(header, R_OK) == 0) {
            OWNED char *clean = must_realpath(folder);
            snprintf(library.include, sizeof library.include, "%s", clean ? clean : folder);
        }
        if (library.include[0]) return;
    }
}

/* Opens a file as the library, notes it among those tried, and finds the library's headers and identity. false: it
 * cannot be opened, is too old, or is newer than `max_major` (0: any). */
static bool try_file(const char *path, int max_major) {
    int major = 0, minor = 0;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open */
    note_tried(path);
    if (!file) return false;
    if (!resolve(file) || library.version(&major, &minor) != NVRTC_SUCCESS || (max_major && major > max_major)) {
        dlclose(file);
        return false;
    }
    Dl_info about = {.dli_fname = NULL};
    const char *where = dladdr(*(void **)&library.version, &about) && about.dli_fname ? about.dli_fname : path;
    find_include_folder(where);
    snprintf(library.identity, sizeof library.identity, "NVRTC %d.%d, %s, headers %s", major, minor, where,
             library.include[0] ? library.include : "none");
    return true;
}

/* Tries the names of the library in a folder. */
static bool try_folder(const char *folder, int max_major) {
    bool found = false;
    for (int i = 0; i < NAMES && !found; i++) {
        OWNED char *path = must_printf("%s/%s", folder, names[i]);
        if (access(path, R_OK) == 0) found = try_file(path, max_major);
    }
    return found;
}

/* Tries the folders that match a pattern, the last one in the order of names first: cuda-13 before cuda-12. */
static bool try_pattern(const char *pattern, int max_major) {
    glob_t matches;
    bool found = false;
    note_tried(pattern);
    if (glob(pattern, 0, NULL, &matches) == 0)
        for (size_t i = matches.gl_pathc; i > 0 && !found; i--) found = try_folder(matches.gl_pathv[i - 1], max_major);
    globfree(&matches);
    return found;
}

/* Tries the folders of a toolkit at `home`, which may be NULL. */
static bool try_home(const char *home, int max_major) {
    if (!home || !*home) return false;
    bool found = false;
    static const char *const below[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
    for (size_t i = 0; i < sizeof below / sizeof *below && !found; i++) {
        OWNED char *pattern = must_printf("%s/%s", home, below[i]);
        found = try_pattern(pattern, max_major);
    }
    return found;
}

/* Looks for the library, until one is found. */
static void library_load(void) {
    int max_major = driver_major();
    library.found = try_home(getenv("CUDA_HOME"), max_major);
    for (int i = 0; i < NAMES && !library.found; i++) library.found = try_file(names[i], max_major);
    if (!library.found) library.found = try_pattern("/usr/local/cuda*/lib64", max_major);
    if (!library.found) library.found = try_pattern("/usr/local/cuda*/targets/*/lib", max_major);
}

const struct nvrtc_library *nvrtc_library(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    return &library;
}
