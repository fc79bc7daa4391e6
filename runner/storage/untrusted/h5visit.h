/* h5visit.h - the links below a group. */
#ifndef RUNNER_H5VISIT_H
#define RUNNER_H5VISIT_H

#include <hdf5.h>

/* Calls each(group, name, link, context) for every link below the group, as H5Lvisit does: names count from the group,
 * a group comes before what is in it, and is gone into once; by name in `order`. What `each` returns other than 0 ends
 * the visit and is returned.
 *
 * H5Lvisit believes a file that says of a group that one link leads there, and then goes round in circles for ever.
 * Here groups are known by their addresses. Negative, with HDF5's error stack saying why: a group cannot be read,
 * groups are nested more than 256 deep, a path is longer than 4095 bytes, or there are more links than the file has
 * room for. */
herr_t h5_visit(hid_t group, H5_iter_order_t order, H5L_iterate_t each, void *context);

#endif
