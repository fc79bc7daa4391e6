/* h5.h - the part of HDF5 that the rest of the program uses, without HDF5's header. */
#ifndef RUNNER_H5_H
#define RUNNER_H5_H

#include "../../job/job.h"

/* The layout of a new data set in its file. */
struct h5_layout {
    struct shape chunk; /* rank 0: h5_chunk chooses (chunks of about 1 MiB; contiguous if no filter is asked for) */
    enum job_compression compression;
    int level; /* of gzip and zstd */
    bool shuffle, fletcher32;
};
bool h5_filtered(const struct h5_layout *layout); /* does any filter change its chunks? */
/* What this machine lacks to write chunks so compressed: "libzstd.so.1 (Debian's libzstd1)"; NULL: nothing. */
const char *h5_compression_needs(enum job_compression compression);

/* The chunk shape of a new data set; rank 0: contiguous. Scalars and empty arrays can be neither chunked nor
 * filtered. */
struct shape h5_chunk(enum dtype dtype, const struct shape *shape, const struct h5_layout *layout);

/* Prepares HDF5: it prints nothing to stderr, and knows all filters that can be done here. Call it before any other
 * HDF5 function. */
void h5_prepare(void);
/* What of a virtual data set no source has. */
struct h5_absent {
    int64_t elements;    /* that a job sees: they are fill values */
    int sources;         /* that are not there, cannot be opened or are too small */
    char *first;         /* "'/d' in b.h5, which is not there"; NULL: none. Owned */
    int files;           /* that reading it opens */
    bool read_by_source; /* HDF5 cannot read it, h5_read_by_source can */
};

/* Writes the library's version, "1.10.8", into `text` and returns it. */
#define H5_VERSION_TEXT 32
const char *h5_version(char text[H5_VERSION_TEXT]);

#endif
