/* report.h - writes results as one HTML page that needs no network and no other file, and can be read without
 * scripts. */
#ifndef RUNNER_REPORT_H
#define RUNNER_REPORT_H

#include "../show/result_file.h"

/* The beginning of every report, and of every plot in a file of its own: an existing file that begins so may be
 * overwritten. */
extern const char report_beginning[], report_plot_beginning[];

/* A run of the second of two files beside its partner in the first, as `tilerun compare` judges them. */
struct report_change {
    const char *verdict, *reason; /* "SLOWER", "noisy" or ""; NULL: the run has no partner */
    const char *worse;            /* what got worse; NULL: nothing */
    double ratio, low, high;      /* of the times, and its interval; 0 and infinity: no interval; NaN: unknown */
};
struct report_changes {
    const struct report_change *of; /* of each run of the second file; NULL: there are not two files to compare */
    const char *summary;            /* sentences that count the verdicts */
};

/* Writes the page of `count` results files, at least one. STATUS_IO: a file's samples cannot be read. A failed write
 * shows in ferror(to). */
enum status report_write(struct results_file *const *files, int count, const struct report_changes *changes, FILE *to,
                         struct error *error);

/* Writes the first plot of rates as an SVG file, for other pages; it follows their light or dark colours. STATUS_USAGE:
 * nothing can be plotted. */
enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error);

#endif
