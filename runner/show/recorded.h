/* recorded.h - finds the inputs and sources that a results file records, for a job that is run again. */
#ifndef RUNNER_RECORDED_H
#define RUNNER_RECORDED_H

#include "result_file.h"

/* Sets the paths of a job's input files to existing files. Searches in `folder` (NULL: there is none), first by the
 * path in the job and then by the file's name, and finally tries the recorded path. STATUS_USAGE, with the paths that
 * were tried: an input was not found. */
enum status recorded_inputs_find(const struct results_file *file, struct job *job, const char *folder,
                                 struct error *error);

/* Reads all input files and compares the hashes of their values with the recorded ones. STATUS_RUN, with the first
 * inputs that have changed: some have. Prints inputs whose hash is not recorded. */
enum status recorded_inputs_check(const struct results_file *file, const struct plan *plan, struct error *error);

/* Writes the recorded sources into a new temporary folder and has the job's variants use them. *folder NULL: the job
 * has no variant with a source. The caller frees the name, and removes the folder, whatever the status. STATUS_USAGE:
 * the file lacks a source. */
enum status recorded_sources_place(const struct results_file *file, struct job *job, char **folder,
                                   struct error *error);

#endif
