/* h5sources.h - finds the files that a data set is read from: its own file, and all files that it refers to. */
#ifndef RUNNER_H5SOURCES_H
#define RUNNER_H5SOURCES_H

#include <hdf5.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Does reading data set `name` of the HDF5 file at `path` open the file `file`? Follows external links, mappings of
 * virtual data sets and external storage, nested up to 16 deep. If HDF5 would look for a name in several folders, a
 * file in any of them counts. A file that cannot be opened refers to nothing. */
bool h5_reads_file(const char *path, const char *name, const struct stat *file);

#endif
