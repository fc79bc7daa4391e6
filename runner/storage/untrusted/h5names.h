/* h5names.h - the paths that a file name stored in an HDF5 file may mean, in the order in which HDF5 tries them. */
#ifndef RUNNER_H5NAMES_H
#define RUNNER_H5NAMES_H

#include <stdbool.h>

struct h5_names {
    int count;
    char *path[32];
};

/* Of an external link or the source of a virtual data set that stands in the file `from`: an absolute name as it is;
 * then in the folders of an environment variable (HDF5_EXT_PREFIX, HDF5_VDS_PREFIX), separated by colons, where
 * ${ORIGIN} stands for the folder of `from`; beside `from`; in the current folder; beside what `from` leads to. */
struct h5_names h5_names_of(const char *from, const char *name, const char *variable);
/* Of external storage: one path, in the folder of HDF5_EXTFILE_PREFIX, which is that of `from` unless the user has set
 * it. */
struct h5_names h5_names_external(const char *from, const char *name);
void h5_names_free(struct h5_names *names);

/* The file or data set that a mapping names: %b stands for the number of a block, %% for a %. The caller frees. */
char *h5_block_name(const char *stored, int block, bool *numbered);

#endif
