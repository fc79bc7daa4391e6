/* main.c - runs one command: parse, validate, run, print. */
#include "base/fail.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "base/text.h"
#include "commands/help.h"
#include "compile/nvrtc.h"
#include "storage/untrusted/fence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static void (*const run_first)(int, char **, char **)
    __attribute__((section(".preinit_array"), used)) = process_prepare_first;

int main(int argc, char **argv) {
    struct invocation invocation = {.command = NULL};
    struct error error = {.status = STATUS_OK};
    char *words[argc + 1]; /* the parser reorders these, and provenance wants them as they were given */
    memcpy(words, argv, sizeof words);
    enum status status = process_prepare(&error);
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
    process_limit_exit(code);
    return code;
}
