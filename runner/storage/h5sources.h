/* h5sources.h - the files that a data set is read from: the one that is named, and all that it refers to. */
#ifndef RUNNER_H5SOURCES_H
#define RUNNER_H5SOURCES_H

#include <hdf5.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Does reading data set `name` of the HDF5 file at `path` open the file `file`? Follows external links, the mappings of
 * virtual data sets and external storage, nested up to 16 deep. If HDF5 would look for a name in several folders, a
 * file in any of them counts. A file that cannot be opened refers to nothing. */
bool h5_reads_file(const char *path, const char *name, const struct stat *file);

/* A virtual data set of the open file at `path`: the first of its source files, as the mapping names it, that HDF5
 * would not find or not open, so that it would read fill values without a word. NULL: all are there, or it is not
 * virtual. The caller frees. */
char *h5_lacking_source(hid_t dataset, const char *path);

#endif
