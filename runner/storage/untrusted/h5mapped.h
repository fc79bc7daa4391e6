/* h5mapped.h - checks that the sources of a virtual data set, or the files of external storage, exist, and reads those
 * that exist. */
#ifndef RUNNER_H5MAPPED_H
#define RUNNER_H5MAPPED_H

#include "../h5/h5io.h"

/* Opens a virtual data set again so that its shape includes all numbered sources that exist, not only those before the
 * first gap. Closes `dataset` and returns the id to use; negative: it failed. */
hid_t h5_reopen_past_gaps(hid_t dataset);

/* Finds the elements of the selection that no source has. STATUS_USAGE, naming path and data set: a file of external
 * storage is missing, or a source exists but cannot be read. The caller frees absent->first, whatever the status. */
enum status h5_find_absent(hid_t dataset, const char *path, const char *name, const struct selection *seen,
                           struct h5_absent *absent, struct error *error);

/* The first source of a virtual data set in the file at `path` that does not exist or cannot be read: "'/x' in a.h5,
 * which is not there". NULL: none, or the data set is not virtual. The caller frees. */
char *h5_absent_source(hid_t dataset, const char *path);

/* Replaces H5Dread where that would fail or need too many open files: opens and closes each source in turn, and fills
 * elements that no source has with the fill value. */
herr_t h5_read_by_source(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data);

#endif
