/* help.h - reads and prints the help texts of the commands, from which the manual page and the shells' completions are
 * made too.
 *
 * The form of `command.help`: an option a line, two spaces in front, `--name` or `-n, --name`, then a word for its
 * value if it takes one, then two spaces or more and what it does. Lines with four spaces or more in front continue the
 * option before. Other lines are paragraphs, which are filled; a line that is empty, has spaces in front or explains a
 * word in capitals ("SAME: ...") begins anew. A description that begins "a, b or c" names the values that there are; a
 * word with a capital letter among these (cuda:N) is a pattern. */
#ifndef RUNNER_COMMANDS_HELP_H
#define RUNNER_COMMANDS_HELP_H

#include "command.h"

#define HELP_NAME_BYTES 32

/* An option, or a paragraph. The texts are cut at these sizes. */
struct help_entry {
    char letter;                /* 'o' of `-o, --output`; '\0': none */
    char name[HELP_NAME_BYTES]; /* "output"; "": this is a paragraph */
    char value[32];             /* "FILE"; "": the option takes none */
    char text[2048];            /* what the option does, or the paragraph */
    char choices[256];          /* "auto plain none"; "": unknown */
    bool repeatable;            /* its description says "repeatable" */
};

/* Reads the entry at *help and moves *help past it; false at the end of the text. */
bool help_next(const char **help, struct help_entry *entry);

/* The name of the command's option that is most like the one given ("--repaet=3"); false: none is like it. */
bool help_nearest(const struct command *command, const char *given, char name[HELP_NAME_BYTES]);

/* Finishes a line of which `used` columns are printed: prints `text`, broken at spaces so that no line is longer than
 * 80 columns, with `indent` spaces before each further line, and a newline. */
void help_wrap(const char *text, int used, int indent, FILE *to);

/* What a word for an operand or an option's value stands for: "JOB", "FILE.html", "RESULTS...]". */
enum help_kind { HELP_OTHER, HELP_JOB, HELP_RESULTS, HELP_FILE, HELP_FOLDER, HELP_OPERATION, HELP_COMMAND };
enum help_kind help_kind(const char *word);
/* The same of the first operand in `command.arguments` that is known. */
enum help_kind help_operand(const struct command *command);

struct exit_code {
    int code;
    const char *meaning;
};

/* What main.c knows. */
struct program {
    const struct command *const *commands;
    int command_count;
    const char *summary; /* a sentence or two */
    const struct exit_code *exit_codes;
    int exit_code_count;
};

/* `tilerun --help`, `tilerun COMMAND --help`. */
void help_print_program(const struct program *program, FILE *to);
void help_print_command(const struct command *command, FILE *to);
/* The manual page, tilerun.1, in roff. */
void manual_print(const struct program *program, FILE *to);
/* The completion of a shell: bash, zsh or fish; STATUS_USAGE for another name. */
enum status completion_print(const struct program *program, const char *shell, FILE *to, struct error *error);

#endif
