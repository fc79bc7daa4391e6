/* recorded_sources.h - reads the sources of a job's own kernels from a results file. */
#ifndef RUNNER_RECORDED_SOURCES_H
#define RUNNER_RECORDED_SOURCES_H

#include "../job/job.h"
#include "result_file.h"

/* Writes the recorded sources into a new temporary folder and has the job's variants use them. *folder NULL: the job
 * has no variant with a source. The caller frees the name, and removes the folder, whatever the status. STATUS_USAGE:
 * the file lacks a source. */
enum status recorded_sources_place(const struct results_file *file, struct job *job, char **folder,
                                   struct error *error);

#endif
