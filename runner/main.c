/* main.c - the command table: finds the command, runs it, prints its error and exits with its status. */
#include "base/fail.h"
#include "base/text.h"
#include "commands/help.h"
#include "record/environment.h"
#include "storage/untrusted/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if TILERUN_CUDA
#include <cuda_runtime_api.h>
#endif

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "commands/commands.def"
#undef COMMAND
};

static const struct exit_code exit_codes[] = {
    {0, "all done and verified"},
    {1, "a run failed or was wrong; compare, reproduce: a result is worse or slower"},
    {2, "bad usage, job or input"},
    {3, "reading or writing failed"},
    {4, "no such device, or it or the host is out of memory"},
    {75, "interrupted (--resume continues)"},
};
static const struct program program = {
    .commands = commands,
    .command_count = sizeof commands / sizeof commands[0],
    .summary = "Runs matrix jobs on GPUs: a YAML job file in, one HDF5 results file out.",
    .exit_codes = exit_codes,
    .exit_code_count = sizeof exit_codes / sizeof exit_codes[0],
};

static void print_version(void) {
    char hdf5[H5_VERSION_TEXT];
    h5_version(hdf5);
    printf("tilerun %s (%s)\n", tilerun_version, tilerun_git_commit);
#if TILERUN_CUDA
    printf("CUDA %d.%d, HDF5 %s\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, hdf5);
#else
    printf("no CUDA, HDF5 %s\n", hdf5);
#endif
}

static const struct command *find_command(const char *name, struct error *error) {
    const char *names[32];
    for (int i = 0; i < program.command_count; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
        names[i] = commands[i]->name;
    }
    const char *near = nearest_name(name, names, program.command_count);
    if (near)
        fail(error, STATUS_USAGE, "unknown command '%s' (did you mean '%s'?)", name, near);
    else
        fail(error, STATUS_USAGE, "unknown command '%s'; `tilerun --help` lists them", name);
    return NULL;
}

static enum status run_command(int argc, char **argv, struct error *error) {
    if (argc < 2) {
        help_print_program(&program, stderr);
        return STATUS_USAGE;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (help && argc == 2))
        return help_print_program(&program, stdout), STATUS_OK;
    if (strcmp(argv[1], "--version") == 0) return print_version(), STATUS_OK;
    /* For tests/generate.sh, which writes what configs/ holds of the table of keys. */
    if (strcmp(argv[1], "--print-schema") == 0) return job_print_schema(stdout), STATUS_OK;
    if (strcmp(argv[1], "--print-reference") == 0) return job_print_reference(stdout), STATUS_OK;
    /* For `make install`. */
    if (strcmp(argv[1], "--print-manual") == 0) return manual_print(&program, stdout), STATUS_OK;
    if (strcmp(argv[1], "--print-completion") == 0)
        return completion_print(&program, argc > 2 ? argv[2] : "", stdout, error);
    const struct command *command = find_command(argv[help ? 2 : 1], error);
    if (!command) return STATUS_USAGE;
    if (help) return help_print_command(command, stdout), STATUS_OK;
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return help_print_command(command, stdout), STATUS_OK;
    return command->run(argc - 1, argv + 1, error);
}

#define KEPT_BYTES (32 << 20)

/* Repairs what the process inherits from its caller, and sets up memory allocation. */
static void settle(void) {
    /* If descriptor 0, 1 or 2 were closed, the first file opened would get it, and output would be printed into that
     * file. */
    int descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
    if (descriptor >= 0) close(descriptor);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` then fails with an errno, which tells more than a signal */
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
}

/* Flushes stdout; STATUS_IO if anything printed was lost. */
static enum status finish_output(struct error *error) {
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed) return STATUS_OK;
    if (errno == 0) { /* the reason went with an earlier buffer: one more byte meets it again */
        putchar('\n');
        fflush(stdout);
    }
    return fail(error, STATUS_IO, "stdout: %s", errno ? strerror(errno) : "could not be written");
}

/* The first file that the command line names, or what an option says of one. */
static const char *first_operand(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (argv[i][0] != '-') return argv[i];
    return NULL;
}

int main(int argc, char **argv) {
    settle();
    fail_about(first_operand(argc, argv));
    fence_install();
    fence_exits();
    h5_prepare();
    struct error error = {0}, lost = {0};
    enum status status = run_command(argc, argv, &error);
    if (error.text[0]) text_say_lines(error.text);
    enum status printed = finish_output(&lost);
    if (printed) text_say_lines(lost.text);
    if (status == STATUS_OK) status = printed;
    fence_main_ends();
    return (int)(status == STATUS_MEMORY ? STATUS_DEVICE : status);
}
