/* h5open.h - opens other programs' files and data sets for reading. */
#ifndef RUNNER_H5OPEN_H
#define RUNNER_H5OPEN_H

#include "../h5/h5io.h"

/* Opens a data set for reading; the caller frees *result with h5_close. STATUS_USAGE, with a sentence that says which:
 * no such file, a directory, no permission, not HDF5, truncated, no such data set (with the nearest name), a group, a
 * compound, string or otherwise unusable type, more than 8 axes. */
enum status h5_open(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* The same of a field of a table ("a/b": of a table in it), or of a part of complex numbers; NULL: none. */
enum status h5_open_field(const char *path, const char *name, const char *field, struct h5_dataset **result,
                          struct error *error);
/* The same of a data set that leads to nothing else than `rule` permits; STATUS_USAGE also if it does. */
enum status h5_open_permitted(enum job_external rule, const char *path, const char *name, const char *field,
                              struct h5_dataset **result, struct error *error);
/* The same of elements of any type, which are not to be read: their chunks are. */
enum status h5_open_chunks(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* Opens only the file, for reading, with the same errors; close with H5Fclose. */
enum status h5_open_file(const char *path, hid_t *file, struct error *error);
/* Opens one of tilerun's own files for reading, without HDF5's lock: tilerun guards the folder of parts by a lock of its
 * own, some file systems have none, and a job that is at work may have the file open for writing. Negative: it failed. */
hid_t h5_open_unlocked(const char *path);

/* Is there a data set of that type and shape in an open file? */
bool h5_is_array(hid_t file, const char *path, enum dtype dtype, const struct shape *shape);

#endif
