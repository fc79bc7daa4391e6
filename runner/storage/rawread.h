/* rawread.h - data sets read past HDF5, on all cores: contiguous ones by many preads at once, chunked ones by reading
 * and decoding many chunks at once. HDF5 only tells where things are.
 *
 * For files that nobody writes meanwhile; a data set from h5_create once all is written and h5_flush was called.
 * Whatever is unusual is left to HDF5: compact, external and virtual storage, other filters than those of filters.h,
 * files that are not one plain file, storage that was never allocated. */
#ifndef RUNNER_RAWREAD_H
#define RUNNER_RAWREAD_H

#include "../base/trace.h"
#include "h5io.h"

struct rawread;

/* *result is NULL where HDF5 has to read this data set. The data set must outlive it. */
enum status rawread_open(const struct h5_dataset *dataset, struct rawread **result, struct error *error);
void rawread_close(struct rawread *raw);

/* Is told of each run of elements of a contiguous data set when it has come, while it is in the cache, by the thread
 * that read it. `first` is the run's first element, in the data set's row-major order. */
struct rawread_visitor {
    void (*visit)(void *context, int thread, int64_t first, int64_t elements, const void *data);
    void *context;
};
/* Are there runs for a visitor? */
bool rawread_is_contiguous(const struct rawread *raw);

/* Reads a box into packed memory as h5_read does, bit for bit. Chunks that it covers in part are decoded whole, and
 * again for the next box. STATUS_IO names the file, the data set and, of a damaged chunk, its place. One call at a
 * time. `visitor` and `trace`, which gets the decoding of each chunk, may be NULL. */
enum status rawread_read(struct rawread *raw, const struct box *box, void *data, const struct rawread_visitor *visitor,
                         struct trace *trace, struct error *error);

#endif
