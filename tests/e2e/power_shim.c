/* power_shim.c - preloaded by power.py: appends to the file POWER_LOG what a process does in the folder POWER_PATH
 * and below, with the data, in the order in which it was done. A record is a struct record, the path (of a rename: the
 * old and the new one, a newline between them), then the data.
 *
 * What is written through a mapping is logged as one write when the mapping ends, or its file is synced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct record {
    char kind[8];          /* create, mkdir, rename, unlink, rmdir; write, size (truncated or extended); sync */
    uint64_t inode, at;    /* `at`: the offset, or the new size */
    uint64_t path, bytes;  /* how many of them follow */
    double time;           /* as the file system sets it */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* held while a call is done and logged */
static struct mapping {
    char *memory;
    size_t bytes;
    uint64_t inode, at;
} mappings[64];

/* The C library's own function of that name, called with the arguments. */
#define NEXT(result, name, parameters, ...) ((result(*) parameters)dlsym(RTLD_NEXT, name))(__VA_ARGS__)
/* Calls it, and logs it where that was a success. */
#define LOGGED(type, call, log)                                                                                        \
    pthread_mutex_lock(&mutex);                                                                                        \
    type done = call;                                                                                                  \
    if (done >= 0) log;                                                                                                \
    pthread_mutex_unlock(&mutex);                                                                                      \
    return done

static void put(int file, const void *data, size_t bytes) {
    for (const char *from = data; bytes > 0;) {
        long written = syscall(SYS_write, file, from, bytes);
        if (written <= 0) abort();
        from += written, bytes -= (size_t)written;
    }
}

static void append(const char *kind, uint64_t inode, const char *path, uint64_t at, const void *data, size_t bytes) {
    static int log = -1;
    struct timespec now;
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    if (log < 0) log = (int)syscall(SYS_openat, AT_FDCWD, getenv("POWER_LOG"), flags, 0666);
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    struct record record = {"", inode, at, strlen(path), bytes, (double)now.tv_sec + (double)now.tv_nsec * 1e-9};
    strncpy(record.kind, kind, sizeof record.kind);
    put(log, &record, sizeof record);
    put(log, path, record.path);
    put(log, data, bytes);
}

static bool is_ours(const char *path) {
    const char *folder = getenv("POWER_PATH");
    size_t length = folder ? strlen(folder) : 0;
    return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static uint64_t inode_at(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 ? about.st_ino : 0;
}

/* The file behind a descriptor, if it is ours; else 0. */
static uint64_t inode_of(int descriptor, char path[PATH_MAX]) {
    char link[64];
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
    return is_ours(path) && fstat(descriptor, &about) == 0 ? about.st_ino : 0;
}

static void log_of(const char *kind, int descriptor, uint64_t at, const void *data, size_t bytes) {
    char path[PATH_MAX];
    uint64_t inode = inode_of(descriptor, path);
    if (inode) append(kind, inode, "", at, data, bytes);
}

static void log_at(const char *kind, const char *path, uint64_t inode) {
    if (is_ours(path)) append(kind, inode, path, 0, "", 0);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    pthread_mutex_lock(&mutex);
    bool there = inode_at(path) != 0;
    int descriptor = NEXT(int, "open", (const char *, int, mode_t), path, flags, mode);
    if (descriptor >= 0 && flags & O_CREAT && !there) log_at("create", path, inode_at(path));
    if (descriptor >= 0 && flags & O_TRUNC && there) log_of("size", descriptor, 0, "", 0);
    pthread_mutex_unlock(&mutex);
    return descriptor;
}
int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}

