/* h5slab.h - hyperslabs: regular selections of the elements of an HDF5 data space, as transfers and the mappings of
 * virtual data sets use them. */
#ifndef RUNNER_H5SLAB_H
#define RUNNER_H5SLAB_H

#include "../elements/selection.h"
#include <hdf5.h>

/* Selects the elements of `selection`, which may have more axes than the space. */
herr_t h5_slab_select(hid_t space, const struct selection *selection);
/* Turns a selection of all elements (H5S_ALL) into a hyperslab. */
void h5_as_slab(hid_t space);
/* Creates a space of the given size with all of it selected; close with H5Sclose. */
hid_t h5_slab_box(int rank, const hsize_t size[]);
/* The number of selected elements; 0 if HDF5 cannot count them. */
hssize_t h5_slab_points(hid_t space);

/* The parameters of a regular hyperslab, as H5Sselect_hyperslab takes them. */
struct h5_slab {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    int rank;      /* -1: the selection is not a regular hyperslab */
    int unlimited; /* the axis along which it is unlimited; -1: none */
};
struct h5_slab h5_slab_of(hid_t space);
/* Copies an unlimited hyperslab, limited to `slices` indices along its unlimited axis; close with H5Sclose. */
hid_t h5_slab_limited(hid_t space, hsize_t slices);
/* The number of indices below `size` that an unlimited hyperslab selects along its axis. */
hsize_t h5_slab_slices(hid_t space, hsize_t size);
/* Does a selection contain the last index of an axis of size `size`? */
bool h5_slab_reaches(hid_t space, int axis, hsize_t size);

#endif
