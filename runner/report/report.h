/* report.h - results as one HTML page that needs nothing else: no network, no other file, no script for reading it. */
#ifndef RUNNER_REPORT_H
#define RUNNER_REPORT_H

#include "../show/result_file.h"

/* How every report begins, and every plot that is no part of one, so that an earlier one is recognized. */
extern const char report_beginning[], report_plot_beginning[];

/* Writes the page of `count` results files, at least one. STATUS_IO: a file's samples cannot be read. A failed write
 * shows in ferror(to). */
enum status report_write(struct results_file *const *files, int count, FILE *to, struct error *error);

/* Writes the first of its plots of rates, as SVG: a picture for other pages, light or dark as they are. STATUS_USAGE:
 * nothing can be plotted. */
enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error);

#endif
