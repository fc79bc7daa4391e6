/* help.c - reads the commands' help texts, and prints `tilerun --help` and `tilerun COMMAND --help` within 80 columns.
 */
#include "help.h"
#include "../base/text.h"

#include <ctype.h>
#include <string.h>

#define COLUMNS 80

/* ---- reading ---- */

/* Appends `length` bytes of `from` to the text in `to`, as far as there is room. */
static void append(char *to, unsigned long size, const char *from, unsigned long length) {
    unsigned long used = strlen(to), room = size - used - 1;
    if (length > room) length = room;
    memcpy(to + used, from, length);
    to[used + length] = '\0';
}

#define APPEND(field, from, length) append(field, sizeof(field), from, (unsigned long)(length))

/* Does the word name a value? One with a capital letter is a pattern; anything else is prose. */
static bool is_choice(const char *word, unsigned long length, bool *pattern) {
    *pattern = false;
    if (length == 0) return false;
    for (unsigned long i = 0; i < length; i++) {
        if (!isalnum((unsigned char)word[i]) && !strchr("_:-", word[i])) return false;
        if (isupper((unsigned char)word[i])) *pattern = true;
    }
    return true;
}

/* Fills entry->choices from a description that begins "auto, plain or none": words with commas, "or", a last word. */
static void read_choices(struct help_entry *entry) {
    char found[sizeof entry->choices] = "";
    const char *at = entry->text;
    for (bool last = false;; at += strspn(at, ", ")) {
        unsigned long length = strcspn(at, " ,;.()");
        bool pattern;
        if (!is_choice(at, length, &pattern)) return;
        if (!pattern) {
            if (found[0]) APPEND(found, " ", 1);
            APPEND(found, at, length);
        }
        at += length;
        if (last) break;
        last = strncmp(at, " or ", 4) == 0 || strncmp(at, ", or ", 5) == 0;
        if (last)
            at = strstr(at, "or ") + 3;
        else if (*at != ',')
            return;
    }
    if (*at && !strchr(",;.:", *at) && strncmp(at, " (", 2) != 0) return;
    memcpy(entry->choices, found, sizeof found);
}

/* Reads "-o, --output FILE" into the entry; false: it is not an option. Returns in *end where that ends. */
static bool read_names(const char *at, struct help_entry *entry, const char **end) {
    if (at[0] == '-' && isalnum((unsigned char)at[1]) && at[2] == ',') {
        entry->letter = at[1];
        at += 3;
        at += strspn(at, " ");
    }
    if (strncmp(at, "--", 2) != 0) return false;
    at += 2;
    unsigned long length = strcspn(at, " =[\n");
    APPEND(entry->name, at, length);
    at += length;
    if ((*at == ' ' && at[1] != ' ' && at[1] != '\n') || *at == '=') {
        length = strcspn(++at, " \n");
        APPEND(entry->value, at, length);
        at += length;
    }
    *end = at;
    return true;
}

/* "SLOWER, FASTER: ..." explains words, on a line of its own. */
static bool explains(const char *line) {
    unsigned long words = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ, ");
    return words >= 2 && line[words] == ':';
}

/* Does this line go on with the option, or with the paragraph that began with `first`? */
static bool continues(const char *line, bool option, const char *first) {
    if (option) return strncmp(line, "    ", 4) == 0;
    return *first && *first != ' ' && *first != '\n' && *line && *line != ' ' && *line != '\n' && !explains(line);
}

bool help_next(const char **help, struct help_entry *entry) {
    const char *line = *help;
    if (!*line) return false;
    *entry = (struct help_entry){0};
    const char *rest = line;
    bool option = strncmp(line, "  -", 3) == 0 && read_names(line + 2, entry, &rest);
    if (!option) entry->letter = '\0';
    for (bool first = true;; first = false) {
        rest += option ? strspn(rest, " ") : 0;
        unsigned long length = strcspn(rest, "\n");
        if (!first && length && entry->text[0]) APPEND(entry->text, " ", 1);
        APPEND(entry->text, rest, length);
        rest += length + (rest[length] == '\n');
        if (!continues(rest, option, line)) break;
    }
    *help = rest;
    if (option && entry->value[0]) read_choices(entry);
    entry->repeatable = option && strstr(entry->text, "repeatable");
    return true;
}

