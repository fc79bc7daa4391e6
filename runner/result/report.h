/* report.h - results as one HTML page that needs nothing else: no network, no other file, no script for reading it. */
#ifndef RUNNER_REPORT_H
#define RUNNER_REPORT_H

#include "result_file.h"

/* How every report begins, so that an earlier one is recognized. */
extern const char report_beginning[];

/* Writes the page of `count` results files, at least one. STATUS_IO: a file's samples cannot be read. A failed write
 * shows in ferror(to). */
enum status report_write(struct results_file *const *files, int count, FILE *to, struct error *error);

#endif
