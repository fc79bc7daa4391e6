/* results_open.h - opens results for commands that look at them, finished or not. */
#ifndef RUNNER_RESULTS_OPEN_H
#define RUNNER_RESULTS_OPEN_H

#include "../show/result_file.h"

/* Opens a results file and says in `standing` how far its job is. Where OUTPUT does not exist but OUTPUT.parts does, of
 * a job that is running or was interrupted, the rows are those of its finished runs, and the file has samples but
 * neither attributes nor a job nor outputs. Changes and locks nothing that a running job uses. STATUS_USAGE: there is
 * neither. The caller frees *file with results_file_close. */
enum status command_results_open(const char *path, struct results_file **file, struct error *error);

#endif
