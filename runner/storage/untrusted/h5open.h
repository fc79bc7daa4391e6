/* h5open.h - opens files and data sets of other programs for reading. */
#ifndef RUNNER_H5OPEN_H
#define RUNNER_H5OPEN_H

#include "../h5/h5io.h"

/* Opens a data set for reading; the caller frees *result with h5_close. STATUS_USAGE, with a message that says which:
 * no such file, a directory, no permission, not HDF5, truncated, no such data set (with the nearest name), a group, a
 * type that is not a number, more than 8 axes. */
enum status h5_open(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* The same for a field of a table ("a/b" for a table in it), or a part of complex numbers; NULL: no field. */
enum status h5_open_field(const char *path, const char *name, const char *field, struct h5_dataset **result,
                          struct error *error);
/* The same for a data set that refers to nothing that `rule` forbids; STATUS_USAGE also if it does. */
enum status h5_open_permitted(enum job_external rule, const char *path, const char *name, const char *field,
                              struct h5_dataset **result, struct error *error);
/* The same for elements of any type; only chunks can be read. */
enum status h5_open_chunks(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* Opens a file for reading, with the same errors; close with H5Fclose. */
enum status h5_open_file(const char *path, hid_t *file, struct error *error);
/* Opens a file of tilerun for reading, without the file lock of HDF5: tilerun has its own lock for the folder of parts,
 * some file systems support no locks, and a running job may have the file open for writing. Negative: it failed. */
hid_t h5_open_unlocked(const char *path);

/* Does the open file contain a data set `path` of that type and shape? */
bool h5_is_array(hid_t file, const char *path, enum dtype dtype, const struct shape *shape);

#endif
