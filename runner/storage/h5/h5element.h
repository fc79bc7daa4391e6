/* h5element.h - how elements of a file's type are read as numbers; for h5io.c and h5list.c. */
#ifndef RUNNER_H5ELEMENT_H
#define RUNNER_H5ELEMENT_H

#include "h5io.h"

struct h5_element {
    enum dtype dtype;
    bool plain;   /* the file has the bits of that type, in either byte order */
    bool codes;   /* of an enumeration that is no bool: read only where the job says as which type */
    hid_t memory; /* what HDF5 makes of an element; H5I_INVALID_HID: the file's type, in the machine's byte order */
    size_t bytes; /* of an element in the file */
    int rank;     /* axes that arrays in the elements add behind the data set's own, */
    int64_t size[MAX_RANK]; /* and their sizes */
    const char *kind;       /* what a number of that type is called, "bool"; NULL: by its dtype alone */
};

/* Finds how elements of a type are read, or of a table its field ("a/b" of a table in a table; NULL: none is named).
 * NULL: found; the caller closes `memory`. Else what the elements are instead, and what to do: "holds strings; ...".
 * The caller frees. */
char *h5_find_element(hid_t type, const char *field, struct h5_element *element);

/* What the elements are, in a few words: "table of x, y, label", "complex of float32", "float of 20 bits". The caller
 * frees. */
char *h5_type_text(hid_t type);

#endif
