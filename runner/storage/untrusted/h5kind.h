/* h5kind.h - finds the kind of another program's data set: values to compute with, coordinates, indices, or internal
 * data of a library. `tilerun inspect` lists data sets by kind, and proposes only some kinds as inputs; a job may read
 * any but stand-ins. */
#ifndef RUNNER_H5KIND_H
#define RUNNER_H5KIND_H

#include <hdf5.h>

enum h5_kind {
    H5_VALUES,
    H5_SINGLE,      /* one element */
    H5_CODES,       /* indices, codes and ids */
    H5_MASK,        /* which elements of other data sets count */
    H5_COORDINATES, /* positions along an axis */
    /* The kinds below are never proposed as inputs, and are listed as one line for each group. */
    H5_NO_INPUT,
    H5_SCALAR = H5_NO_INPUT,
    H5_SPARSE,        /* part of a sparse matrix */
    H5_PLACEHOLDER,   /* netCDF dimension without a variable */
    H5_MATLAB_TEXT,   /* stored as character codes */
    H5_MATLAB_EMPTY,  /* holds the shape of an empty array */
    H5_MATLAB_OBJECT, /* holds the number of an object: a string, table, datetime or function handle */
    H5_SEARCH_INDEX,  /* PyTables' index of a table's column */
    H5_REFERENCED,    /* target of references in MATLAB cells and objects */
    H5_ALIAS,         /* another link to a data set of the list */
    H5_KINDS
};

/* The name of a kind for `count` data sets: "scalar", "scalars". */
const char *h5_kind_name(enum h5_kind kind, double count);

/* The kind of a field of a table, by its name alone. */
enum h5_kind h5_kind_of_field(const char *name);

/* Marks: flags for what the attributes of a data set state. */
enum {
    H5_MARK_SCALE = 1,
    H5_MARK_PLACEHOLDER = 2,
    H5_MARK_MATLAB = 4, /* written by MATLAB: its axes are in reverse order */
    H5_MARK_TEXT = 8,
    H5_MARK_LOGICAL = 16,
    H5_MARK_EMPTY = 32,
    H5_MARK_OBJECT = 64,
    H5_MARK_ANY = 128 /* it has attributes */
};
/* The marks of an open data set. */
unsigned h5_attribute_marks(hid_t dataset);

/* Returns why the elements of a data set are not those of the array that it stands for; NULL: they are. The caller
 * frees. */
char *h5_stand_in_text(hid_t file, const char *name, hid_t dataset);

/* Sets `kind`, `same_as` and `note` of each entry of a list that is sorted by name. `below`: length of the name of the
 * group that was asked for. */
struct h5_list;
void h5_find_kinds(hid_t file, struct h5_list *list, size_t below);

#endif
