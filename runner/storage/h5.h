/* h5.h - what the rest of the program knows of HDF5 without its header. */
#ifndef RUNNER_H5_H
#define RUNNER_H5_H

#include "../../kernels/core/operation.h"

/* How a new data set is to lie in the file. */
struct h5_layout {
    struct shape chunk; /* rank 0: h5_chunk chooses (tiles of about 1 MiB; contiguous where neither
                           compression nor checksum is asked for) */
    bool gzip;
    int gzip_level;
    bool shuffle, fletcher32;
};

/* The chunks that a new data set gets; rank 0: contiguous. Scalars and empty arrays can be neither chunked nor
 * filtered. */
struct shape h5_chunk(enum dtype dtype, const struct shape *shape, const struct h5_layout *layout);

/* Silences HDF5's printing to stderr: to be called first. */
void h5_quiet(void);
/* The library's release, "1.10.8", into `text`, which is returned. */
#define H5_VERSION_TEXT 32
const char *h5_version(char text[H5_VERSION_TEXT]);

#endif
