/* h5visit.h - visits every link below a group, as H5Lvisit does, but always ends, whatever the file contains. */
#ifndef RUNNER_H5VISIT_H
#define RUNNER_H5VISIT_H

#include <hdf5.h>

/* Calls callback(group, name, link, context) for every link below the group, sorted by name in `order`. Names are
 * relative to the group; a group comes before its members, and is entered only once. If the callback returns a value
 * other than 0, the visit ends and returns that value.
 *
 * H5Lvisit trusts the link count of a group, and loops for ever if a file states 1 for a group that is part of a cycle.
 * This function identifies groups by their addresses. Calls damaged(group, name, link, context) for an object that
 * cannot be read, or a group whose links cannot be read, and goes on; without `damaged` it goes on in silence.
 * Negative, with the reason on the HDF5 error stack: the group itself cannot be read, groups are nested more than 256
 * deep, a path is longer than 4095 bytes, or there are more links than the file has space for. */
herr_t h5_visit(hid_t group, H5_iter_order_t order, H5L_iterate_t callback, H5L_iterate_t damaged, void *context);

#endif
