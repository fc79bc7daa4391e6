/* fault_shim.c - preloaded by faults.py: one system call on the files under test fails, or kills the process, as told
 * by the environment. Calls count from where main begins, of all threads and of the libraries too.
 *
 *     FAULT_CALL    write, fsync, rename, fallocate, mmap, open, unlink, truncate, mkdir, rmdir, chmod or flock; any:
 *                   all of these; read; or, with any path, malloc: it and its like; own: those that the program itself
 *                   asks for, or libc for it; thread; and of a shared CUDA runtime allocate, copy, launch, event
 *     FAULT_NTH     which of them (from 1); 0: none
 *     FAULT_ERRNO   with what
 *     FAULT_PATH    only calls on files whose path contains this count
 *     FAULT_MODE    once; full: from then on also every write that makes a file longer; all: every one from then on;
 *                   kill: the process gets SIGKILL instead of the call; short: that read gets half of the bytes
 *     FAULT_COUNT   a file: how many there were is written there at the failure and at the end
 *     FAULT_WHERE   a file: the stack of the call that failed is written there; NAME.crash gets that of a crash */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
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
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int calls;
static bool begun; /* main has */
static struct {
    const char *call, *mode, *path, *count, *where;
    int nth, number;
} told;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* Neither of these allocates memory. */
static void write_count(void) {
    char text[16];
    int length = snprintf(text, sizeof text, "%d", calls),
        file = (int)syscall(SYS_openat, AT_FDCWD, told.count, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0) return;
    syscall(SYS_write, file, text, length);
    syscall(SYS_close, file);
}

static void write_stack(const char *name) {
    static void *stack[64];
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0) return;
    backtrace_symbols_fd(stack, backtrace(stack, 64), file);
    syscall(SYS_close, file);
}

/* What the program's own handler leaves to the one before it. */
static void crash(int number) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s.crash", told.where);
    write_stack(name);
    signal(number, SIG_DFL);
    raise(number);
}

static int (*real_main)(int, char **, char **);

/* Where these objects are. */
static struct object { char *begin, *end; } program, shim, libc;

static bool is_in(const struct object *object, const void *address) {
    return (const char *)address >= object->begin && (const char *)address < object->end;
}

static int find_object(struct dl_phdr_info *about, size_t bytes, void *unused) {
    struct object found = {(char *)-1, NULL};
    (void)bytes, (void)unused;
    for (int i = 0; i < about->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &about->dlpi_phdr[i];
        char *begin = (char *)about->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD) continue;
        if (begin < found.begin) found.begin = begin;
        if (begin + part->p_memsz > found.end) found.end = begin + part->p_memsz;
    }
    if (is_in(&found, (void *)real_main)) program = found;
    if (is_in(&found, (void *)is_in)) shim = found;
    if (is_in(&found, dlsym(RTLD_NEXT, "getenv"))) libc = found;
    return 0;
}

static int main_with_faults(int count, char **arguments, char **environment) {
    void *stack[2];
    backtrace(stack, 2); /* the first one allocates memory */
    dl_iterate_phdr(find_object, NULL);
    told.call = setting("FAULT_CALL"), told.mode = setting("FAULT_MODE"), told.path = setting("FAULT_PATH");
    told.count = setting("FAULT_COUNT"), told.where = setting("FAULT_WHERE");
    told.nth = atoi(setting("FAULT_NTH")), told.number = atoi(setting("FAULT_ERRNO"));
    const struct sigaction action = {.sa_handler = crash, .sa_flags = SA_ONSTACK};
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    for (int i = 0; i < 4 && *told.where; i++) sigaction(numbers[i], &action, NULL);
    begun = true;
    return real_main(count, arguments, environment);
}

int __libc_start_main(int (*begin)(int, char **, char **), int count, char **arguments, void (*first)(void),
                      void (*last)(void), void (*loader)(void), void *stack) {
    typedef int function(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void),
                         void *);
    real_main = begin;
    return ((function *)dlsym(RTLD_NEXT, "__libc_start_main"))(main_with_faults, count, arguments, first, last, loader,
                                                               stack);
}

