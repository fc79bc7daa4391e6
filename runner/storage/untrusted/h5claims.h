/* h5claims.h - what a file says of its data sets that cannot be true. */
#ifndef RUNNER_H5CLAIMS_H
#define RUNNER_H5CLAIMS_H

#include "../h5/h5io.h"

/* Opens a file to read it with these access properties; one that is being written by SWMR as HDF5's SWMR reader, so
 * that its last flush is seen. Negative where H5Fopen is, and where the file's first bytes claim more than it has: HDF5
 * would take that much memory, and fill it with zeros. errno then says why the system does not let it be read, or is 0;
 * HDF5's stack has words in any case. */
hid_t h5_open_to_read(const char *path, hid_t access);

/* Of an open data set whose shape, type and chunks are known. STATUS_USAGE: its elements lie beyond the end of the
 * file, or its chunks are more than 2^20 and than the file has bytes. *held becomes the bytes that the file has stored
 * of it; infinity: it lies elsewhere. */
enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, double *held,
                            struct error *error);

#endif
