/* h5slab.h - hyperslab selections of HDF5 data spaces, as mappings of virtual data sets use them. */
#ifndef RUNNER_H5SLAB_H
#define RUNNER_H5SLAB_H

#include <hdf5.h>
#include <stdbool.h>

/* Turns a selection of all elements (H5S_ALL) into a hyperslab. */
void h5_as_slab(hid_t space);
/* Creates a space of the given size with all of it selected; close with H5Sclose. */
hid_t h5_slab_box(int rank, const hsize_t size[]);
/* The number of selected elements; 0 if HDF5 cannot count them. */
hssize_t h5_slab_points(hid_t space);

/* Returns the axis along which a hyperslab is unlimited, and its parameters; -1: none. */
int h5_slab_unlimited_axis(hid_t space, hsize_t start[], hsize_t stride[], hsize_t count[], hsize_t block[]);
/* Copies an unlimited hyperslab, limited to `slices` indices along that axis; close with H5Sclose. */
hid_t h5_slab_limited(hid_t space, hsize_t slices);
/* The number of indices below `size` that an unlimited hyperslab selects along its axis. */
hsize_t h5_slab_slices(hid_t space, hsize_t size);
/* Does a selection contain the last index of an axis of size `size`? */
bool h5_slab_reaches(hid_t space, int axis, hsize_t size);

#endif
