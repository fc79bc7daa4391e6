/* result_view.h - makes and prints a view of rows: some rows and columns, sorted, each row compared with a baseline.
 *
 * Columns are those of /runs, with swept parameters as `p_NAME` or NAME, and columns computed for the table: median, ci
 * (half width of the median's 95 % interval, in percent), rate, roof (share of the measured limit), ratio, total,
 * error, flags. On request only: parameters of variants, `v_NAME` or NAME, and tags of the file, `tag.NAME`. */
#ifndef RUNNER_RESULT_VIEW_H
#define RUNNER_RESULT_VIEW_H

#include "../record/columns.h"

/* What a view shows, as the options of `show` say. */
struct view_options {
    const char *columns;      /* "variant,median"; NULL: the usual ones */
    const char *baseline;     /* a variant's label or name; NULL: the first variant of each operation */
    const char *sort;         /* "median"; "-rate": the largest first; NULL: the plan's order */
    const char *const *where; /* conditions, "op=matmul", "n>=512"; a row must meet all of them */
    int where_count;
    const struct tag *tags; /* tags of the rows' file */
    int tag_count;
};

struct results_view;
/* Makes a view of rows, which must outlive it. STATUS_USAGE: an option names an unknown column or variant, or is
 * malformed. The caller frees *made with view_free. */
enum status view_make(const struct result_row *rows, int count, const struct view_options *options,
                      struct results_view **made, struct error *error);
void view_free(struct results_view *view); /* NULL: does nothing */
RELEASED_BY(results_view, view_free)

/* Did no row meet the conditions? */
bool view_is_empty(const struct results_view *view);
/* The rows of the view, in its order; the caller frees the array. */
struct result_row *view_rows(const struct results_view *view, int *count);

/* Prints the table within `width` characters (0: no limit), then lines about omitted columns, skipped runs and the
 * meaning of flags. `hint`: as for table_print. */
void view_print(const struct results_view *view, int width, const char *hint, FILE *to);
/* Like view_print, but prints GitHub's Markdown. */
void view_print_markdown(const struct results_view *view, FILE *to);
/* Prints the rows and columns of the view for programs, as numbers without units: as JSON or CSV. */
void view_print_data(const struct results_view *view, bool json, FILE *to);

/* Prints the table at the end of `run`, in the terminal's width; `tilerun show` without options prints the same. */
void result_print_table(const struct result_row *rows, int count, FILE *to);
/* Print all columns of rows, as CSV or JSON. */
void result_print_csv(const struct result_row *rows, int count, FILE *to);
void result_print_json(const struct result_row *rows, int count, FILE *to);

#endif
