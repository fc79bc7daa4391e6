/* rawread.h - reads data sets without HDF5, on all cores: contiguous ones by many concurrent preads, chunked ones by
 * reading and decoding many chunks at once. HDF5 only provides the addresses.
 *
 * The file must not change meanwhile; a data set of h5_create can be read after it is written completely and h5_flush
 * was called. HDF5 must read compact, external and virtual storage, filters that filters.h does not support, files that
 * are not a single plain file, and storage that was never allocated. */
#ifndef RUNNER_RAWREAD_H
#define RUNNER_RAWREAD_H

#include "../../base/trace.h"
#include "../h5/h5io.h"

struct rawread;

/* Opens a data set, which must outlive the result. NULL: HDF5 must read it. Close with rawread_close. */
struct rawread *rawread_open(const struct h5_dataset *dataset);
/* Closes *closed, unless it is NULL, and sets it to NULL. */
void rawread_close(struct rawread **closed);

/* Can the data set be read without HDF5? */
bool rawread_can_read(const struct h5_dataset *dataset);

/* For a compressed data set that HDF5 must read: prepares to decode chunks by the supported filters before HDF5 does,
 * because HDF5 allocates any amount of memory for a chunk that decodes to more than its size. NULL: no supported filter
 * decompresses, or the chunks cannot be read without HDF5. */
struct rawread *rawread_open_check(const struct h5_dataset *dataset);
/* STATUS_IO: a chunk of the selection does not decode to the size of a chunk. */
enum status rawread_check_chunks(struct rawread *raw, const struct selection *selection, struct error *error);

/* Called for each run of elements of a contiguous data set, by the thread that read it, while it is in the cache.
 * `first`: first element of the run, in the row-major order of the data set. */
struct rawread_visitor {
    void (*visit)(void *context, int thread, int64_t first, int64_t elements, const void *data);
    void *context;
};
/* Limits the number of threads that read data without decoding; 0: no limit. */
void rawread_limit_plain(int threads);
/* Is the data set contiguous, so that a visitor gets runs? */
bool rawread_is_contiguous(const struct rawread *raw);

/* Reads a box into packed memory, bit for bit as h5_read does. A chunk that the box contains only in part is decoded
 * completely, and again for the next box. STATUS_IO names the file, the data set and, for a damaged chunk, its
 * position. Not thread-safe. */
enum status rawread_read(struct rawread *raw, const struct box *box, void *data, struct error *error);
/* Like rawread_read, but for a selection; the reading threads convert to the type of the target. `trace` records the
 * decoding of each chunk; `visitor` and `trace` may be NULL. */
enum status rawread_selected(struct rawread *raw, const struct selection *selection, const struct read_target *target,
                             const struct rawread_visitor *visitor, struct trace *trace, struct error *error);

#endif
