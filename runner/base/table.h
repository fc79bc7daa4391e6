/* table.h - prints a table: text cells under headings, aligned, within a given width. Lines never wrap: if the width
 * is too small, columns are omitted, and a line below the table names them; if that is not enough, long texts are cut,
 * which a `~` in their middle shows.
 *
 *     static const struct table_column columns[] = {{.name = "variant"}, {.name = "median", .right = true}};
 *     struct table *table = table_create(columns, 2);
 *     table_row(table);
 *     table_cell(table, 0, "%s", "naive");
 *     table_cell(table, 1, "%.2f us", 3.5);
 *     table_print(table, table_terminal_width(), "--columns chooses", stdout);
 *     table_free(table); */
#ifndef RUNNER_TABLE_H
#define RUNNER_TABLE_H

#include "fail.h"

#include <stdbool.h>
#include <stdio.h>

struct table_column {
    const char *name;    /* used in the line about omitted columns */
    const char *heading; /* NULL: the name */
    bool right;          /* a number: aligned to the right and never cut */
    bool joined;         /* belongs to the column before it: one space between them instead of two */
    bool kept;           /* printed even if all its cells are empty */
    int priority;        /* the highest is omitted first; 0: kept as long as cutting texts makes the table fit */
};

struct table;
/* Creates a table. It copies the columns and headings, but not the names, which must outlive it. A column whose cells
 * are all empty is not printed unless it is `kept`; a table without rows prints nothing. The caller frees it with
 * table_free. */
struct table *table_create(const struct table_column *columns, int count);
void table_free(struct table *table); /* NULL: does nothing */
RELEASED_BY(table, table_free)

/* Appends a row of empty cells. */
void table_row(struct table *table);
/* Fills a cell of the last row, once. The text is cleaned (text_clean) and loses trailing spaces. */
void table_cell(struct table *table, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds a sentence about the last row. It is printed after the last column, after a colon, if it fits; otherwise below
 * the row, wrapped. */
void table_remark(struct table *table, const char *text);

/* Prints the table within `width` characters, at least TABLE_MIN_WIDTH; 0: no limit, so all columns are printed. `hint`
 * ends the line that names omitted columns, "--columns chooses"; or NULL. */
#define TABLE_MIN_WIDTH 20
void table_print(const struct table *table, int width, const char *hint, FILE *to);
/* Prints all columns as a table in GitHub's Markdown. */
void table_print_markdown(const struct table *table, FILE *to);

/* The width in COLUMNS if it is a number above 0, else that of the terminal that stdout writes to (80 if the terminal
 * does not tell); 0: stdout is not a terminal. */
int table_terminal_width(void);

#endif
