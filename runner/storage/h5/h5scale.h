/* h5scale.h - HDF5's Dimension Scales: data sets that say what the positions along another one's axis are (its
 * coordinates), as h5py, netCDF4 and xarray write and read them. Written here with HDF5's plain attributes and
 * references (the specification "HDF5 Dimension Scale"), which spares the library hdf5_hl:
 *     on a scale       CLASS = "DIMENSION_SCALE", NAME, REFERENCE_LIST: which axes it is attached to
 *     on a data set    DIMENSION_LIST: the scales of each axis;  DIMENSION_LABELS: a text for each axis
 * What another program's file has of these may be damaged: what cannot be understood counts as absent. */
#ifndef RUNNER_H5SCALE_H
#define RUNNER_H5SCALE_H

#include "h5io.h"

/* The text for an axis in an attribute that has one for each of the `rank` axes; NULL: none, or not UTF-8. The caller
 * frees. */
char *h5_axis_text(hid_t object, const char *name, int rank, int axis);
/* The label of an axis; NULL: none, or not UTF-8. The caller frees. */
char *h5_axis_label(hid_t dataset, int axis);
/* Opens the scales of an axis and returns how many there are; negative ids in the list are of scales that cannot be
 * opened. The caller closes the others with H5Dclose, and frees the list. */
int h5_axis_scales(hid_t dataset, int axis, hid_t **scales);
bool h5_axis_has_scales(hid_t dataset, int axis);

/* The name to give to a copy: that of the scale's link in its file. The caller frees. */
char *h5_scale_name(hid_t scale);

/* Copies every step-th element of a scale of any type from `first` on, `count` of them, with its attributes, into a
 * group of a file of h5_create_file. `length`: of the axis that the scale belongs to. Returns NULL, or why it cannot be
 * copied; nothing is then left of the copy. */
const char *h5_copy_scale(hid_t scale, int64_t length, int64_t first, int64_t count, int64_t step, hid_t group,
                          const char *name);
/* netCDF's "dimension without a variable": a scale without coordinates. Its NAME begins with these words. */
#define H5_PLACEHOLDER_NAME "This is a netCDF dimension but not a netCDF variable"
enum status h5_create_placeholder(hid_t group, const char *name, int64_t length, struct error *error);

/* The scales of each axis of a data set: references to data sets of its file. */
struct h5_axis_list {
    int count;
    hobj_ref_t *scales;
};
enum status h5_set_scales(hid_t dataset, int rank, const struct h5_axis_list axes[], struct error *error);
/* `labels`: NULL where an axis has none. */
enum status h5_set_axis_labels(hid_t dataset, int rank, char *const labels[], struct error *error);
/* The axes that a scale is attached to. */
struct h5_attached {
    hobj_ref_t dataset;
    int axis;
};
enum status h5_set_attached(hid_t scale, int count, const struct h5_attached axes[], struct error *error);

/* Copies the attributes of an object that do not say how it lies among others in its file, but for those that
 * `leave_out` (NULL: none) names. false: this HDF5 cannot read them all, since a later one has written types that it
 * does not know. One that cannot be copied is left out. */
bool h5_copy_attributes(hid_t from, hid_t to, bool (*leave_out)(const char *name));
/* Copies an attribute, as H5Aiterate2 calls it; `to` points to the object's id. */
herr_t h5_copy_attribute(hid_t from, const char *name, const H5A_info_t *about, void *to);

#endif
