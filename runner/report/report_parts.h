/* report_parts.h - shared by the files of the report: report.c (the page), report_table.c (the table of runs),
 * report_samples.c (tables with a small drawing in each row), report_plot.c (a plot with axes, figures), report_rates.c
 * (rate against parameters), report_clouds.c (roofline, error against speed), report_origin.c (jobs, environment,
 * inputs), report_text.c (text and numbers) and report_style.c (the style sheet and the script). */
#ifndef RUNNER_REPORT_PARTS_H
#define RUNNER_REPORT_PARTS_H

#include "report.h"

enum { COLOURS = 7, SHAPES = 8 };

/* What tells one variant from another in plots. */
struct look {
    int colour; /* -1: grey */
    int shape;
};

/* What is reported: the rows of all files, one file's after the other's. */
struct report {
    struct results_file *const *files;
    int file_count;
    struct result_row *rows;
    int count;
    int *file;    /* by row: the number of its file */
    int *variant; /* by row: the number of its variant */
    const char **variants;
    struct look *looks; /* by variant, all over the page */
    int variant_count;
    struct swept swept;
    bool plot_alone; /* instead of a page, its first plot */
};

/* ---- text and numbers (report_text.c) ---- */

/* Writes text into an element or a quoted attribute: what HTML would take for markup is escaped, what it forbids
 * (control characters, bytes that are not UTF-8) becomes U+FFFD. */
void html_text(FILE *to, const char *text);

enum { NUMBER_BYTES = 48 };
/* Numbers with three digits and a unit, "12.3 µs", "1.2 TFLOP/s"; "" if not finite. All return `text`. */
const char *seconds_text(double seconds, char text[NUMBER_BYTES]);
const char *rate_text(double per_second, bool flops, char text[NUMBER_BYTES]);
/* A plain number: "1024", "0.0625", "3.1e-07". */
const char *plain_text(double number, char text[NUMBER_BYTES]);
/* Copies a text of at most `most` characters, of a longer one the beginning, "…" and the end. `text` holds 4 * most + 4
 * bytes. */
const char *shortened(const char *from, int most, char *text);

/* The name of a file of several, "A", "B", ... "Z", "AA". */
const char *file_letter(int number, char text[8]);
/* "A product n=512 tiled"; the caller frees. The letter is left out if there is one file. */
char *run_name(const struct report *report, int row);

/* ---- what a row says ---- */

/* Does a run have a finite time above zero, and made a result? */
bool row_timed(const struct result_row *row);
/* Is the operation's speed told in FLOP/s? */
bool row_in_flops(const struct result_row *row);
/* The rate that its operation is told by, in FLOP/s or B/s; NaN: unknown. */
double row_rate(const struct result_row *row);
/* The interval of that rate; false: it is not known. */
bool row_rate_interval(const struct result_row *row, double *low, double *high);

/* ---- a plot with axes (report_plot.c) ---- */

enum { PLOT_SERIES = 12, PLOT_LINES = 12 };

struct plot_point {
    double x, y, low, high; /* low and high: the interval of y, NaN if none */
    double mark;            /* a limit of y, NaN if none */
    int row;                /* of the report */
};
struct plot_series {
    char *label; /* shown beside it */
    struct look look;
    int dash; /* which of the lines of one look it is */
    struct plot_point *points;
    int count;
};
/* A straight line between two points in the axes' own units, as a roof is. */
struct plot_line {
    double x0, y0, x1, y1;
    char label[64];
};
struct plot_axis {
    const char *title; /* "n", "rate" */
    bool log;
    bool flops, bytes;             /* the unit is FLOP/s or B/s */
    const char *const *categories; /* NULL: numbers; else positions 0, 1, ... have these names */
    int category_count;
    double floor; /* > 0: values of zero are drawn at this mark, which is labelled "0" */
};
struct plot {
    int number;              /* on the page */
    const char *title;       /* for those who do not see it */
    const char *description; /* likewise */
    struct plot_axis x, y;
    bool joined; /* the points of a series are joined */
    struct plot_series series[PLOT_SERIES];
    int series_count;
    struct plot_line lines[PLOT_LINES];
    int line_count;
};
/* Adds a point to the series; a new array of points may be made. */
void plot_add(struct plot_series *series, struct plot_point point);
void plot_write(const struct plot *plot, const struct report *report, FILE *to);
/* Frees what the series hold. */
void plot_clear(struct plot *plot);
/* A figure: its heading and its caption, then what scrolls where the screen is narrow. */
void figure_begin(FILE *to, const char *title, const char *caption);
void figure_end(FILE *to);

/* ---- the sections: each writes what it has to show, or nothing ---- */

/* A table: what scrolls where the screen is narrow, and its caption; `caption` may be "". The table's own rows follow.
 */
void table_begin(FILE *to, const char *class, const char *label, const char *caption);
void table_end(FILE *to);
/* A heading cell; `right`: of numbers. */
void heading_write(FILE *to, const char *text, bool right);
/* A cell; "" is an empty one. A number is sorted by `value`, NaN is sorted last. */
void text_cell(FILE *to, const char *text);
void number_cell(FILE *to, const char *text, double value);

/* The places in order of a value; NaN comes last. */
void order_by(const double *value, int count, bool largest_first, int *order);

void report_table(const struct report *report, FILE *to);
/* *number counts the plots on the page. */
void report_rates(const struct report *report, int *number, FILE *to);
void report_roofline(const struct report *report, int *number, FILE *to);
void report_errors(const struct report *report, int *number, FILE *to);
enum status report_samples(const struct report *report, FILE *to, struct error *error);
void report_stages(const struct report *report, FILE *to);
void report_jobs(const struct report *report, FILE *to);
void report_environment(const struct report *report, FILE *to);
void report_inputs(const struct report *report, FILE *to);

/* The style sheet, the script, and what the page may load: nothing but these two, by their hashes. */
void report_style(FILE *to);
/* What a plot needs of it that is no part of a page. */
void report_plot_style(FILE *to);
void report_script(FILE *to);
void report_policy(FILE *to);

#endif
