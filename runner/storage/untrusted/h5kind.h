/* h5kind.h - what a data set of somebody's file is for: values to compute with, coordinates, indices, or what a library
 * keeps for itself. `tilerun inspect` shows and proposes by that; a job may read any of them. */
#ifndef RUNNER_H5KIND_H
#define RUNNER_H5KIND_H

#include <hdf5.h>

enum h5_kind {
    H5_VALUES,
    H5_SINGLE,      /* one element */
    H5_CODES,       /* indices, codes and ids */
    H5_COORDINATES, /* what the positions along an axis are */
    /* From here on it is no input to propose, and is listed as one line for a group of them. */
    H5_NO_INPUT,
    H5_SCALAR = H5_NO_INPUT,
    H5_SPARSE,       /* part of a sparse matrix */
    H5_PLACEHOLDER,  /* netCDF's dimension without a variable */
    H5_MATLAB_TEXT,  /* as the numbers of its characters */
    H5_MATLAB_EMPTY, /* holds the shape of an empty array */
    H5_SEARCH_INDEX, /* PyTables' index of a table's column */
    H5_REFERENCED,   /* what MATLAB's cells and objects refer to */
    H5_ALIAS,        /* another link to a data set of the list */
    H5_KINDS
};

/* "coordinates"; "scalar", "scalars". */
const char *h5_kind_name(enum h5_kind kind, double count);

/* What a field of a table is for, by its name alone. */
enum h5_kind h5_kind_of_field(const char *name);

/* What a data set's attributes say of it. */
enum {
    H5_MARK_SCALE = 1,
    H5_MARK_PLACEHOLDER = 2,
    H5_MARK_MATLAB = 4, /* MATLAB wrote it: its axes are in reverse order */
    H5_MARK_TEXT = 8,
    H5_MARK_LOGICAL = 16,
    H5_MARK_EMPTY = 32,
    H5_MARK_ANY = 64 /* it has attributes */
};
unsigned h5_attribute_marks(hid_t dataset);

/* Finds `kind`, `same_as` and `note` of each entry of a list, which is in the order of names. `below`: the bytes of the
 * name of the group that was asked for. */
struct h5_list;
void h5_find_kinds(hid_t file, struct h5_list *list, size_t below);

#endif
