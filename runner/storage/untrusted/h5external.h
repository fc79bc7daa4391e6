/* h5external.h - external storage of HDF5: raw files that hold the elements of a data set. */
#ifndef RUNNER_H5EXTERNAL_H
#define RUNNER_H5EXTERNAL_H

#include "../../base/fail.h"
#include <hdf5.h>

/* STATUS_USAGE: a file with a part of the selection does not exist or is too short. */
enum status h5_check_external(hid_t dataset, hid_t creation, const char *path, const char *name, hid_t seen,
                              struct error *error);

#endif
