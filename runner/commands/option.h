/* option.h - describes the options of a command as rows of a table. The parser, `--help`, the manual page and the
 * shells' completions are all made from these rows: a new option is one row. */
#ifndef RUNNER_COMMANDS_OPTION_H
#define RUNNER_COMMANDS_OPTION_H

#include "../base/fail.h"

#include <stdbool.h>
#include <stddef.h>

/* The kind of thing that an option's argument or an operand names; shells complete it. */
enum word_kind { WORD_OTHER, WORD_JOB, WORD_RESULTS, WORD_FILE, WORD_FOLDER, WORD_OPERATION };

struct option_row {
    const char *name;     /* "output"; NULL ends the table */
    char letter;          /* 'o' for `-o`; '\0': the option has only a name */
    const char *argument; /* "FILE"; NULL: the option takes no argument */
    const char *help;
    /* Checks the argument and stores it in `field`. A failure reads "--NAME ...": the parser puts the command in front.
     */
    enum status (*parse)(const struct option_row *row, const char *argument, void *field, struct error *error);
    size_t field;               /* its offset in the struct that the command's options fill */
    enum word_kind kind;        /* the argument's */
    const char *const *choices; /* words that the argument may be, then NULL; NULL: they are not known */
    int number;                 /* what option_number stores; what option_choice stores for the first word */
};
extern const struct option_row no_options[]; /* the table of a command without options */

/* The last part of a row: the function that checks the argument, and the member of the command's struct that gets it. A
 * member of another type does not compile. */
#define FIELD_OF(structure, member, type)                                                                              \
    .field = (offsetof(structure, member) + 0 * sizeof((type *)NULL == &((structure *)NULL)->member))
#define ENUM_OF(structure, member)                                                                                     \
    .field =                                                                                                           \
        (offsetof(structure, member) + 0 * sizeof(char[sizeof(((structure *)NULL)->member) == sizeof(int) ? 1 : -1]))
#define PARSE_FLAG(structure, member)         .parse = option_flag, FIELD_OF(structure, member, bool)
#define PARSE_TEXT(structure, member)         .parse = option_text, FIELD_OF(structure, member, const char *)
#define PARSE_LIST(structure, member)         .parse = option_list, FIELD_OF(structure, member, struct option_list)
#define PARSE_SHARE(structure, member)        .parse = option_share, FIELD_OF(structure, member, double)
#define PARSE_NUMBER(structure, member, what) .parse = option_number, ENUM_OF(structure, member), .number = (what)
#define PARSE_CHOICE(structure, member)       .parse = option_choice, ENUM_OF(structure, member)
#define CHOICES(...)                                                                                                   \
    .choices = (const char *const[]) {                                                                                 \
        __VA_ARGS__, NULL                                                                                              \
    }

/* Arguments of an option that may be given several times. */
struct option_list {
    int count;
    const char *items[64];
};

/* ---- for `parse`; STATUS_USAGE: the argument is wrong ---- */

/* Stores true, row->number, the argument itself, or the argument as the next item of a list. */
enum status option_flag(const struct option_row *row, const char *argument, void *field, struct error *error);
enum status option_number(const struct option_row *row, const char *argument, void *field, struct error *error);
enum status option_text(const struct option_row *row, const char *argument, void *field, struct error *error);
enum status option_list(const struct option_row *row, const char *argument, void *field, struct error *error);
/* One of row->choices, as an enum that begins with row->number. */
enum status option_choice(const struct option_row *row, const char *argument, void *field, struct error *error);
/* A whole number, from 0 to OPTION_MAX, as an int. */
#define OPTION_MAX 1000
enum status option_integer(const struct option_row *row, const char *argument, void *field, struct error *error);
/* A whole number of seconds, as a double. */
enum status option_seconds(const struct option_row *row, const char *argument, void *field, struct error *error);
/* "5%" or "0.05", from 0 to 10, as a double; without a percent sign at most 1. */
enum status option_share(const struct option_row *row, const char *argument, void *field, struct error *error);

/* ---- the parser ---- */

/* Takes the options among argv[1 .. argc-1] with getopt_long and stores them in `options`. Moves the operands to
 * argv[*operands] and after. `command`: its name, for messages. STATUS_USAGE: an option is unknown or has a wrong
 * argument. */
enum status options_parse(const struct option_row *rows, const char *command, int argc, char **argv, void *options,
                          int *operands, struct error *error);

#endif
