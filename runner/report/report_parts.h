/* report_parts.h - shared by the files of the report: report.c (the page), header.c (what ran), figures.c (the plots),
 * tables.c (the runs), origin.c (jobs, environment, inputs), text.c, style.c (the style sheet and the script). */
#ifndef RUNNER_REPORT_PARTS_H
#define RUNNER_REPORT_PARTS_H

#include "../compare/compare.h"
#include "../show/result_view_columns.h"
#include "report.h"

#define VERDICT_THRESHOLD 0.03 /* the default of `tilerun compare` */

/* What later versions record of CUDA kernels: columns of /runs. */
enum { REPORT_EXTRAS = 4 };
extern const char *const report_extras[REPORT_EXTRAS];

/* What is reported: the rows of all files, one file's after the other's. */
struct report {
    struct results_file *const *files;
    int file_count;
    char (*letter)[8];   /* by file: "A", "B", ... if there are several, else "" */
    struct view **views; /* by file: its rows as `tilerun show` has them */
    int *first;          /* by file: its first row */
    struct result_row *rows;
    int count;
    int *file;    /* by row: the number of its file */
    int *variant; /* by row: the number of its variant */
    const char **variants;
    int variant_count;
    struct swept swept;
    double *extra[REPORT_EXTRAS]; /* by row: numbers that only some versions record, else NaN */
    struct comparison comparison; /* of two files; else of no pairs */
    const char *alone;            /* the style of the first plot, which is written instead of a page; NULL: a page */
};

/* ---- text (text.c) ---- */

/* As fprintf, of %s, %d, %f and %g alone. Texts may go into an element or a quoted attribute: what HTML would take for
 * markup is escaped, what it forbids (control characters, bytes that are not UTF-8) becomes U+FFFD. */
void html(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
int characters_of(const char *text);
/* Copies a text of at most `most` characters, of a longer one the beginning, "…" and the end. `text` holds 4 * most + 4
 * bytes. */
const char *shortened(const char *from, int most, char *text);

/* "12.3 GFLOP/s", as `tilerun show` prints it. */
const char *rate_text(double per_second, bool flops, char text[VIEW_CELL]);
/* The name of a file of several, "A", "B", ... "Z", "AA". */
const char *file_letter(int number, char text[8]);
/* "A product n=512 tiled"; the caller frees. The letter is left out if there is one file. */
char *run_name(const struct report *report, int row);
/* Fills in a row's cell in a column of `tilerun show`, "median" or "read_s", or in one of `report_extras`; returns its
 * number, or NaN. */
double run_cell(const struct report *report, int row, const char *column, char text[VIEW_CELL]);

/* Does a run have a finite time above zero, and made a result? */
bool row_timed(const struct result_row *row);
/* Is the operation's speed counted in FLOP/s? */
bool row_in_flops(const struct result_row *row);
/* The number of a text among the `count` known ones, to which it is added. */
int number_of(const char *text, const char **known, int *count);
/* The place of the largest value, the first of equal ones. */
int largest(const double *values, int count);

/* ---- parts of tables (tables.c) ---- */

/* Headings follow html_table, rows html_body. `class`: "n" for numbers, which stand at the right, or "". On a narrow
 * screen a row becomes a block in which each cell shows its heading, so a cell carries it. NaN: there is no number to
 * sort it by. */
void html_table(FILE *to, const char *class, const char *label, const char *caption);
void html_heading(FILE *to, const char *class, const char *heading);
void html_body(FILE *to);
void html_cell(FILE *to, const char *class, const char *heading, const char *text, double value);
void html_table_end(FILE *to);

/* ---- the sections: each writes what it has to show, or nothing ---- */

enum status report_speed(const struct report *report, FILE *to, struct error *error);
enum status report_limits(const struct report *report, FILE *to, struct error *error);
enum status report_runs(const struct report *report, FILE *to, struct error *error);
enum status report_facts(const struct report *report, FILE *to, struct error *error);
enum status report_jobs(const struct report *report, FILE *to, struct error *error);

/* The job's name; the caller frees. */
char *report_title(const struct report *report);
/* What ran, on what, from which files, and what the runs said. */
void report_header(const struct report *report, FILE *to);

/* ---- style.c ---- */

/* The style sheet, the script, and what the page may load: nothing but these two, by their hashes. */
void report_style(FILE *to);
void report_script(FILE *to);
void report_policy(FILE *to);
/* The style sheet of a plot that is a file of its own; the caller frees. */
char *report_plot_style(void);

#endif
