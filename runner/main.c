/* main.c - runs one command: parse, validate, run, print. */
#include "base/fail.h"
#include "base/host.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/workers.h"
#include "commands/help.h"
#include "compile/nvrtc.h"
#include "storage/untrusted/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Does the command line ask for the command's help, before `--`? */
static bool asks_for_help(int argc, char **argv) {
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static enum status parse(int argc, char **argv, struct invocation *invocation, struct error *error) {
    if (argc < 2) return help_print_program(commands, stderr), STATUS_USAGE;
    const struct command *command = about_find(argv[1]);
    bool help = asks_for_help(argc, argv);
    if (help) *invocation = (struct invocation){.command = about_find("help"), .operands = argv + 1, .count = !command};
    if (help) return STATUS_OK;
    if (!command) TRY(command_find(argv[1], &command, error));
    return command_parse(command, argc - 1, argv + 1, invocation, error);
}

#define KEPT_BYTES        (32 << 20)
#define LOG_LINE_BYTES    (64 << 10)
#define STACK_BYTES       (8 << 20)
#define MIN_STACK_BYTES   (512 << 10)
#define SMALL_GROUP_BYTES (256 << 20)
#define EXIT_S            5 /* for what libraries do at exit */

/* Repairs what the process inherits from its caller, and sets up memory allocation. */
static void prepare_process(void) {
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

/* Sets the size of the stacks of threads. */
static void set_stacks(size_t bytes) {
    pthread_attr_t threads;
    if (pthread_attr_init(&threads) != 0) return;
    if (pthread_attr_setstacksize(&threads, bytes) == 0) pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
}

/* Raises a small limit on stack size, as far as the hard limit allows. It limits the main thread's stack and is the
 * default for other threads. STATUS_USAGE: it stays too small. */
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

/* Flushes stdout; STATUS_IO if anything printed was lost. */
static enum status flush_output(struct error *error) {
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed) return STATUS_OK;
    if (errno == 0) { /* the errno went with an earlier buffer: writing one more byte sets it again */
        putchar('\n');
        fflush(stdout);
    }
    return fail(error, STATUS_IO, "stdout: %s", errno ? strerror(errno) : "could not be written");
}

/* Prints the error and flushes stdout; returns the exit code. */
static int print_outcome(enum status status, const struct error *error) {
    struct error lost = {.status = STATUS_OK};
    if (error->text[0]) text_print_message(error->text);
    enum status printed = flush_output(&lost);
    if (printed) text_print_message(lost.text);
    if (status == STATUS_OK) status = printed;
    return (int)(status == STATUS_MEMORY ? STATUS_DEVICE : status);
}

/* Is this entry of the environment a size of OpenMP's stacks that is too small for the kernels? It is in KiB, or has a
 * unit. */
static bool is_small_stack(const char *entry) {
    const char *at = strstr(entry, "OMP_STACKSIZE="); /* also GOMP_STACKSIZE */
    if (!at || at > entry + 1) return false;
    char *unit;
    unsigned long long size = strtoull(at + strlen("OMP_STACKSIZE="), &unit, 10);
    unit += strspn(unit, " ");
    if (*unit == 'm' || *unit == 'M' || *unit == 'g' || *unit == 'G') return false;
    return size < (*unit == 'b' || *unit == 'B' ? MIN_STACK_BYTES : MIN_STACK_BYTES >> 10);
}

/* Runs before the constructors of libraries, which take most of the time before main: blocks signals, and drops small
 * sizes from the environment, which OpenMP's constructor reads. */
static void prepare_first(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    interrupt_hold();
    char **kept = environment;
    for (; *environment; environment++)
        if (!is_small_stack(*environment)) *kept++ = *environment;
    *kept = NULL;
}

static void (*const run_first)(int, char **, char **) __attribute__((section(".preinit_array"), used)) = prepare_first;

static volatile sig_atomic_t exit_code;

static void end(int number) {
    (void)number;
    _exit(exit_code);
}

/* Ends the process even if a library hangs in its clean-up, as OpenBLAS does if its threads got no memory. */
static void limit_exit(int code) {
    exit_code = code;
    signal(SIGALRM, end);
    alarm(EXIT_S);
}

int main(int argc, char **argv) {
    struct invocation invocation = {.command = NULL};
    struct error error = {.status = STATUS_OK};
    char *words[argc + 1]; /* the parser reorders these, and provenance wants them as they were given */
    memcpy(words, argv, sizeof words);
    enum status status = prepare_stacks(&error);
    prepare_process();
    prepare_memory();
    fence_install();
    fence_catch_exits();
    if (!status) status = parse(argc, words, &invocation, &error);
    if (!status) status = command_validate(&invocation, &error);
    if (!status) {
        if (!invocation.command->stops_early) interrupt_release();
        fail_set_subject(invocation.count > 0 ? invocation.operands[0] : NULL);
        invocation.line = command_line(argc - 1, argv + 1);
        h5_prepare();
        map_compile_provide();
        status = invocation.command->run(&invocation, &error);
    }
    int code = print_outcome(status, &error);
    free(invocation.line);
    fence_allow_exit();
    limit_exit(code);
    return code;
}
