/* help.h - texts about the program, most of them made from the table of commands and the rows of their options. `list`
 * is `commands`, or another array that ends with NULL. */
#ifndef RUNNER_COMMANDS_HELP_H
#define RUNNER_COMMANDS_HELP_H

#include "command.h"

/* Returns the command for the first word of a command line, if that is `help`, `--help`, `--version` or one of the
 * hidden flags by which the build makes documents; else NULL. */
const struct command *about_find(const char *word);

#define PROGRAM_SUMMARY "Runs matrix jobs on GPUs: a YAML job file in, one HDF5 results file out."

struct exit_code {
    int code;
    const char *meaning; /* NULL ends the table */
};
extern const struct exit_code exit_codes[];

/* `tilerun --help` and `tilerun COMMAND --help`, at most 80 columns wide. */
void help_print_program(const struct command *const list[], FILE *to);
void help_print_command(const struct command *command, FILE *to);
/* Prints `text` after the `used` columns of a line that are printed already. Breaks it at spaces so that no line is
 * longer than 80 columns, indents each further line, and ends the last. */
void help_wrap(const char *text, int used, int indent, FILE *to);
/* The next paragraph of a command's description, which the caller frees; NULL: there is none. */
char *help_paragraph(const char **description);

/* The manual page, tilerun.1, in roff. */
void manual_print(const struct command *const list[], FILE *to);
/* The completion of a shell: bash, zsh or fish; STATUS_USAGE for another name. */
enum status completion_print(const struct command *const list[], const char *shell, FILE *to, struct error *error);

#endif
