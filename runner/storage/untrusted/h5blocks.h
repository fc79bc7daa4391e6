/* h5blocks.h - numbered sources of a mapping, such as "run-%b.h5": they provide block 0, 1, 2, ... of the virtual data
 * set. HDF5 stops at the first that is missing; this module also finds those after a gap. */
#ifndef RUNNER_H5BLOCKS_H
#define RUNNER_H5BLOCKS_H

#include <hdf5.h>

#define H5_MOST_BLOCKS (1 << 20)

/* For a mapping in the file `from`: returns the number of the last block that exists, readable or not; -1: none exists.
 * *found: how many blocks exist up to it. `links`: link access properties. Returns 0 for a name without a number. */
int h5_last_block(const char *from, const char *file, const char *dataset, hid_t links, int *found);

#endif
