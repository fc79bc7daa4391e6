/* h5newer.h - recognises objects that a later HDF5 library wrote. */
#ifndef RUNNER_H5NEWER_H
#define RUNNER_H5NEWER_H

#include <hdf5.h>

/* For an object that this HDF5 cannot open; `error_text` is h5_error_text of the failure. Returns what the object
 * needs, "needs HDF5 2.0 (layout message version 5); this is 1.10.8; `h5repack` makes a copy it can read". NULL: the
 * version is not the reason. The caller frees. */
char *h5_needs_newer(hid_t file, const char *name, const char *error_text);

#endif
