/* h5foreign.h - recognises files that are not HDF5 by their first bytes. */
#ifndef RUNNER_H5FOREIGN_H
#define RUNNER_H5FOREIGN_H

/* Says what a file or folder without the HDF5 signature is, and how to convert it: "is not an HDF5 file but a netCDF-3
 * file: `nccopy -k nc4 IN OUT` makes one". NULL: unknown. */
const char *h5_foreign_format(const char *path);

#endif
