/* h5claims.h - what a file says of its data sets that cannot be true, or that nobody can have meant: a kilobyte that
 * claims terabytes. */
#ifndef RUNNER_H5CLAIMS_H
#define RUNNER_H5CLAIMS_H

#include "h5io.h"

/* Of an open data set whose shape, type and chunks are known. STATUS_USAGE: its elements lie beyond the end of the
 * file; its chunks are more than 2^20 and than the file has bytes; or they claim 1 GiB or more, of which the file holds
 * less than 1/65536. */
enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, struct error *error);

#endif
