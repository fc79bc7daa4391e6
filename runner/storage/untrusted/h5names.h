/* h5names.h - resolves the file names that an HDF5 file contains, in external links, sources and external storage: to
 * the paths that HDF5 tries, in its order; and, for numbered sources, to the numbers that exist. */
#ifndef RUNNER_H5NAMES_H
#define RUNNER_H5NAMES_H

#include "../../base/texts.h"
#include <hdf5.h>
#include <stdbool.h>

/* Returns the paths for the target of an external link, or for a source of a virtual data set, in the file `from`:
 *     1. an absolute name as it is; then the last component of an absolute name, or a relative name, in:
 *     2. each folder of an environment variable (HDF5_EXT_PREFIX, HDF5_VDS_PREFIX), which colons separate; ${ORIGIN}
 *        stands for the folder of `from`
 *     3. the folder of `from`
 *     4. the current folder
 *     5. the folder of the target of `from`, if `from` is a symbolic link */
struct texts h5_names_of(const char *from, const char *name, const char *variable);
/* Returns the only path of a file of external storage: in the folder of HDF5_EXTFILE_PREFIX, which is the folder of
 * `from` unless the user has set the variable. */
struct texts h5_names_external(const char *from, const char *name);

/* Numbered sources of a mapping, such as "run-%b.h5", provide block 0, 1, 2, ... of the virtual data set.
 *
 * h5_block_name expands a name of a mapping: %b to the number of a block, %% to %. *numbered: the name contains a %b.
 * The caller frees. */
char *h5_block_name(const char *stored, int block, bool *numbered);

#define H5_MAX_BLOCKS (1 << 20)
/* Returns the number of the last block that exists, readable or not, even after a missing one, at which HDF5 stops; -1:
 * none exists; 0 for names without a number. `from`: the file with the mapping; `links`: link access properties.
 * *found: how many blocks exist up to the last. */
int h5_last_block(const char *from, const char *file, const char *dataset, hid_t links, int *found);

#endif
