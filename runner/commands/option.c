/* option.c - parses the options of a command by the rows of its table. */
#include "option.h"

#include "../base/spelling.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments --------------------------------------------------------------------------------------------------- */

#define MAX_SECONDS 999999999 /* 30 years */
#define MAX_SHARE   10        /* 1000 %: a larger one is a slip */

const struct option_row no_options[] = {{0}};

enum status option_flag(const struct option_row *row, const char *argument, void *field, struct error *error) {
    (void)row, (void)argument, (void)error;
    *(bool *)field = true;
    return STATUS_OK;
}

enum status option_number(const struct option_row *row, const char *argument, void *field, struct error *error) {
    (void)argument, (void)error;
    *(int *)field = row->number;
    return STATUS_OK;
}

enum status option_text(const struct option_row *row, const char *argument, void *field, struct error *error) {
    (void)row, (void)error;
    *(const char **)field = argument;
    return STATUS_OK;
}

enum status option_list(const struct option_row *row, const char *argument, void *field, struct error *error) {
    struct option_list *list = field;
    int max_items = sizeof list->items / sizeof *list->items;
    if (list->count == max_items) return fail(error, STATUS_USAGE, "more than %d --%s", max_items, row->name);
    list->items[list->count++] = argument;
    return STATUS_OK;
}

enum status option_choice(const struct option_row *row, const char *argument, void *field, struct error *error) {
    char all[128] = "";
    for (int i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], argument) == 0) {
            *(int *)field = row->number + i;
            return STATUS_OK;
        }
        const char *separator = i == 0 ? "" : row->choices[i + 1] ? ", " : " or ";
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", separator, row->choices[i]);
    }
    return fail(error, STATUS_USAGE, "--%s must be %s, not '%s'", row->name, all, argument);
}

enum status option_integer(const struct option_row *row, const char *argument, void *field, struct error *error) {
    char *end;
    long value = strtol(argument, &end, 10);
    if (!(*argument >= '0' && *argument <= '9') || *end || value > OPTION_MAX)
        return fail(error, STATUS_USAGE, "--%s must be a whole number from 0 to %d, not '%s'", row->name, OPTION_MAX,
                    argument);
    *(int *)field = (int)value;
    return STATUS_OK;
}

enum status option_seconds(const struct option_row *row, const char *argument, void *field, struct error *error) {
    char *end;
    long value = strtol(argument, &end, 10);
    if (!(*argument >= '0' && *argument <= '9') || *end || value > MAX_SECONDS)
        return fail(error, STATUS_USAGE, "--%s must be a whole number of seconds, such as 3600, not '%s'", row->name,
                    argument);
    *(double *)field = (double)value;
    return STATUS_OK;
}

enum status option_share(const struct option_row *row, const char *argument, void *field, struct error *error) {
    char *end;
    double value = strtod(argument, &end);
    bool percent = end > argument && *end == '%';
    double share = percent ? value / 100 : value;
    const char *rest = percent ? end + 1 : end;
    if (end == argument || *rest || !(share >= 0 && share <= MAX_SHARE))
        return fail(error, STATUS_USAGE, "--%s must be a share from 0%% to %d%%, such as 5%% or 0.05, not '%s'",
                    row->name, 100 * MAX_SHARE, argument);
    if (!percent && share > 1)
        return fail(error, STATUS_USAGE, "--%s %s would be %g%%; did you mean %s%%?", row->name, argument, 100 * share,
                    argument);
    *(double *)field = share;
    return STATUS_OK;
}

/* ---- the parser -------------------------------------------------------------------------------------------------- */

enum { MAX_ROWS = 32, FIRST_CODE = 256 /* getopt's code for the first row, above all letters */ };

/* Makes the tables of getopt_long from the rows. In `letters` a colon after a letter means that the option has an
 * argument; the first one makes getopt_long return ':' if an argument is missing. */
static void make_tables(const struct option_row *rows, struct option longs[MAX_ROWS + 1], char letters[]) {
    *letters++ = ':';
    for (int i = 0; i < MAX_ROWS && rows[i].name; i++) {
        int takes = rows[i].argument ? required_argument : no_argument;
        longs[i] = (struct option){rows[i].name, takes, NULL, FIRST_CODE + i};
        if (rows[i].letter) *letters++ = rows[i].letter;
        if (rows[i].letter && rows[i].argument) *letters++ = ':';
    }
    *letters = '\0';
}

/* The row of the option for which getopt_long returned `code`; NULL: it refused the option. */
static const struct option_row *find_row(const struct option_row *rows, int code) {
    if (code >= FIRST_CODE) return &rows[code - FIRST_CODE];
    for (; rows->name; rows++)
        if (rows->letter == code) return rows;
    return NULL;
}

/* The name of the option that `given`, "--repaet=3", is most like; NULL: no option is like it. */
static const char *nearest_option(const struct option_row *rows, const char *given) {
    const char *names[MAX_ROWS];
    char word[32];
    int count = 0;
    if (strncmp(given, "--", 2) != 0) return NULL;
    for (; count < MAX_ROWS && rows[count].name; count++) names[count] = rows[count].name;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    return nearest_name(word, names, count);
}

/* Reports the option that getopt_long has refused by `code`: '?' is unknown, ':' lacks its argument. */
static enum status fail_misused(const struct option_row *rows, const char *command, int code, char **argv,
                                struct error *error) {
    char option[64];
    if (optopt > 0 && optopt < FIRST_CODE)
        snprintf(option, sizeof option, "-%c", optopt);
    else
        snprintf(option, sizeof option, "%s", argv[optind - 1]);
    if (code == ':') return fail(error, STATUS_USAGE, "%s: option '%s' needs an argument", command, option);
    const char *near = nearest_option(rows, option);
    if (near) return fail(error, STATUS_USAGE, "%s: unknown option '%s' (did you mean '--%s'?)", command, option, near);
    return fail(error, STATUS_USAGE, "%s: unknown option '%s'; `tilerun %s --help` lists them", command, option,
                command);
}

enum status options_parse(const struct option_row *rows, const char *command, int argc, char **argv, void *options,
                          int *operands, struct error *error) {
    struct option longs[MAX_ROWS + 1] = {{0}};
    char letters[2 * MAX_ROWS + 2];
    make_tables(rows, longs, letters);
    unsetenv("POSIXLY_CORRECT"); /* with it, getopt would take options after an operand for operands */
    optind = 0;                  /* getopt begins anew */
    for (int code; (code = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        const struct option_row *row = find_row(rows, code);
        struct error wrong = {.status = STATUS_OK};
        if (!row) return fail_misused(rows, command, code, argv, error);
        if (row->parse(row, optarg, (char *)options + row->field, &wrong))
            return fail(error, wrong.status, "%s: %s", command, wrong.text);
    }
    *operands = optind;
    return STATUS_OK;
}
