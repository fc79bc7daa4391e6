/* h5slab.c - creates, limits and measures hyperslabs. */
#include "h5slab.h"

herr_t h5_slab_select(hid_t space, const struct selection *selection) {
    hsize_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
    int rank = H5Sget_simple_extent_ndims(space);
    for (int i = 0; i < rank; i++) {
        if (selection->count[i] == 0) return H5Sselect_none(space);
        start[i] = (hsize_t)selection->start[i];
        count[i] = (hsize_t)selection->count[i];
        step[i] = (hsize_t)selection->step[i];
    }
    return rank > 0 ? H5Sselect_hyperslab(space, H5S_SELECT_SET, start, step, count, NULL) : 0;
}

void h5_as_slab(hid_t space) {
    hsize_t size[H5S_MAX_RANK], start[H5S_MAX_RANK] = {0};
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    if (H5Sget_select_type(space) != H5S_SEL_ALL || rank <= 0) return;
    for (int i = 0; i < rank; i++)
        if (size[i] == 0) {
            H5Sselect_none(space);
            return;
        }
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, size, NULL);
}

hid_t h5_slab_box(int rank, const hsize_t size[]) {
    hid_t space = H5Screate_simple(rank, size, NULL);
    h5_as_slab(space);
    return space;
}

hssize_t h5_slab_points(hid_t space) {
    hssize_t count = H5Sget_select_npoints(space);
    return count < 0 ? 0 : count;
}

struct h5_slab h5_slab_of(hid_t space) {
    struct h5_slab slab = {.rank = -1, .unlimited = -1};
    if (H5Sis_regular_hyperslab(space) <= 0 ||
        H5Sget_regular_hyperslab(space, slab.start, slab.stride, slab.count, slab.block) < 0)
        return slab;
    slab.rank = H5Sget_simple_extent_ndims(space);
    for (int i = 0; i < slab.rank && slab.unlimited < 0; i++)
        if (slab.count[i] == H5S_UNLIMITED || slab.block[i] == H5S_UNLIMITED) slab.unlimited = i;
    return slab;
}

/* The last block may be cut, so the result is a regular hyperslab of complete blocks, and a part of a block. The space
 * gets a length that holds all of these. */
hid_t h5_slab_limited(hid_t space, hsize_t slices) {
    struct h5_slab slab = h5_slab_of(space);
    hsize_t size[H5S_MAX_RANK];
    const int rank = H5Sget_simple_extent_dims(space, size, NULL), axis = slab.unlimited;
    hsize_t block = slab.block[axis] == H5S_UNLIMITED ? slices : slab.block[axis];
    hsize_t blocks = block ? slices / block : 0, remainder = block ? slices % block : 0;
    size[axis] = slab.start[axis] + (blocks + 1) * slab.stride[axis] + block;
    hid_t part = H5Screate_simple(rank, size, NULL);
    slab.count[axis] = blocks;
    slab.block[axis] = block;
    if (slab.stride[axis] < block) slab.stride[axis] = block;
    H5Sselect_none(part);
    if (blocks) H5Sselect_hyperslab(part, H5S_SELECT_SET, slab.start, slab.stride, slab.count, slab.block);
    slab.start[axis] += blocks * slab.stride[axis];
    slab.count[axis] = 1;
    slab.block[axis] = remainder;
    if (remainder) H5Sselect_hyperslab(part, H5S_SELECT_OR, slab.start, slab.stride, slab.count, slab.block);
    return part;
}

hsize_t h5_slab_slices(hid_t space, hsize_t size) {
    const struct h5_slab slab = h5_slab_of(space);
    const int axis = slab.unlimited;
    if (axis < 0 || size <= slab.start[axis]) return 0;
    hsize_t length = size - slab.start[axis], block = slab.block[axis];
    if (block == H5S_UNLIMITED) return length;
    hsize_t last = length % slab.stride[axis];
    return length / slab.stride[axis] * block + (last < block ? last : block);
}

bool h5_slab_reaches(hid_t space, int axis, hsize_t size) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK];
    return size == 0 || (H5Sget_select_bounds(space, first, last) >= 0 && last[axis] + 1 == size);
}