bool help_nearest(const struct command *command, const char *given, char name[HELP_NAME_BYTES]) {
    enum { MOST = 32 };
    char copies[MOST][HELP_NAME_BYTES];
    const char *names[MOST];
    struct help_entry entry;
    int count = 0;
    for (const char *help = command->help; count < MOST && help_next(&help, &entry);) {
        if (!entry.name[0]) continue;
        memcpy(copies[count], entry.name, sizeof entry.name);
        names[count] = copies[count];
        count++;
    }
    char word[HELP_NAME_BYTES];
    if (strncmp(given, "--", 2) != 0) return false;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    const char *near = nearest_name(word, names, count);
    if (near) snprintf(name, HELP_NAME_BYTES, "%s", near);
    return near != NULL;
}

enum help_kind help_kind(const char *word) {
    static const struct {
        const char *word;
        enum help_kind kind;
    } kinds[] = {{"JOB", HELP_JOB},       {"RESULTS", HELP_RESULTS},     {"BASE", HELP_RESULTS},
                 {"NEW", HELP_RESULTS},   {"FILE", HELP_FILE},           {"DIR", HELP_FOLDER},
                 {"FOLDER", HELP_FOLDER}, {"OPERATION", HELP_OPERATION}, {"COMMAND", HELP_COMMAND}};
    unsigned long length = strcspn(word, " .]|");
    for (unsigned long i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].word) == length && memcmp(kinds[i].word, word, length) == 0) return kinds[i].kind;
    return HELP_OTHER;
}

enum help_kind help_operand(const struct command *command) {
    bool value = false; /* the word before was an option: this is its value */
    for (const char *at = command->arguments; *(at += strspn(at, " [|")); at += strcspn(at, " ")) {
        enum help_kind kind = help_kind(at);
        if (kind && !value) return kind;
        value = *at == '-' && !memchr(at, ']', strcspn(at, " "));
    }
    return HELP_OTHER;
}

/* ---- printing ---- */

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

/* "-o, --output FILE" into `text`; returns its length. */
static int names_of(const struct help_entry *entry, char text[80]) {
    int letter = entry->letter ? sprintf(text, "-%c, ", entry->letter) : 0;
    return letter + sprintf(text + letter, "--%s%s%s", entry->name, entry->value[0] ? " " : "", entry->value);
}

void help_print_command(const struct command *command, FILE *to) {
    fprintf(to, "usage: tilerun %s%s%s\n\n", command->name, command->arguments[0] ? " " : "", command->arguments);
    char summary[512];
    snprintf(summary, sizeof summary, "%s.", command->summary);
    help_wrap(summary, 0, 0, to);
    if (command->help[0]) fputc('\n', to);
    struct help_entry entry;
    char names[80];
    int column = 0;
    for (const char *help = command->help; help_next(&help, &entry);) {
        int length = entry.name[0] ? names_of(&entry, names) + 4 : 0;
        if (length > column) column = length;
    }
    for (const char *help = command->help; help_next(&help, &entry);) {
        if (!entry.name[0]) {
            int spaces = (int)strspn(entry.text, " ");
            fprintf(to, "%*s", spaces, "");
            help_wrap(entry.text + spaces, spaces, spaces, to);
        } else {
            names_of(&entry, names);
            fprintf(to, "  %-*s", column - 2, names);
            help_wrap(entry.text, column, column, to);
        }
    }
}

void help_print_program(const struct program *program, FILE *to) {
    fprintf(to, "usage: tilerun COMMAND [OPTION...] [FILE...]\n\n");
    help_wrap(program->summary, 0, 0, to);
    fputc('\n', to);
    for (int i = 0; i < program->command_count; i++) {
        int used = fprintf(to, "  %-10s ", program->commands[i]->name);
        help_wrap(program->commands[i]->summary, used, used, to);
    }
    fprintf(to, "\n`tilerun help COMMAND` tells more; `tilerun --version` says what this is.\n\nExit codes:\n");
    for (int i = 0; i < program->exit_code_count; i++) {
        int used = fprintf(to, "  %2d  ", program->exit_codes[i].code);
        help_wrap(program->exit_codes[i].meaning, used, used, to);
    }
}
