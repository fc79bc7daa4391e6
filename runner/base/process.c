/* process.c - prepares the process before main's work, and limits the time of its end. */
#include "process.h"

#include "host.h"
#include "interrupt.h"
#include "text.h"
#include "workers.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define KEPT_BYTES        (32 << 20)  /* the allocator keeps buffers up to this size when they are freed */
#define LOG_LINE_BYTES    (64 << 10)  /* longer lines of stdout are written in pieces */
#define STACK_BYTES       (8 << 20)   /* Linux's usual size */
#define MIN_STACK_BYTES   (512 << 10) /* enough for the kernels, which keep tiles on their stacks */
#define SMALL_GROUP_BYTES (256 << 20) /* up to this limit of a control group, stacks are small */
#define EXIT_S            5           /* for what libraries do at exit */

/* Is this entry of the environment a size of OpenMP's stacks that is too small for the kernels? The size is in KiB, or
 * has a unit. */
static bool is_small_stack(const char *entry) {
    const char *at = strstr(entry, "OMP_STACKSIZE="); /* also GOMP_STACKSIZE */
    if (!at || at > entry + 1) return false;
    char *unit;
    unsigned long long size = strtoull(at + strlen("OMP_STACKSIZE="), &unit, 10);
    unit += strspn(unit, " ");
    if (*unit == 'm' || *unit == 'M' || *unit == 'g' || *unit == 'G') return false;
    return size < (*unit == 'b' || *unit == 'B' ? MIN_STACK_BYTES : MIN_STACK_BYTES >> 10);
}

void process_prepare_first(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    interrupt_hold();
    char **kept = environment;
    for (; *environment; environment++)
        if (!is_small_stack(*environment)) *kept++ = *environment;
    *kept = NULL;
}

/* Prepares descriptors, signals, the number of files, memory allocation and OpenMP. */
static void prepare_system(void) {
    /* If descriptor 0, 1 or 2 were closed, the first file opened would get it, and output would be printed into that
     * file. */
    int descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
    if (descriptor >= 0) close(descriptor);
    /* In a log, stdout and stderr keep their order: each line of stdout is written whole, when it ends. */
    if (text_is_log()) setvbuf(stdout, NULL, _IOLBF, LOG_LINE_BYTES);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` then fails with an errno, which says why */
    signal(SIGCHLD, SIG_DFL); /* if the caller ignored it, no child's end could be learnt */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Verification allocates and frees buffers of 8 to 16 MiB for each box. The allocator keeps their pages: getting
     * new ones costs as much as the comparison. */
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * KEPT_BYTES);
#endif
    workers_limit_openmp();
}

/* Sets the size of the stacks of threads that start later. */
static void set_stacks(size_t bytes) {
    pthread_attr_t threads;
    if (pthread_attr_init(&threads) != 0) return;
    if (pthread_attr_setstacksize(&threads, bytes) == 0) pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
}

/* Raises a small limit on stack size, as far as the hard limit allows. The limit holds for the main thread's stack and
 * is the default size for other threads. STATUS_USAGE: the hard limit is too small. */
static enum status prepare_stacks(struct error *error) {
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_BYTES) return STATUS_OK;
    stack.rlim_cur = stack.rlim_max < STACK_BYTES ? stack.rlim_max : STACK_BYTES;
    setrlimit(RLIMIT_STACK, &stack);
    if (stack.rlim_cur < MIN_STACK_BYTES)
        return fail(error, STATUS_USAGE,
                    "stacks are limited to %lld KiB (`ulimit -s`), of which tilerun needs at least %d",
                    (long long)stack.rlim_cur >> 10, MIN_STACK_BYTES >> 10);
    set_stacks(STACK_BYTES);
    return STATUS_OK;
}

/* In a small control group, lets allocations beyond its limit fail, which makes tiles smaller or ends in a message:
 * otherwise the system kills the process. Threads' stacks count as a whole, so they are small there. */
static void prepare_memory(void) {
    int64_t group = host_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    struct rlimit data;
    if (group > SMALL_GROUP_BYTES || getrlimit(RLIMIT_DATA, &data) != 0) return;
    rlim_t max_bytes = (rlim_t)(group - group / 8); /* the rest: pages of files, and of the kernel */
    if (max_bytes < data.rlim_cur) data.rlim_cur = max_bytes;
    setrlimit(RLIMIT_DATA, &data);
    set_stacks(MIN_STACK_BYTES);
}

enum status process_prepare(struct error *error) {
    enum status status = prepare_stacks(error);
    prepare_system();
    prepare_memory();
    return status;
}

static atomic_int results_descriptor = STDOUT_FILENO;

void process_divert_stdout(void) {
    static int copy = -1;
    fflush(stdout);
    if (copy < 0) copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) return;
    results_descriptor = copy;
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

void process_restore_stdout(void) {
    if (results_descriptor == STDOUT_FILENO) return;
    fflush(stdout);
    dup2(results_descriptor, STDOUT_FILENO);
    results_descriptor = STDOUT_FILENO; /* the copy stays open: the signals' thread may be writing to it */
}

int process_results_descriptor(void) {
    return results_descriptor;
}

static volatile sig_atomic_t exit_code;

static void exit_at_alarm(int number) {
    (void)number;
    _exit(exit_code);
}

void process_limit_exit(int code) {
    exit_code = code;
    signal(SIGALRM, exit_at_alarm);
    alarm(EXIT_S);
}
