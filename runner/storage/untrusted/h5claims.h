/* h5claims.h - checks sizes that a file claims against the size of the file. */
#ifndef RUNNER_H5CLAIMS_H
#define RUNNER_H5CLAIMS_H

#include "../h5/h5io.h"

/* Opens a file for reading with the given access properties; a file that a SWMR writer has open is opened as SWMR
 * reader, up to its last flush. Negative: H5Fopen failed, or the first bytes of the file claim more than it has, for
 * which HDF5 would allocate and zero that much memory. errno then says why the system denied access, or is 0;
 * h5_error_text is set in both cases. */
hid_t h5_open_to_read(const char *path, hid_t access);

/* For an open data set whose shape, type and chunks are known. STATUS_USAGE: its elements lie beyond the end of the
 * file, or it has more than 2^20 chunks and more chunks than the file has bytes. *held becomes the bytes that the file
 * stores for it; infinity: it is stored in other files. */
enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, double *held,
                            struct error *error);

#endif
