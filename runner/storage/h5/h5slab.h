/* h5slab.h - HDF5's hyperslabs: selections of an HDF5 space, as the mappings of virtual data sets have them. */
#ifndef RUNNER_H5SLAB_H
#define RUNNER_H5SLAB_H

#include <hdf5.h>
#include <stdbool.h>

/* Makes a hyperslab of what is selected as `all`. */
void h5_as_slab(hid_t space);
/* A space of that size, selected whole; close with H5Sclose. */
hid_t h5_slab_box(int rank, const hsize_t size[]);
/* The elements that are selected; 0 where they cannot be counted. */
hssize_t h5_slab_points(hid_t space);

/* The axis along which a hyperslab has no end, and its terms; -1: none. */
int h5_slab_unlimited_axis(hid_t space, hsize_t start[], hsize_t stride[], hsize_t count[], hsize_t block[]);
/* A copy of an endless hyperslab with `slices` indices along that axis; close with H5Sclose. */
hid_t h5_slab_limited(hid_t space, hsize_t slices);
/* Indices that an endless hyperslab has along its axis up to `size`. */
hsize_t h5_slab_slices(hid_t space, hsize_t size);
/* Does a selection show the last index along an axis of that size? */
bool h5_slab_reaches(hid_t space, int axis, hsize_t size);

#endif
