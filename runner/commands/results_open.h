/* results_open.h - opens results for commands that read them, finished or not. */
#ifndef RUNNER_RESULTS_OPEN_H
#define RUNNER_RESULTS_OPEN_H

#include "../show/result_file.h"

/* Opens a results file; `standing` reports how far its job is. If OUTPUT does not exist but OUTPUT.parts does, the rows
 * are the finished runs of a running or interrupted job, and the file has samples but no attributes, job or outputs.
 * Changes and locks nothing that a running job uses. STATUS_USAGE: neither exists. Free *file with results_file_close.
 */
enum status command_results_open(const char *path, struct results_file **file, struct error *error);

#endif
