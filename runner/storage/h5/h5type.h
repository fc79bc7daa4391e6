/* h5type.h - functions shared by the files of this folder and by untrusted/h5cf.c, h5open.c and h5claims.c. */
#ifndef RUNNER_H5TYPE_H
#define RUNNER_H5TYPE_H

#include "h5io.h"

/* Finds the type as which floats of a file are read. *plain: stored floats have the bits of that type, in either byte
 * order; else HDF5 converts them, and float64 may round. */
void h5_find_float(hid_t type, enum dtype *dtype, bool *plain);

/* Records the error stack of each HDF5 call that fails in this thread, for h5_error_text. A thread-safe HDF5 has this
 * setting for each thread. */
void h5_record_errors(void);

/* Sets an attribute, replacing an existing one; closes `type` and `space`. */
enum status h5_set_attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value,
                             struct error *error);
/* Is it UTF-8? Other programs' texts may have any encoding, whatever they declare; tilerun's are UTF-8. */
bool h5_is_utf8(const char *text);

/* Access properties for a chunk cache that holds a band of chunks; close with H5Pclose. */
hid_t h5_cache_access(size_t element, const struct shape *shape, const struct shape *chunk);

/* The address of the errno of the first failed write to the file of an object (0: none so far); only for files of
 * h5_create_file. */
const int *h5_write_failure(hid_t object);

/* Fails with the message for a failed write to the file of an object; `failure` is the errno. */
enum status h5_fail_write(hid_t object, int failure, struct error *error);

#endif
