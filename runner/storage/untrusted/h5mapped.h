/* h5mapped.h - what a virtual data set or one with external storage lies in: is all there that a selection shows, and
 * reading what is there. */
#ifndef RUNNER_H5MAPPED_H
#define RUNNER_H5MAPPED_H

#include "../h5/h5io.h"

/* Opens a virtual data set anew so that its shape counts all numbered sources that are there, not those before the
 * first that is missing. Takes `dataset` and returns the one to use; negative: it failed. */
hid_t h5_reopen_past_gaps(hid_t dataset);

/* Finds what of the selection no source has. STATUS_USAGE, with path and name in the sentence: external storage is
 * lacking, or a source is there but cannot be read. The caller frees lack->first, whatever the status. */
enum status h5_find_absent(hid_t dataset, const char *path, const char *name, const struct selection *seen,
                           struct h5_absent *absent, struct error *error);

/* Of a whole virtual data set of the file at `path` the first source that is not there or cannot be read: "'/x' in
 * a.h5, which is not there". NULL: all are, or it is not virtual. The caller frees. */
char *h5_absent_source(hid_t dataset, const char *path);

/* H5Dread, but that each source is opened and closed in turn, and what none has are fill values: where HDF5 would fail
 * or need too many open files. */
herr_t h5_read_by_source(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data);

#endif
