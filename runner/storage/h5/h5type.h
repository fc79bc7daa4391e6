/* h5type.h - shared by h5io.c, h5type.c, h5element.c, h5cf.c, h5file.c and h5scale.c only. */
#ifndef RUNNER_H5TYPE_H
#define RUNNER_H5TYPE_H

#include "h5io.h"

/* Finds the type that a file's floats are read as. *plain: their bits are of that type, in either byte order; else HDF5
 * converts them, and float64 may round. */
void h5_find_float(hid_t type, enum dtype *dtype, bool *plain);

/* From now on h5_error_text has the words of the calls that fail in this thread: HDF5 built for threads has a setting for
 * each. */
void h5_record_errors(void);

/* Sets an attribute, replacing an existing one; closes `type` and `space`. */
enum status h5_set_attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value,
                             struct error *error);
/* Is it UTF-8? Other programs' texts may have any encoding, whatever they claim; tilerun's are UTF-8. */
bool h5_is_utf8(const char *text);

/* Access properties of a data set whose chunk cache holds a band of its chunks; close with H5Pclose. */
hid_t h5_cache_access(size_t element, const struct shape *shape, const struct shape *chunk);

/* Where the errno of the first failed write to the object's file is kept (0: none so far); for files of
 * h5_create_file. */
const int *h5_write_failure(hid_t object);

/* Fails with the sentence for a failed write to the object's file; `failure` is its errno. */
enum status h5_fail_write(hid_t object, int failure, struct error *error);

#endif
