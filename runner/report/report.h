/* report.h - writes results as one HTML page that needs no network and no other file, and can be read without
 * scripts. */
#ifndef RUNNER_REPORT_H
#define RUNNER_REPORT_H

#include "../compare/compare.h"

/* The beginning of every report, and of every plot in a file of its own: an existing file that begins so may be
 * overwritten. */
extern const char report_beginning[], report_plot_beginning[];

/* Writes the page of `count` results files, at least one. `comparison`: of the second file with the first, judged
 * at DEFAULT_THRESHOLD; NULL if there are not two files. STATUS_IO: a file's samples cannot be read. A failed
 * write shows in ferror(to). */
enum status report_write(struct results_file *const *files, int count, const struct comparison *comparison, FILE *to,
                         struct error *error);

/* Writes the first plot of rates as an SVG file, for other pages; it follows their light or dark colours. STATUS_USAGE:
 * nothing can be plotted. */
enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error);

#endif
