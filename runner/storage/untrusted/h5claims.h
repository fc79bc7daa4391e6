/* h5claims.h - checks claims: sizes that a file states about itself, such as the length of a block or the number of
 * chunks. HDF5 allocates memory for a claim before it looks for the bytes; this module first compares the claim with
 * the size of the file. */
#ifndef RUNNER_H5CLAIMS_H
#define RUNNER_H5CLAIMS_H

#include "../h5/h5io.h"

/* The number in the first `count` bytes, which a file stores with its lowest byte first. */
uint64_t h5_little_endian(const unsigned char *bytes, int count);

/* Opens a file for reading with the given access properties; if a SWMR writer has the file open, up to its last flush.
 * Negative: H5Fopen failed, or the first bytes of the file claim a block that is longer than the file. h5_error_text
 * then has the reason; errno is why the system denied access, or 0. */
hid_t h5_open_to_read(const char *path, hid_t access);

/* Checks an open data set whose shape, type and chunks are known. STATUS_USAGE: its elements are beyond the end of the
 * file, or it has more than 2^20 chunks and more chunks than the file has bytes. *stored_bytes becomes the number of
 * bytes that the file stores for the data set; infinity: other files store it. */
enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, double *stored_bytes,
                            struct error *error);

#endif
