/* h5blocks.h - the sources of a mapping whose name has a number in it, "run-%b.h5": block 0, 1, 2, ... of the virtual
 * data set. HDF5 stops at the first that is missing; here those behind it count, too. */
#ifndef RUNNER_H5BLOCKS_H
#define RUNNER_H5BLOCKS_H

#include <hdf5.h>

#define H5_MOST_BLOCKS (1 << 20)

/* Of a mapping in the file `from`: the last block that is there, whether or not it can be read; -1: none. *found: how
 * many there are up to it. `links`: with which external links are followed. 0 of a name without a number. */
int h5_last_block(const char *from, const char *file, const char *dataset, hid_t links, int *found);

#endif
