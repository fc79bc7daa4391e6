/* h5open.h - opens data sets in files that other programs wrote, for reading.
 *
 * Such a file may be damaged or malicious, so nothing in it is believed. A fence (fence.h) surrounds every use of HDF5
 * on it: a crash or an endless loop inside HDF5 becomes an error that names the file. A claim is a size that the file
 * states about itself; h5claims.h compares claims with the size of the file before memory is allocated for them. A
 * guard (h5guard.h) follows the references of a data set to other files before HDF5 does, and refuses those that the
 * job does not permit. A visit (h5visit.h) walks all links of a file, and always ends. The sources of a virtual data
 * set may be missing; h5sources.h finds and reads those that exist. A fault (h5fault.h) is the reason why a file or an
 * object in it cannot be opened. Behind the door stands struct h5_dataset (../h5/h5io.h): its type, shape and chunks
 * are checked, but its elements are not, so they are read inside a fence as well. */
#ifndef RUNNER_H5OPEN_H
#define RUNNER_H5OPEN_H

#include "../h5/h5io.h"

/* Opens a data set for reading; the caller frees *result with h5_close. STATUS_USAGE, with a message that names the
 * reason: the file does not exist, is a directory, is not permitted, not HDF5 or truncated; the data set does not exist
 * (with the nearest name), is a group, has elements that are not numbers, or has more than MAX_RANK axes. */
enum status h5_open(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* Like h5_open. `field`: only this field of a table ("a/b": field b of the table that is field a), or this part of
 * complex numbers; NULL: whole elements. */
enum status h5_open_field(const char *path, const char *name, const char *field, struct h5_dataset **result,
                          struct error *error);
/* Like h5_open_field, but a guard also follows all references of the data set; STATUS_USAGE also if `rule` does not
 * permit one. */
enum status h5_open_permitted(enum job_external rule, const char *path, const char *name, const char *field,
                              struct h5_dataset **result, struct error *error);
/* Like h5_open, but for elements of any type; only chunks can be read. */
enum status h5_open_chunks(const char *path, const char *name, struct h5_dataset **result, struct error *error);
/* Opens a file for reading, with h5_open's errors about the file; close with H5Fclose. */
enum status h5_open_file(const char *path, hid_t *file, struct error *error);
/* Opens a file of tilerun for reading, without the file lock of HDF5: tilerun has its own lock for the folder of parts,
 * some file systems support no locks, and a running job may have the file open for writing. Negative: it failed. */
hid_t h5_open_unlocked(const char *path);

/* Does the open file contain a data set `path` of that type and shape? */
bool h5_is_array(hid_t file, const char *path, enum dtype dtype, const struct shape *shape);

#endif
