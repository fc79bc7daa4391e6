/* result_view_columns.h - what a view's columns hold. For result_view.c, result_view_columns.c and result_table.c
 * only. */
#ifndef RUNNER_RESULT_VIEW_COLUMNS_H
#define RUNNER_RESULT_VIEW_COLUMNS_H

#include "../record/columns.h"
#include "result_view.h"

enum { VIEW_CELL = 320 };

/* A column that the table makes of others. */
struct measure {
    const char *name;
    bool joined; /* struct table_column's */
    void (*cell)(const struct view *view, int row, char text[VIEW_CELL]);
    /* For sorting and conditions; NaN: unknown. NULL: the column of /runs of this name is used. */
    double (*number)(const struct view *view, int row);
    bool seconds; /* `number` is a time */
};

struct view_column {
    const struct measure *measure; /* NULL: only `column` counts */
    const struct column *column;   /* of /runs; NULL: there is none of the measure's name */
    int priority;                  /* struct table_column's */
};

struct view {
    const struct result_row *rows;
    int count;
    struct columns columns; /* of /runs */
    /* The row that a row's ratio refers to, by row, whether it made a result or not; NULL: there is none. */
    const struct result_row **base;
    const char *baseline; /* the variant that all ratios refer to; NULL: the first of each operation */
    bool own_baseline;    /* it was asked for */
    int *order;           /* the rows chosen */
    int chosen;
    struct view_column *shown; /* the table's columns */
    int shown_count;
    bool own_columns; /* they were asked for */
};

/* The table's column of this name ("median", "p_n", "n"). STATUS_USAGE: there is none. */
enum status view_column_find(const struct view *view, const char *name, struct view_column *found, struct error *error);
const char *view_column_name(const struct view_column *column);
/* Does it hold texts? */
bool view_column_is_text(const struct view_column *column);
/* Does it hold seconds? */
bool view_column_is_time(const struct view_column *column);
/* A row's number in a column that holds no texts; NaN: unknown. */
double view_column_number(const struct view *view, const struct view_column *column, int row);
/* The same if it is an integer, without rounding; false: it is none. */
bool view_column_integer(const struct view *view, const struct view_column *column, int row, int64_t *integer);
/* A row's text in it, as /runs has it; "" for a number. */
void view_column_text(const struct view *view, const struct view_column *column, int row, char text[VIEW_CELL]);
/* A row's cell in the table: with its unit, rounded. */
void view_column_cell(const struct view *view, const struct view_column *column, int row, char text[VIEW_CELL]);

/* Is it a variant's label ("tiled,tile=16") or the name that this begins with? */
bool view_variant_is(const char *label, const char *name);

#endif
