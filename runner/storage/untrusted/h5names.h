/* h5names.h - finds the paths that a file name inside an HDF5 file may mean, in the order in which HDF5 tries them. */
#ifndef RUNNER_H5NAMES_H
#define RUNNER_H5NAMES_H

#include <stdbool.h>

struct h5_names {
    int count;
    char *path[32];
};

/* Paths for the target of an external link, or a source of a virtual data set, in the file `from`: an absolute name as
 * it is; then in the folders of an environment variable (HDF5_EXT_PREFIX, HDF5_VDS_PREFIX), separated by colons, where
 * ${ORIGIN} is the folder of `from`; in the folder of `from`; in the current folder; in the folder of the file behind
 * `from`, if that is a symbolic link. */
struct h5_names h5_names_of(const char *from, const char *name, const char *variable);
/* The path of a file of external storage: in the folder of HDF5_EXTFILE_PREFIX, which is the folder of `from` unless
 * the user has set it. */
struct h5_names h5_names_external(const char *from, const char *name);
void h5_names_free(struct h5_names *names);

/* Expands a name of a mapping: %b to the number of a block, %% to %. *numbered: it contains a %b. The caller frees. */
char *h5_block_name(const char *stored, int block, bool *numbered);

#endif