/* Is it this call's turn to fail? `extends`: a write that makes its file longer. */
static bool fails(const char *call, const char *path, bool extends) {
    if (!begun) return false;
    bool any = path && strcmp(told.call, "any") == 0 && strcmp(call, "read") != 0;
    if (!any && strcmp(told.call, call) != 0) return false;
    if (path && !strstr(path, told.path)) return false;
    int number = atomic_fetch_add(&calls, 1) + 1;
    if (told.nth == 0 || number < told.nth) return false;
    if (strcmp(told.mode, "kill") == 0) kill(getpid(), SIGKILL);
    if (number > told.nth && strcmp(told.mode, "all") != 0 && !(strcmp(told.mode, "full") == 0 && extends))
        return false;
    if (number == told.nth) write_count(), write_stack(told.where);
    errno = told.number;
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

__attribute__((destructor)) static void write_last_count(void) {
    if (begun) write_count();
}

/* What an instrumented program then writes about itself is not counted. */
void faults_end(void) {
    write_last_count();
    begun = false;
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

ssize_t write(int descriptor, const void *data, size_t bytes) {
    typedef ssize_t function(int, const void *, size_t);
    if (fails_on("write", descriptor, lseek(descriptor, 0, SEEK_CUR) + (off_t)bytes)) return -1;
    return NEXT(function *, "write")(descriptor, data, bytes);
}

/* How many bytes a read asks for; -1: it fails. */
static ssize_t asks(int descriptor, size_t bytes) {
    if (!fails_on("read", descriptor, 0)) return (ssize_t)bytes;
    return strcmp(told.mode, "short") == 0 ? (ssize_t)(bytes - bytes / 2) : -1;
}
ssize_t read(int descriptor, void *data, size_t bytes) {
    typedef ssize_t function(int, void *, size_t);
    ssize_t asked = asks(descriptor, bytes);
    return asked < 0 ? -1 : NEXT(function *, "read")(descriptor, data, (size_t)asked);
}
ssize_t pread(int descriptor, void *data, size_t bytes, off_t at) {
    typedef ssize_t function(int, void *, size_t, off_t);
    ssize_t asked = asks(descriptor, bytes);
    return asked < 0 ? -1 : NEXT(function *, "pread")(descriptor, data, (size_t)asked, at);
}
ssize_t pread64(int descriptor, void *data, size_t bytes, off_t at) {
    return pread(descriptor, data, bytes, at);
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

/* Of the locks of fcntl only those that are taken or left. */
int fcntl(int descriptor, int command, ...) {
    typedef int function(int, int, ...);
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    return locks && fails_on("flock", descriptor, 0) ? -1 : NEXT(function *, "fcntl")(descriptor, command, argument);
}
int fcntl64(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl(descriptor, command, argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *about, void *(*begin)(void *), void *argument) {
    typedef int function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return fails("thread", NULL, false) ? told.number
                                        : NEXT(function *, "pthread_create")(thread, about, begin, argument);
}

/* glibc's own names, since dlsym may allocate memory. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

/* Does the program itself ask for memory, or libc for it, not another library? */
static bool is_own(void *caller) {
    void *stack[12];
    if (!is_in(&libc, caller)) return is_in(&program, caller);
    int count = backtrace(stack, 12);
    for (int i = 0; i < count; i++)
        if (!is_in(&libc, stack[i]) && !is_in(&shim, stack[i])) return is_in(&program, stack[i]);
    return false;
}

static bool lacks_memory(void *caller) {
    if (!begun || strcmp(told.call, "own") != 0) return fails("malloc", NULL, false);
    return is_own(caller) && fails("own", NULL, false);
}

void *malloc(size_t bytes) {
    return lacks_memory(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    return lacks_memory(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    return lacks_memory(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    return lacks_memory(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    if (lacks_memory(__builtin_return_address(0))) return ENOMEM;
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

/* ---- the CUDA runtime: FAULT_ERRNO is the cudaError_t ------------------------------------------------------------ */

struct size {
    unsigned x, y, z;
};

static _Thread_local int last_error; /* of a call that failed here */

/* Defines a function of the runtime that fails as a call of that kind. */
#define CUDA(kind, name, parameters, arguments)                                                                        \
    int name parameters {                                                                                              \
        typedef int function parameters;                                                                               \
        return fails(kind, NULL, false) ? (last_error = told.number) : NEXT(function *, #name) arguments;              \
    }

int cudaGetLastError(void) {
    typedef int function(void);
    int here = last_error, there = NEXT(function *, "cudaGetLastError")();
    last_error = 0;
    return here ? here : there;
}

CUDA("allocate", cudaMalloc, (void **memory, size_t bytes), (memory, bytes))
CUDA("allocate", cudaHostRegister, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
CUDA("copy", cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream),
     (to, from, bytes, kind, stream))
CUDA("copy", cudaMemcpy2DAsync,
     (void *to, size_t pitch, const void *from, size_t old, size_t bytes, size_t rows, int kind, void *stream),
     (to, pitch, from, old, bytes, rows, kind, stream))
CUDA("copy", cudaMemsetAsync, (void *to, int value, size_t bytes, void *stream), (to, value, bytes, stream))
CUDA("launch", cudaLaunchKernel,
     (const void *kernel, struct size grid, struct size block, void **arguments, size_t shared, void *stream),
     (kernel, grid, block, arguments, shared, stream))
CUDA("launch", __cudaLaunchKernel,
     (const void *kernel, struct size grid, struct size block, void **arguments, size_t shared, void *stream),
     (kernel, grid, block, arguments, shared, stream))
CUDA("launch", cudaLaunchKernelExC, (const void *how, const void *kernel, void **arguments), (how, kernel, arguments))
CUDA("launch", cudaGraphLaunch, (void *graph, void *stream), (graph, stream))
CUDA("event", cudaEventCreateWithFlags, (void **event, unsigned flags), (event, flags))
CUDA("event", cudaEventRecord, (void *event, void *stream), (event, stream))
CUDA("event", cudaEventSynchronize, (void *event), (event))
CUDA("event", cudaEventElapsedTime, (float *milliseconds, void *from, void *to), (milliseconds, from, to))
CUDA("event", cudaStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags))
CUDA("event", cudaStreamSynchronize, (void *stream), (stream))
