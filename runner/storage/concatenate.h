/* concatenate.h - describes an input that is put together of one data set from each of several files, one behind the
 * other along an axis. It is read by pieces (pieces.h), each past HDF5 where that can be. */
#ifndef RUNNER_CONCATENATE_H
#define RUNNER_CONCATENATE_H

#include "array.h"

/* array_describe for such an input. Units and long_name are those that all files agree on; labels and scales of the
 * other axes are the first file's. STATUS_USAGE: no file matches, one cannot be read, or it differs from the first in
 * its type or in the size of another axis. */
enum status concatenate_describe(const struct job_input *input, struct array *array, struct error *error);

#endif
