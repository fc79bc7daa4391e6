/* help.c - prints `tilerun --help` and `tilerun COMMAND --help`. */
#include "help.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 80

const struct exit_code exit_codes[] = {
    {0, "all runs are done and verified"},
    {1,
     "a run failed, was wrong or took too long; compare, reproduce: a result is worse or slower; compare, show: no run "
     "matches --where"},
    {2, "bad usage, job or input"},
    {3, "reading or writing failed"},
    {4, "the device is missing, or it or the host is out of memory"},
    {75, "interrupted (--resume continues)"},
    {0, NULL},
};

void help_wrap(const char *text, int used, int indent, FILE *to) {
    for (bool first = true; *text; first = false) {
        unsigned long word = strcspn(text, " ");
        if (!first && used + 1 + (int)word > COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            used = indent;
        } else if (!first) {
            used += fprintf(to, " ");
        }
        used += fprintf(to, "%.*s", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

char *help_paragraph(const char **description) {
    const char *text = *description;
    if (!text || !*text) return NULL;
    unsigned long length = strcspn(text, "\n");
    *description = text + length + (text[length] == '\n');
    return must_printf("%.*s", (int)length, text);
}

/* Writes "-o, --output FILE" into `text`. Returns the text's length. */
static int names_of(const struct option_row *row, char text[80]) {
    char letter[8] = "";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    return snprintf(text, 80, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
                    row->argument ? row->argument : "");
}

void help_print_command(const struct command *command, FILE *to) {
    char names[80], *paragraph;
    OWNED char *usage = command_usage(command);
    fprintf(to, "usage: %s\n\n", usage);
    help_wrap(command->summary, 0, 0, to);
    int column = 0;
    for (const struct option_row *row = command->rows; row->name; row++) {
        int length = names_of(row, names) + 4;
        if (length > column) column = length;
    }
    if (column) fputc('\n', to);
    for (const struct option_row *row = command->rows; row->name; row++) {
        names_of(row, names);
        fprintf(to, "  %-*s", column - 2, names);
        help_wrap(row->help, column, column, to);
    }
    if (command->description) fputc('\n', to);
    for (const char *rest = command->description; (paragraph = help_paragraph(&rest));) {
        help_wrap(paragraph, 0, 0, to);
        free(paragraph);
    }
}

void help_print_program(const struct command *const list[], FILE *to) {
    fprintf(to, "usage: tilerun COMMAND [OPTION...] [FILE...]\n\n");
    help_wrap(PROGRAM_SUMMARY, 0, 0, to);
    fputc('\n', to);
    for (; *list; list++) {
        int used = fprintf(to, "  %-13s ", (*list)->name);
        help_wrap((*list)->summary, used, used, to);
    }
    fprintf(to, "\nRun `tilerun help COMMAND` for more, `tilerun --version` for the version.\n\nExit codes:\n");
    for (const struct exit_code *row = exit_codes; row->meaning; row++) {
        int used = fprintf(to, "  %2d  ", row->code);
        help_wrap(row->meaning, used, used, to);
    }
}
