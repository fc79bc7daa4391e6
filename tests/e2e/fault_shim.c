/* fault_shim.c - preloaded by test_faults.py: one system call on the files under test fails, as told by the
 * environment.
 *
 *     FAULT_CALL    write | fsync | rename | fallocate | mmap | open
 *     FAULT_NTH     which of them (from 1); 0: none
 *     FAULT_ERRNO   with what
 *     FAULT_PATH    only calls on files whose path contains this count
 *     FAULT_MODE    once; full: from then on also every write that makes a file longer; all: every one from then on
 *     FAULT_COUNT   a file: how many there were is written there at the end */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    if (strcmp(call, setting("FAULT_CALL")) != 0 || !strstr(path, setting("FAULT_PATH"))) return false;
    int number = atomic_fetch_add(&calls, 1) + 1, nth = atoi(setting("FAULT_NTH"));
    const char *mode = setting("FAULT_MODE");
    if (nth == 0 || number < nth) return false;
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
