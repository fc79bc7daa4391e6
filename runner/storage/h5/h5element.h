/* h5element.h - struct h5_element: how the elements of an HDF5 type are read as numbers. */
#ifndef RUNNER_H5ELEMENT_H
#define RUNNER_H5ELEMENT_H

#include "../../base/texts.h"
#include "h5io.h"

struct h5_element {
    enum dtype dtype;
    bool plain;   /* stored elements have the bits of `dtype`, in either byte order */
    bool codes;   /* an enumeration other than bool: read only if the job sets a `dtype` */
    hid_t memory; /* memory type for H5Dread; H5I_INVALID_HID: the type of the file in the machine's byte order */
    int rank;     /* number of array dimensions of the element type, which become the last axes of the data set */
    int64_t size[MAX_RANK]; /* sizes of these dimensions */
    const char *kind;       /* "bool" or "bit field", which `dtype` does not show; NULL: neither */
};

/* Finds how elements of `type` are read. `field`: read this field of a table ("a/b": field b of the table that is field
 * a); NULL: read whole elements. Returns NULL if they can be read; the caller then closes `memory`. Otherwise returns
 * what they are and what the user can do, "holds strings; ...", which the caller frees. */
char *h5_find_element(hid_t type, const char *field, struct h5_element *element);

/* The size of an element in a file whose addresses have `address_bytes` bytes. H5Tget_size returns the size in memory,
 * which differs for texts and sequences of varying length. */
size_t h5_stored_bytes(hid_t type, size_t address_bytes);

/* Adds the names of the numeric fields of a table, or of arrays of tables: what `field` may be. */
void h5_list_fields(hid_t type, struct texts *fields);

/* A short name of the type: "table: x, y, label", "complex", "float32 (20 bits)". The caller frees. */
char *h5_type_text(hid_t type);

#endif
