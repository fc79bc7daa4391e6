/* recorded.h - the inputs of an earlier run, as its results file records them: where they are now, and whether their
 * values are still the same. */
#ifndef RUNNER_RECORDED_H
#define RUNNER_RECORDED_H

#include "result_file.h"

/* Points a job's inputs in files to where they are: in `folder` (NULL: none), by the path that the job gives or by the
 * file's name alone; else at the recorded path. STATUS_USAGE, with all places that were looked at: one is nowhere. */
enum status recorded_inputs_find(const struct results_file *file, struct job *job, const char *folder,
                                 struct error *error);

/* Reads all inputs in files and compares the hashes of their values with the recorded ones. STATUS_RUN, with all that
 * have changed: not all are the same. */
enum status recorded_inputs_check(const struct results_file *file, const struct plan *plan, struct error *error);

#endif
