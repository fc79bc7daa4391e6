/* result_view_columns.h - defines the columns of a view. For show/, compare/ and report/ only. */
#ifndef RUNNER_RESULT_VIEW_COLUMNS_H
#define RUNNER_RESULT_VIEW_COLUMNS_H

#include "result_view.h"

enum { VIEW_CELL = 320 }; /* bytes of a cell's text */

/* A column that is computed for the table. */
struct measure {
    const char *name;
    bool joined;                                                                  /* struct table_column's */
    void (*cell)(const struct results_view *view, int row, char text[VIEW_CELL]); /* NULL: it shows a time */
    /* The value for sorting and conditions; NaN: unknown. NULL: the column of /runs with this name is used. */
    double (*number)(const struct results_view *view, int row);
    bool seconds; /* `number` is a time */
};

/* A column of a view. */
struct view_column {
    const struct measure *measure; /* NULL: a column of /runs */
    const struct column *column;   /* a column of /runs, or a tag; NULL: /runs has no column with the measure's name */
    int priority;                  /* struct table_column's */
};

struct results_view {
    const struct result_row *rows;
    int count;
    struct columns columns;         /* columns of /runs */
    struct columns tags;            /* the file's tags */
    struct columns variants;        /* the parameters of variants */
    const struct result_row **base; /* the baseline of each row, with a result or not; NULL: there is none */
    const char *baseline;           /* the baseline of all rows; NULL: the first variant of each task */
    bool baseline_chosen;           /* the user has chosen it */
    int *order;                     /* indices of the view's rows */
    int chosen;                     /* number of these rows */
    struct view_column *shown;      /* the table's columns */
    int shown_count;
    bool columns_chosen; /* the user has chosen the columns */
};

/* Finds the column of this name ("median", "p_n", "n", "v_tile"), which blanks may surround. STATUS_USAGE: there is
 * none. */
enum status view_column_find(const struct results_view *view, const char *written, struct view_column *found,
                             struct error *error);
const char *view_column_name(const struct view_column *column);
/* Does the column hold texts? */
bool view_column_is_text(const struct view_column *column);
/* Does the column hold seconds? */
bool view_column_is_time(const struct view_column *column);
/* A row's number in a column of numbers; NaN: unknown. */
double view_column_number(const struct results_view *view, const struct view_column *column, int row);
/* A row's number as an exact integer; false: the number is not known as an integer. */
bool view_column_integer(const struct results_view *view, const struct view_column *column, int row, int64_t *integer);
/* A row's text in a column of texts; "" in a column of numbers. */
void view_column_text(const struct results_view *view, const struct view_column *column, int row, char text[VIEW_CELL]);
/* A row's cell in the table: rounded, with its unit. */
void view_column_cell(const struct results_view *view, const struct view_column *column, int row, char text[VIEW_CELL]);

/* Is the operation's rate counted in FLOP/s? */
bool view_counts_flops(const struct result_row *row);
/* Writes a time with its unit, "12.34 us", into `text`; nothing if it is unknown. */
void view_seconds_text(double seconds, char text[VIEW_CELL]);
/* Writes a rate with its unit, "12.3 GFLOP/s", into `text` and returns it. */
const char *view_rate_text(double per_second, bool flops, char text[VIEW_CELL]);

/* The meaning of a flag. */
struct flag_advice {
    const char *flag;
    char letter; /* printed in the column of flags; '?': the flag is not known */
    const char *words;
};
/* The advice about the flag in the first `length` bytes of a text. Never returns NULL. */
const struct flag_advice *flag_advice(const char *flag, size_t length);

/* Is `name` the variant's label ("tiled,tile=16"), or the name at its beginning? */
bool view_variant_is(const char *label, const char *name);

#endif
