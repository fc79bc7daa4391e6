/* h5sources.h - the files that a data set is read from: the one that is named, and those that it leads to. */
#ifndef RUNNER_H5SOURCES_H
#define RUNNER_H5SOURCES_H

#include <stdbool.h>
#include <sys/stat.h>

/* Does reading data set `name` of the HDF5 file at `path` open this file? Through external links, the mappings of
 * virtual data sets, and external storage, nested as they may be. Where HDF5 would look in several folders for a name,
 * a file in any of them counts. What cannot be opened reads nothing. */
bool h5_reads_file(const char *path, const char *name, const struct stat *file);

#endif
