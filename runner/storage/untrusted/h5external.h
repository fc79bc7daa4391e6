/* h5external.h - data sets whose elements lie in files of no format: HDF5's external storage. */
#ifndef RUNNER_H5EXTERNAL_H
#define RUNNER_H5EXTERNAL_H

#include "../../base/fail.h"
#include <hdf5.h>

/* STATUS_USAGE: a file that has a part of the selection is not there, or too short. */
enum status h5_check_external(hid_t dataset, hid_t creation, const char *path, const char *name, hid_t seen,
                              struct error *error);

#endif
