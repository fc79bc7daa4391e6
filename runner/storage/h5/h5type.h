/* h5type.h - element types, attributes and error texts, for code that calls HDF5: this folder and ../untrusted/. */
#ifndef RUNNER_H5TYPE_H
#define RUNNER_H5TYPE_H

#include "h5io.h"

/* Finds the type as which floats of a file are read. *plain: stored floats have the bits of that type, in either byte
 * order; else HDF5 converts them, and float64 may round. */
void h5_find_float(hid_t type, enum dtype *dtype, bool *plain);

/* Records the error stack of each HDF5 call that fails in this thread, for h5_error_text. A thread-safe HDF5 has this
 * setting for each thread. */
void h5_record_errors(void);

/* A data space of `rank` axes; close with H5Sclose. */
hid_t h5_space(int rank, const int64_t size[]);
/* Creates data set /path of a file, and its parent groups. The caller closes *id, and all ids that it gives. */
enum status h5_create_id(hid_t file, const char *path, hid_t type, hid_t space, hid_t creation, hid_t access, hid_t *id,
                         struct error *error);

/* Sets an attribute, replacing an existing one; closes `type` and `space`. */
enum status h5_set_attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value,
                             struct error *error);

/* An open attribute of an object. */
struct h5_attribute {
    hid_t id, type, space;
    H5T_class_t class; /* class of `type` */
    hssize_t count;    /* number of elements */
};
/* false: the attribute does not exist or cannot be opened, and there is nothing to close. h5_attribute_close ignores
 * an attribute of zeros. */
bool h5_attribute_open(hid_t object, const char *name, struct h5_attribute *attribute);
void h5_attribute_close(const struct h5_attribute *attribute);
/* The type of variable-length UTF-8 text; close with H5Tclose. */
hid_t h5_text_type(void);

/* Access properties for a chunk cache that holds a band of chunks; close with H5Pclose. */
hid_t h5_cache_access(size_t element, const struct shape *shape, const struct shape *chunk);

#endif
