/* h5newer.h - objects that a later HDF5 library has written. */
#ifndef RUNNER_H5NEWER_H
#define RUNNER_H5NEWER_H

#include <hdf5.h>

/* Of an object that this HDF5 cannot open, for the reason that `words` (h5_error_text) give: what it needs, "needs HDF5 2.0
 * (layout message version 5); this is 1.10.8; `h5repack` makes a copy it can read". NULL: it is no matter of versions.
 * The caller frees. */
char *h5_needs_newer(hid_t file, const char *name, const char *words);

#endif
