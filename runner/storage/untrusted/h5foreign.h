/* h5foreign.h - files that are not HDF5, by their first bytes. */
#ifndef RUNNER_H5FOREIGN_H
#define RUNNER_H5FOREIGN_H

/* What a file or folder without HDF5's signature is, and how its data get into HDF5: "is not an HDF5 file but a
 * netCDF-3 file: `nccopy -k nc4 IN OUT` makes one". NULL: nothing that is known. */
const char *h5_foreign_format(const char *path);

#endif
