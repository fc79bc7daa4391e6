/* report_parts.h - shared by the files of the report: report.c (the page and its head), runs.c (facts of a run),
 * figures.c (the plots), tables.c (the runs), origin.c (jobs, environment, inputs), html.c, style.c (the style sheet
 * and the script). */
#ifndef RUNNER_REPORT_PARTS_H
#define RUNNER_REPORT_PARTS_H

#include "../show/result_view_columns.h"
#include "report.h"

struct report_file {
    struct results_file *results;
    char letter[8];            /* file_letter if there are several files, else "" */
    struct results_view *view; /* the rows as `tilerun show` has them */
    int first;                 /* the number of the file's first run in the report */
};
struct report_run {
    const struct result_row *row; /* points into the rows of file->results */
    const struct report_file *file;
    int variant;                 /* index in the report's `variants` */
    const struct run_pair *pair; /* of this run and its partner in the first of two files; NULL: it is not compared */
    /* The run's samples in their order, relative to their median: 0 is the median, 0.1 is 10 % slower. */
    double *deviation;
    int samples;
    double spread; /* the 95th percentile minus the 5th; NaN: fewer than two samples */
};
/* The runs of all files, one file's after the other's. */
struct report {
    struct report_file *files;
    int file_count;
    struct report_run *runs;
    int count;
    const char **variants;
    int variant_count;
    struct swept swept;
    const char *alone; /* the style of the first plot, which is written instead of a page; NULL: a page */
};

/* ---- HTML (html.c) ---- */

/* Like fprintf, but only for %s, %d, %f and %g. Texts may go into an element or a quoted attribute: characters of
 * markup are escaped, and what HTML forbids (control characters, bytes that are not UTF-8) becomes U+FFFD. */
void html(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number of characters of a text; a byte that is not UTF-8 counts as one. */
int characters_of(const char *text);
/* Copies `from` to `text` and returns `text`. If `from` has more than `max_characters`, copies its beginning, "…" and
 * its end. `text` holds 4 * max_characters + 4 bytes. */
const char *shortened(const char *from, int max_characters, char *text);

/* Write a table: html_table, headings, html_body, cells, html_table_end. `class`: "n" for numbers, aligned at the
 * right, or "". On a narrow screen a row becomes a block in which each cell shows its heading, so a cell repeats it.
 * `value`: the number by which the cell is sorted; NaN: it is sorted by its text. */
void html_table(FILE *to, const char *class, const char *label, const char *caption);
void html_heading(FILE *to, const char *class, const char *heading);
void html_body(FILE *to);
void html_cell(FILE *to, const char *class, const char *heading, const char *text, double value);
void html_table_end(FILE *to);

/* ---- runs (runs.c) ---- */

/* Writes the name of a file of several, "A", "B", ... "Z", "AA", into `text` and returns it. */
const char *file_letter(int number, char text[8]);
/* The name of a run on the page, "A product n=512 tiled". The caller frees. */
char *report_run_name(const struct report_run *run);
/* Fills in a run's cell in a column of `tilerun show`, "median" or "read_s". Returns its number; NaN: the column holds
 * texts, or does not exist, for which the cell is "". */
double run_cell(const struct report_run *run, const char *column, char text[VIEW_CELL]);
/* Does the run have a result and a finite time above zero? */
bool row_timed(const struct result_row *row);
/* Fills in the samples of a run and their spread, if the run has a time. STATUS_IO: they cannot be read. */
enum status report_read_samples(struct report_run *run, struct error *error);
/* The value at the share `part` (0 to 1) of `count` sorted values, at least one. */
double report_quantile(const double *sorted, int count, double part);
/* The index of a text in `known`, which has *count texts and room for one more; a new text is appended. */
int report_find_or_add(const char *text, const char **known, int *count);
/* The index of the largest value; the first one if several are equal. */
int report_largest(const double *values, int count);

/* ---- the sections of the page; one without content writes nothing ---- */

void report_speed(const struct report *report, FILE *to);
void report_limits(const struct report *report, FILE *to);
void report_runs(const struct report *report, FILE *to);
void report_jobs(const struct report *report, FILE *to);
void report_facts(const struct report *report, FILE *to);

/* ---- style.c ---- */

/* Write the style sheet, the script, and the policy that lets the page load nothing but these two, by their hashes. */
void report_style(FILE *to);
void report_script(FILE *to);
void report_policy(FILE *to);
/* The style sheet of a plot that is a file of its own; the caller frees. */
char *report_plot_style(void);

#endif
