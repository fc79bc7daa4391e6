/* h5refused.h - why a file, or an object in it, could not be opened. Called at once, while h5_error_text is about that. */
#ifndef RUNNER_H5REFUSED_H
#define RUNNER_H5REFUSED_H

#include "../../base/fail.h"
#include <hdf5.h>

/* STATUS_USAGE, of a regular file that h5_open_to_read could not open: not HDF5 and what instead, truncated, damaged,
 * being written. */
enum status h5_fail_file(const char *path, struct error *error);

/* STATUS_USAGE, of an object: there is none (with the nearest name), a link dangles (with the file that it names), a
 * later HDF5 has written it, it is damaged. */
enum status h5_fail_object(hid_t file, const char *path, const char *name, struct error *error);

/* Of a soft or external link that leads nowhere what it is: "an external link to '/x' in gone.h5, which is not there".
 * NULL: it is no such link. The caller frees. */
char *h5_link_fault(hid_t file, const char *path, const char *name);

#endif
