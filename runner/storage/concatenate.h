/* concatenate.h - describes an input that joins one data set from each of several files along an axis. pieces.h reads
 * it, without HDF5 where that is possible. */
#ifndef RUNNER_CONCATENATE_H
#define RUNNER_CONCATENATE_H

#include "array.h"

/* array_describe for a concatenated input. Units and long_name are kept if all files agree; labels and scales of the
 * other axes are those of the first file. STATUS_USAGE: no file matches, a file cannot be read, or it differs from the
 * first in its type or in the size of another axis. */
enum status concatenate_describe(const struct job_input *input, struct array *array, struct error *error);

#endif
