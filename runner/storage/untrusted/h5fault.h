/* h5fault.h - finds a fault: the reason why a file, or an object in it, cannot be opened, in words for the user. Call
 * these functions right after the failure, while h5_error_text is about it. */
#ifndef RUNNER_H5FAULT_H
#define RUNNER_H5FAULT_H

#include "../../base/fail.h"
#include "../../base/texts.h"
#include "h5names.h"

/* Reports the fault of a regular file that h5_open_to_read could not open: it is not HDF5 (and which format it has),
 * truncated, damaged, or being written. Returns STATUS_USAGE. */
enum status h5_fail_file(const char *path, struct error *error);

/* Opens the first of the files that HDF5 can open. Negative: it can open none of them; then `error` is about the first
 * regular file, and has STATUS_OK if no file is regular. *number: the file that was opened, or that `error` is
 * about. */
hid_t h5_open_first(const struct texts *names, int *number, struct error *error);

/* Reports the fault of an object: it does not exist (with the nearest name), a link leads nowhere (with its target), a
 * later HDF5 wrote it, or it is damaged. Returns STATUS_USAGE. */
enum status h5_fail_object(hid_t file, const char *path, const char *name, struct error *error);

/* Describes a soft or external link that leads nowhere: "an external link to '/x' in gone.h5, which is not there".
 * NULL: `name` is a hard link, or no link. The caller frees. */
char *h5_link_fault(hid_t file, const char *path, const char *name);

/* ---- two of the reasons: h5newer.c and h5foreign.c -------------------------------------------------------------- */

/* For an object that this HDF5 cannot open; `error_text` is h5_error_text of the failure. Returns which version the
 * object needs, "needs HDF5 2.0 (layout message version 5); this is 1.10.8; `h5repack` makes a copy it can read". NULL:
 * the version is not the reason. The caller frees. */
char *h5_needs_newer(hid_t file, const char *name, const char *error_text);

/* Returns the format of a file or folder without the HDF5 signature, and how to convert it: "is not an HDF5 file but a
 * netCDF-3 file: `nccopy -k nc4 IN OUT` makes one". NULL: the format is not known. */
const char *h5_foreign_format(const char *path);
/* Returns what a file is that only a driver of HDF5 can open, together with other files, and how to join them; NULL: it
 * is no such file. */
const char *h5_driver_format(const char *path);

#endif
