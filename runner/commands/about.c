/* about.c - prints help and version and, for hidden flags, the documents that the build makes. */
#include "../record/environment.h"
#include "../storage/h5/h5.h"
#include "help.h"
#include <string.h>

#if TILERUN_CUDA
#include <cuda_runtime_api.h>
#endif

/* Prints help about a command, or about the program. */
static enum status print_help(const struct invocation *invocation, struct error *error) {
    const struct command *command;
    if (invocation->count == 0) return help_print_program(commands, stdout), STATUS_OK;
    TRY(command_find(invocation->operands[0], &command, error));
    help_print_command(command, stdout);
    return STATUS_OK;
}

/* Prints the versions of the program and of the libraries. */
static enum status print_version(const struct invocation *invocation, struct error *error) {
    char hdf5[H5_VERSION_TEXT];
    (void)invocation, (void)error;
    h5_version(hdf5);
    printf("tilerun %s (%s)\n", tilerun_version, tilerun_git_commit);
#if TILERUN_CUDA
    printf("CUDA %d.%d, HDF5 %s\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, hdf5);
#else
    printf("no CUDA, HDF5 %s\n", hdf5);
#endif
    return STATUS_OK;
}

/* Prints the schema, for tests/generate.sh. */
static enum status print_schema(const struct invocation *invocation, struct error *error) {
    (void)invocation, (void)error;
    job_print_schema(stdout);
    return STATUS_OK;
}

/* Prints the reference of the job file's keys, for tests/generate.sh. */
static enum status print_reference(const struct invocation *invocation, struct error *error) {
    (void)invocation, (void)error;
    job_print_reference(stdout);
    return STATUS_OK;
}

/* Prints the manual page, for `make install`. */
static enum status print_manual(const struct invocation *invocation, struct error *error) {
    (void)invocation, (void)error;
    manual_print(commands, stdout);
    return STATUS_OK;
}

/* Prints the completion script of a shell, for `make install`. */
static enum status print_completion(const struct invocation *invocation, struct error *error) {
    return completion_print(commands, invocation->count > 0 ? invocation->operands[0] : "", stdout, error);
}

#define FLAG(word, print)                                                                                              \
    { .name = (word), .operands = {"", WORD_OTHER, .max = -1}, .rows = no_options, .run = (print) }
static const struct command flags[] = {
    FLAG("help", print_help),
    FLAG("--help", print_help),
    FLAG("-h", print_help),
    FLAG("--version", print_version),
    FLAG("--print-schema", print_schema),
    FLAG("--print-reference", print_reference),
    FLAG("--print-manual", print_manual),
    FLAG("--print-completion", print_completion),
};

const struct command *about_find(const char *word) {
    for (unsigned long i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flags[i].name, word) == 0) return &flags[i];
    return NULL;
}
