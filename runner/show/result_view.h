/* result_view.h - rows as people look at them: some chosen, sorted, each beside a baseline; printed as a table.
 *
 * Columns are those of /runs, with swept parameters as `p_NAME` or NAME, and those that a table makes of them: median,
 * ci (half of the median's 95 % interval, in percent of it), rate, roof (share of the measured limit), ratio, total,
 * error, flags. */
#ifndef RUNNER_RESULT_VIEW_H
#define RUNNER_RESULT_VIEW_H

#include "../record/row.h"

struct view_options {
    const char *columns;      /* "variant,median"; NULL: what tells most */
    const char *baseline;     /* a variant's label or name; NULL: the first variant of each operation */
    const char *sort;         /* "median"; "-rate": the largest first; NULL: the plan's order */
    const char *const *where; /* "op=matmul", "n>=512": a row must meet all */
    int where_count;
};

struct view;
/* Looks at rows, which must outlive the view. STATUS_USAGE: an option names no column or variant, or cannot be
 * understood. The caller frees *made with view_free. */
enum status view_make(const struct result_row *rows, int count, const struct view_options *options, struct view **made,
                      struct error *error);
void view_free(struct view *view); /* NULL: does nothing */

/* The rows chosen, in their order; the caller frees the array. */
struct result_row *view_rows(const struct view *view, int *count);

/* Prints the table within `room` columns of characters (0: without a limit), then a line for each thing that it leaves
 * out: columns, runs that were skipped for one reason, what flags mean. `hint` as table_print has it. */
void view_print(const struct view *view, int room, const char *hint, FILE *to);
/* The same in GitHub's Markdown. */
void view_print_markdown(const struct view *view, FILE *to);

/* Prints the table that `run` ends with, in the terminal's width: what `tilerun show` prints without options. */
void result_print_table(const struct result_row *rows, int count, FILE *to);
void result_print_csv(const struct result_row *rows, int count, FILE *to);
void result_print_json(const struct result_row *rows, int count, FILE *to);

#endif
