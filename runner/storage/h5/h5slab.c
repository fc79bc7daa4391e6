/* h5slab.c - creates, limits and measures hyperslabs. */
#define H5_USE_110_API
#include "h5slab.h"

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

int h5_slab_unlimited_axis(hid_t space, hsize_t start[], hsize_t stride[], hsize_t count[], hsize_t block[]) {
    int rank = H5Sget_simple_extent_ndims(space);
    if (H5Sis_regular_hyperslab(space) <= 0 || H5Sget_regular_hyperslab(space, start, stride, count, block) < 0)
        return -1;
    for (int i = 0; i < rank; i++)
        if (count[i] == H5S_UNLIMITED || block[i] == H5S_UNLIMITED) return i;
    return -1;
}

hid_t h5_slab_limited(hid_t space, hsize_t slices) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, size, NULL),
        axis = h5_slab_unlimited_axis(space, start, stride, count, block);
    hsize_t each = block[axis] == H5S_UNLIMITED ? slices : block[axis], remainder = each ? slices % each : 0;
    hsize_t whole = each ? slices / each : 0;
    size[axis] = start[axis] + (whole + 1) * stride[axis] + each;
    hid_t part = H5Screate_simple(rank, size, NULL);
    count[axis] = whole;
    block[axis] = each;
    if (stride[axis] < each) stride[axis] = each;
    H5Sselect_none(part);
    if (whole) H5Sselect_hyperslab(part, H5S_SELECT_SET, start, stride, count, block);
    start[axis] += whole * stride[axis];
    count[axis] = 1;
    block[axis] = remainder;
    if (remainder) H5Sselect_hyperslab(part, H5S_SELECT_OR, start, stride, count, block);
    return part;
}

hsize_t h5_slab_slices(hid_t space, hsize_t size) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    int axis = h5_slab_unlimited_axis(space, start, stride, count, block);
    if (axis < 0 || size <= start[axis]) return 0;
    hsize_t length = size - start[axis];
    if (block[axis] == H5S_UNLIMITED) return length;
    hsize_t last = length % stride[axis];
    return length / stride[axis] * block[axis] + (last < block[axis] ? last : block[axis]);
}

bool h5_slab_reaches(hid_t seen, int axis, hsize_t size) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK];
    return size == 0 || (H5Sget_select_bounds(seen, first, last) >= 0 && last[axis] + 1 == size);
}
