/* h5scale.h - HDF5 Dimension Scales: data sets that hold the coordinates along an axis of another data set, as h5py,
 * netCDF4 and xarray write and read them. This module uses plain attributes and references (specification "HDF5
 * Dimension Scale") and so does not need the library hdf5_hl:
 *     on a scale       CLASS = "DIMENSION_SCALE", NAME, REFERENCE_LIST: which axes it is attached to
 *     on a data set    DIMENSION_LIST: the scales of each axis;  DIMENSION_LABELS: a text for each axis
 * These attributes may be damaged in another program's file: what cannot be parsed counts as absent. */
#ifndef RUNNER_H5SCALE_H
#define RUNNER_H5SCALE_H

#include "h5io.h"

/* The text of one axis in an attribute that has a text for each of the `rank` axes. NULL: there is no such attribute,
 * or the text is empty or not UTF-8. The caller frees. */
char *h5_axis_text(hid_t object, const char *name, int rank, int axis);
/* The label of an axis; NULL: it has none, or one that is not UTF-8. The caller frees. */
char *h5_axis_label(hid_t dataset, int axis);
/* Opens the scales of an axis and returns their number; a negative id in the list is a scale that cannot be opened. The
 * caller closes the list with h5_close_scales. */
int h5_axis_scales(hid_t dataset, int axis, hid_t **scales);
void h5_close_scales(int count, hid_t scales[]);
bool h5_axis_has_scales(hid_t dataset, int axis);
/* The numbers of an axis's first scale. NULL: it has no scale of `length` numbers, or of more than 2^20, or it
 * lies in other files. The caller frees. */
double *h5_axis_numbers(hid_t dataset, int axis, int64_t length);

/* Returns a name for a copy of the scale: the last component of its name in its file. The caller frees. */
char *h5_scale_name(hid_t scale);

/* Copies a part of a scale of any type, `count` elements every `step` from `first` on, and its attributes, into a group
 * of a file of h5_create_file. `length`: size of the axis that the scale belongs to. Returns NULL, or why it cannot be
 * copied; then no copy is left. */
const char *h5_copy_scale(hid_t scale, int64_t length, int64_t first, int64_t count, int64_t step, hid_t group,
                          const char *name);
/* The NAME of a netCDF "dimension without a variable", a scale without coordinates, begins with this text. */
#define H5_PLACEHOLDER_NAME "This is a netCDF dimension but not a netCDF variable"
/* Creates such a scale of that length. */
enum status h5_create_placeholder(hid_t group, const char *name, int64_t length, struct error *error);

/* The scales of each axis of a data set: references to data sets of its file. */
struct h5_axis_list {
    int count;
    hobj_ref_t *scales;
};
/* Sets DIMENSION_LIST of a data set with `rank` axes. */
enum status h5_set_scales(hid_t dataset, int rank, const struct h5_axis_list axes[], struct error *error);
/* Sets DIMENSION_LABELS. An entry of `labels` is NULL if the axis has no label. */
enum status h5_set_axis_labels(hid_t dataset, int rank, char *const labels[], struct error *error);
/* An axis that a scale is attached to. */
struct h5_attached {
    hobj_ref_t dataset;
    int axis;
};
/* Sets REFERENCE_LIST of a scale. */
enum status h5_set_attached(hid_t scale, int count, const struct h5_attached axes[], struct error *error);

/* Copies the attributes of an object, except those that describe its relations to other objects of its file and those
 * for which `leave_out` (may be NULL) returns true. Skips an attribute that cannot be copied. false: this HDF5 cannot
 * read all attributes, because a later version wrote types that it does not know. */
bool h5_copy_attributes(hid_t from, hid_t to, bool (*leave_out)(const char *name));
/* Copies one attribute; has the signature of a callback of H5Aiterate2; `to` points to the id of the target object. */
herr_t h5_copy_attribute(hid_t from, const char *name, const H5A_info_t *about, void *to);

#endif