int rename(const char *from, const char *to) {
    char both[2 * PATH_MAX];
    snprintf(both, sizeof both, "%s\n%s", from, to);
    LOGGED(int, NEXT(int, "rename", (const char *, const char *), from, to), log_at("rename", both, inode_at(to)));
}
int unlink(const char *path) {
    uint64_t inode = inode_at(path);
    LOGGED(int, NEXT(int, "unlink", (const char *), path), log_at("unlink", path, inode));
}
int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX], whole[2 * PATH_MAX];
    inode_of(folder, path);
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    uint64_t inode = inode_at(whole);
    LOGGED(int, NEXT(int, "unlinkat", (int, const char *, int), folder, name, flags), log_at("unlink", whole, inode));
}
int mkdir(const char *path, mode_t mode) {
    LOGGED(int, NEXT(int, "mkdir", (const char *, mode_t), path, mode), log_at("mkdir", path, inode_at(path)));
}
int rmdir(const char *path) {
    LOGGED(int, NEXT(int, "rmdir", (const char *), path), log_at("rmdir", path, 0));
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t at) {
    LOGGED(ssize_t, NEXT(ssize_t, "pwrite", (int, const void *, size_t, off_t), descriptor, data, bytes, at),
           log_of("write", descriptor, (uint64_t)at, data, (size_t)done));
}
ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off_t at) {
    return pwrite(descriptor, data, bytes, at);
}
ssize_t write(int descriptor, const void *data, size_t bytes) {
    LOGGED(ssize_t, NEXT(ssize_t, "write", (int, const void *, size_t), descriptor, data, bytes),
           log_of("write", descriptor, (uint64_t)(lseek(descriptor, 0, SEEK_CUR) - done), data, (size_t)done));
}

int ftruncate(int descriptor, off_t bytes) {
    LOGGED(int, NEXT(int, "ftruncate", (int, off_t), descriptor, bytes),
           log_of("size", descriptor, (uint64_t)bytes, "", 0));
}
int ftruncate64(int descriptor, off_t bytes) {
    return ftruncate(descriptor, bytes);
}
static void log_size(int descriptor) {
    struct stat about;
    if (fstat(descriptor, &about) == 0) log_of("size", descriptor, (uint64_t)about.st_size, "", 0);
}
int fallocate(int descriptor, int mode, off_t at, off_t bytes) {
    LOGGED(int, NEXT(int, "fallocate", (int, int, off_t, off_t), descriptor, mode, at, bytes), log_size(descriptor));
}
int fallocate64(int descriptor, int mode, off_t at, off_t bytes) {
    return fallocate(descriptor, mode, at, bytes);
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

void *mmap(void *where, size_t bytes, int protection, int flags, int descriptor, off_t at) {
    void *memory = NEXT(void *, "mmap", (void *, size_t, int, int, int, off_t), where, bytes, protection, flags,
                        descriptor, at);
    char path[PATH_MAX];
    struct stat about;
    bool writes = descriptor >= 0 && flags & MAP_SHARED && protection & PROT_WRITE && memory != MAP_FAILED;
    uint64_t inode = writes ? inode_of(descriptor, path) : 0;
    if (!inode || fstat(descriptor, &about) != 0) return memory;
    if (at + (off_t)bytes > about.st_size) abort(); /* what lies behind the end would not be logged */
    pthread_mutex_lock(&mutex);
    int slot = 0;
    while (mappings[slot].memory) slot++;
    mappings[slot] = (struct mapping){memory, bytes, inode, (uint64_t)at};
    pthread_mutex_unlock(&mutex);
    return memory;
}
void *mmap64(void *where, size_t bytes, int protection, int flags, int descriptor, off_t at) {
    return mmap(where, bytes, protection, flags, descriptor, at);
}

static void log_mappings(const void *memory, uint64_t inode) {
    for (struct mapping *it = mappings; it < mappings + 64; it++) {
        if (!it->memory || (it->memory != memory && it->inode != inode)) continue;
        append("write", it->inode, "", it->at, it->memory, it->bytes);
        if (it->memory == memory) it->memory = NULL;
    }
}

int munmap(void *memory, size_t bytes) {
    pthread_mutex_lock(&mutex);
    log_mappings(memory, 0);
    int done = NEXT(int, "munmap", (void *, size_t), memory, bytes);
    pthread_mutex_unlock(&mutex);
    return done;
}

static void log_sync(int descriptor) {
    char path[PATH_MAX];
    uint64_t inode = inode_of(descriptor, path);
    if (!inode) return;
    log_mappings(NULL, inode);
    append("sync", inode, path, 0, "", 0);
}
int fsync(int descriptor) {
    LOGGED(int, NEXT(int, "fsync", (int), descriptor), log_sync(descriptor));
}
int fdatasync(int descriptor) {
    LOGGED(int, NEXT(int, "fdatasync", (int), descriptor), log_sync(descriptor));
}
