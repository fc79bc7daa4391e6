/* table.h - a table for people: cells of text under headings, aligned, and made to fit a width. Lines never wrap: where
 * the room is short, columns are left out, and a line below names them; only then are long texts cut, which a `~` in
 * their middle shows.
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

#include <stdbool.h>
#include <stdio.h>

struct table_column {
    const char *name;    /* what the line about the columns left out calls it */
    const char *heading; /* NULL: the name */
    bool right;          /* a number: aligned to the right and never cut */
    bool joined;         /* belongs to the column before it: one space between them instead of two */
    bool kept;           /* stays though no cell has a text */
    int priority;        /* where the room is short, the highest goes first; 0: stays as long as cutting texts helps */
};

struct table;
/* Copies the columns and headings, not the names, which must outlive the table. A column without any text in its cells
 * is not printed unless it is `kept`, nor are the headings of a table without rows. The caller frees with table_free.
 */
struct table *table_create(const struct table_column *columns, int count);
void table_free(struct table *table); /* NULL: does nothing */

/* Begins a row of empty cells. */
void table_row(struct table *table);
/* Fills a cell of the last row, once, as text_clean does; spaces at its end go. */
void table_cell(struct table *table, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A sentence about the last row. It follows the last column's text after a colon where there is room for all of it;
 * else it stands below the row, broken into lines. */
void table_remark(struct table *table, const char *text);

/* Prints within `width` columns of characters, at least TABLE_LEAST; 0: without a limit, so that all columns are
 * printed. `hint` ends the line that names the columns left out: "--columns chooses"; NULL: nothing does. */
#define TABLE_LEAST 20
void table_print(const struct table *table, int width, const char *hint, FILE *to);
/* All columns as a table in GitHub's Markdown. */
void table_print_markdown(const struct table *table, FILE *to);

/* The width of what stdout goes to: the environment's COLUMNS, else that of the terminal; 0: it is no terminal. */
int table_terminal_width(void);

#endif
