/* h5refused.h - reports why a file, or an object in it, cannot be opened. Call right after the failure, while
 * h5_error_text is about it. */
#ifndef RUNNER_H5REFUSED_H
#define RUNNER_H5REFUSED_H

#include "../../base/fail.h"
#include <hdf5.h>

/* Fails with STATUS_USAGE for a regular file that h5_open_to_read could not open: not HDF5 (and what it is), truncated,
 * damaged, or being written. */
enum status h5_fail_file(const char *path, struct error *error);

/* Fails with STATUS_USAGE for an object: it does not exist (with the nearest name), a link dangles (with its target), a
 * later HDF5 wrote it, or it is damaged. */
enum status h5_fail_object(hid_t file, const char *path, const char *name, struct error *error);

/* Describes a dangling soft or external link: "an external link to '/x' in gone.h5, which is not there". NULL: it is no
 * such link. The caller frees. */
char *h5_link_fault(hid_t file, const char *path, const char *name);

#endif
