/* h5.h - declares the part of the HDF5 layer that the rest of the program uses, without including hdf5.h. */
#ifndef RUNNER_H5_H
#define RUNNER_H5_H

#include "../../base/job_input.h"

/* The layout of a new data set in its file. */
struct h5_layout {
    struct shape chunk; /* rank 0: h5_chunk chooses (chunks of about 1 MiB; contiguous if no filter is asked for) */
    enum job_compression compression;
    int level; /* compression level of gzip and zstd */
    bool shuffle, fletcher32;
};
/* Are chunks filtered? */
bool h5_filtered(const struct h5_layout *layout);
/* The library that writing this compression needs and this machine lacks, "libzstd.so.1 (Debian's libzstd1)"; NULL: it
 * lacks nothing. */
const char *h5_compression_needs(enum job_compression compression);

/* The chunk shape of a new data set; rank 0: contiguous. Scalars and empty arrays are neither chunked nor filtered. */
struct shape h5_chunk(enum dtype dtype, const struct shape *shape, const struct h5_layout *layout);

/* Prepares HDF5: silences its error output and registers all filters that work here. Call it before any other HDF5
 * function. */
void h5_prepare(void);
/* The sources of a virtual data set that are absent. */
struct h5_absent {
    int64_t elements;    /* elements of the job's view that no source has; they read as the fill value */
    int sources;         /* sources that do not exist, cannot be opened or are too small */
    char *first;         /* "'/d' in b.h5, which is not there"; NULL: none. Owned */
    int files;           /* number of files that HDF5 opens to read the data set */
    bool read_by_source; /* HDF5 cannot read the data set; h5_read_by_source can */
};

/* Writes the library's version, "1.10.8", into `text` and returns it. */
#define H5_VERSION_TEXT 32
const char *h5_version(char text[H5_VERSION_TEXT]);

#endif
