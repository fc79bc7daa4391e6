/* fault_shim.c - preloaded by faults.py: one system call on the files under test fails, or kills the process, as told
 * by the environment.
 *
 *     FAULT_CALL    write | fsync | rename | fallocate | mmap | open | unlink | truncate | mkdir | rmdir | chmod | flock;
 *                   any: all of them
 *     FAULT_NTH     which of them (from 1); 0: none
 *     FAULT_ERRNO   with what
 *     FAULT_PATH    only calls on files whose path contains this count
 *     FAULT_MODE    once; full: from then on also every write that makes a file longer; all: every one from then on;
 *                   kill: the process gets SIGKILL instead of the call
 *     FAULT_COUNT   a file: how many there were is written there at the end */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* Is it this call's turn to fail? `extends`: a write that makes its file longer. */
static bool fails(const char *call, const char *path, bool extends) {
    const char *which = setting("FAULT_CALL"), *mode = setting("FAULT_MODE");
    if (strcmp(which, "any") != 0 && strcmp(which, call) != 0) return false;
    if (!strstr(path, setting("FAULT_PATH"))) return false;
    int number = atomic_fetch_add(&calls, 1) + 1, nth = atoi(setting("FAULT_NTH"));
    if (nth == 0 || number < nth) return false;
    if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
    if (number > nth && strcmp(mode, "all") != 0 && !(strcmp(mode, "full") == 0 && extends)) return false;
    errno = atoi(setting("FAULT_ERRNO"));
    return true;
}

static bool fails_on(const char *call, int descriptor, off_t end) {
    char link[64], path[PATH_MAX];
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return false;
    path[length] = '\0';
    return fails(call, path, fstat(descriptor, &about) == 0 && end > about.st_size);
}

__attribute__((destructor)) static void write_count(void) {
    FILE *file = *setting("FAULT_COUNT") ? fopen(setting("FAULT_COUNT"), "w") : NULL;
    if (!file) return;
    fprintf(file, "%d", calls);
    fclose(file);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

typedef ssize_t pwrite_function(int, const void *, size_t, off_t);
ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t at) {
    if (fails_on("write", descriptor, at + (off_t)bytes)) return -1;
    return NEXT(pwrite_function *, "pwrite")(descriptor, data, bytes, at);
}
ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off_t at) {
    return pwrite(descriptor, data, bytes, at);
}

typedef int descriptor_function(int);
int fsync(int descriptor) {
    return fails_on("fsync", descriptor, 0) ? -1 : NEXT(descriptor_function *, "fsync")(descriptor);
}

int ftruncate(int descriptor, off_t bytes) {
    typedef int function(int, off_t);
    return fails_on("truncate", descriptor, 0) ? -1 : NEXT(function *, "ftruncate")(descriptor, bytes);
}
int ftruncate64(int descriptor, off_t bytes) {
    return ftruncate(descriptor, bytes);
}

typedef int path_function(const char *);
int unlink(const char *path) {
    return fails("unlink", path, false) ? -1 : NEXT(path_function *, "unlink")(path);
}
int rmdir(const char *path) {
    return fails("rmdir", path, false) ? -1 : NEXT(path_function *, "rmdir")(path);
}
int unlinkat(int folder, const char *path, int flags) {
    typedef int function(int, const char *, int);
    return fails_on("unlink", folder, 0) ? -1 : NEXT(function *, "unlinkat")(folder, path, flags);
}

typedef int mode_function(const char *, mode_t);
int mkdir(const char *path, mode_t mode) {
    return fails("mkdir", path, false) ? -1 : NEXT(mode_function *, "mkdir")(path, mode);
}
int chmod(const char *path, mode_t mode) {
    return fails("chmod", path, false) ? -1 : NEXT(mode_function *, "chmod")(path, mode);
}

typedef int rename_function(const char *, const char *);
int rename(const char *from, const char *to) {
    return fails("rename", to, false) ? -1 : NEXT(rename_function *, "rename")(from, to);
}

typedef int fallocate_function(int, int, off_t, off_t);
int fallocate(int descriptor, int mode, off_t at, off_t bytes) {
    if (fails_on("fallocate", descriptor, at + bytes)) return -1;
    return NEXT(fallocate_function *, "fallocate")(descriptor, mode, at, bytes);
}
int fallocate64(int descriptor, int mode, off_t at, off_t bytes) {
    return fallocate(descriptor, mode, at, bytes);
}

typedef void *mmap_function(void *, size_t, int, int, int, off_t);
void *mmap(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    if (descriptor >= 0 && flags & MAP_SHARED && fails_on("mmap", descriptor, 0)) return MAP_FAILED;
    return NEXT(mmap_function *, "mmap")(at, bytes, protection, flags, descriptor, offset);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    return mmap(at, bytes, protection, flags, descriptor, offset);
}

typedef int open_function(const char *, int, ...);
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return fails("open", path, false) ? -1 : NEXT(open_function *, "open")(path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) {
    typedef FILE *function(const char *, const char *);
    return fails("open", path, false) ? NULL : NEXT(function *, "fopen")(path, mode);
}

int flock(int descriptor, int operation) {
    typedef int function(int, int);
    return fails_on("flock", descriptor, 0) ? -1 : NEXT(function *, "flock")(descriptor, operation);
}
