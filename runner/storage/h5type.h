/* h5type.h - between h5io.c, h5type.c and h5file.c only. */
#ifndef RUNNER_H5TYPE_H
#define RUNNER_H5TYPE_H

#include "h5io.h"

/* Which of tilerun's types a file's type is. NULL: found; else what it holds instead ("strings"). */
const char *h5_find_dtype(hid_t type, enum dtype *dtype);

/* Creation order is what h5dump, h5py and HDFView list by when it is there: for file and group creation properties. */
void h5_track_order(hid_t properties);
/* Where the errno of the first failed write to the object's file is kept (0: none so far), for files of h5_create_file.
 */
const int *h5_write_failure(hid_t object);

/* The sentence for a failed write to the object's file. */
enum status h5_fail_write(hid_t object, int failure, struct error *error);

#endif
