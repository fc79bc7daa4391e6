/* count_shim.c - preloaded by many_shards.py: counts what a process asks of the file system about paths that contain
 * COUNT_PATH, and at its end writes "CALL NUMBER" lines into the file COUNT_FILE. What costs a parallel file system are
 * these calls, each of which goes to its metadata server, not the bytes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum call { OPEN, CREATE, RENAME, UNLINK, MKDIR, RMDIR, STAT, LIST, ENTRY, LOCK, SYNC, CALLS };
static const char *const names[CALLS] = {"open", "create", "rename",  "unlink", "mkdir", "rmdir",
                                         "stat", "list",   "entries", "lock",   "sync"};
static atomic_int counts[CALLS];

static void count(enum call call, const char *path) {
    const char *about = getenv("COUNT_PATH");
    if (about && strstr(path, about)) counts[call]++;
}

static const char *path_of(int descriptor, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
    return path;
}

static void count_at(enum call call, int folder, const char *name) {
    char path[PATH_MAX], whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", *name == '/' || folder == AT_FDCWD ? "" : path_of(folder, path), name);
    count(call, whole);
}

static void count_of(enum call call, int descriptor) {
    char path[PATH_MAX];
    count(call, path_of(descriptor, path));
}

__attribute__((destructor)) static void write_counts(void) {
    const char *name = getenv("COUNT_FILE");
    unsetenv("COUNT_PATH");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (!file) return;
    for (int call = 0; call < CALLS; call++) fprintf(file, "%s %d\n", names[call], counts[call]);
    fclose(file);
}

/* The C library's own function of that name, called with the arguments. */
#define NEXT(result, name, parameters, ...) ((result(*) parameters)dlsym(RTLD_NEXT, name))(__VA_ARGS__)

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    bool there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    count(flags & O_CREAT && !there ? CREATE : OPEN, path);
    return NEXT(int, "open", (const char *, int, mode_t), path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}
FILE *fopen(const char *path, const char *how) {
    count(*how == 'r' ? OPEN : CREATE, path);
    return NEXT(FILE *, "fopen", (const char *, const char *), path, how);
}
FILE *fopen64(const char *path, const char *how) {
    return fopen(path, how);
}

int rename(const char *from, const char *to) {
    count(RENAME, to);
    return NEXT(int, "rename", (const char *, const char *), from, to);
}
int unlink(const char *path) {
    count(UNLINK, path);
    return NEXT(int, "unlink", (const char *), path);
}
int unlinkat(int folder, const char *name, int flags) {
    count_at(UNLINK, folder, name);
    return NEXT(int, "unlinkat", (int, const char *, int), folder, name, flags);
}
int mkdir(const char *path, mode_t mode) {
    count(MKDIR, path);
    return NEXT(int, "mkdir", (const char *, mode_t), path, mode);
}
int rmdir(const char *path) {
    count(RMDIR, path);
    return NEXT(int, "rmdir", (const char *), path);
}

int stat(const char *path, struct stat *about) {
    count(STAT, path);
    return NEXT(int, "stat", (const char *, struct stat *), path, about);
}
int lstat(const char *path, struct stat *about) {
    count(STAT, path);
    return NEXT(int, "lstat", (const char *, struct stat *), path, about);
}
int fstatat(int folder, const char *name, struct stat *about, int flags) {
    count_at(STAT, folder, name);
    return NEXT(int, "fstatat", (int, const char *, struct stat *, int), folder, name, about, flags);
}
int access(const char *path, int mode) {
    count(STAT, path);
    return NEXT(int, "access", (const char *, int), path, mode);
}
char *realpath(const char *path, char *resolved) {
    count(STAT, path);
    return NEXT(char *, "realpath", (const char *, char *), path, resolved);
}

DIR *opendir(const char *path) {
    count(LIST, path);
    return NEXT(DIR *, "opendir", (const char *), path);
}
struct dirent *readdir(DIR *folder) {
    struct dirent *entry = NEXT(struct dirent *, "readdir", (DIR *), folder);
    if (entry) count_of(ENTRY, dirfd(folder));
    return entry;
}

int flock(int descriptor, int operation) {
    count_of(LOCK, descriptor);
    return NEXT(int, "flock", (int, int), descriptor, operation);
}
int fsync(int descriptor) {
    count_of(SYNC, descriptor);
    return NEXT(int, "fsync", (int), descriptor);
}
