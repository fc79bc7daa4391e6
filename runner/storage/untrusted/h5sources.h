/* h5sources.h - finds the sources of a virtual data set that do not exist or cannot be read, and reads it without them.
 * Sources are the data sets, mostly in other files, that hold its elements. */
#ifndef RUNNER_H5SOURCES_H
#define RUNNER_H5SOURCES_H

#include "../h5/h5io.h"

/* Opens a virtual data set again so that its shape includes all numbered sources that exist, also those after a missing
 * one. Closes `dataset` and returns the id to use; negative: it failed. Returns other data sets as they are. */
hid_t h5_reopen_past_gaps(hid_t dataset);

/* Finds the elements of the selection `seen` (NULL: of all) that no source has. STATUS_USAGE: a file of external
 * storage is missing, or a source exists but its type or filters cannot be read; the message names `path` and `name`.
 * The caller frees absent->first, whatever the status. */
enum status h5_find_absent(hid_t dataset, const char *path, const char *name, const struct selection *seen,
                           struct h5_absent *absent, struct error *error);

/* Returns the first source of a virtual data set in the file at `path` that does not exist or cannot be read: "'/x' in
 * a.h5, which is not there". NULL: all can be read, or the data set is not virtual. The caller frees. */
char *h5_absent_source(hid_t dataset, const char *path);

/* Replaces H5Dread if H5Dread would fail or need too many open files: opens and closes each source in turn, and sets
 * the elements that no source has to the fill value. */
herr_t h5_read_by_source(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data);

#endif
