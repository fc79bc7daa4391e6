/* rawread.h - reads data sets without HDF5, on all cores: contiguous ones by many preads at once, chunked ones by
 * reading and decoding many chunks at once. HDF5 only tells where the bytes are.
 *
 * The file must not be written meanwhile; a data set of h5_create can be read once all of it is written and h5_flush
 * was called. HDF5 reads everything unusual: compact, external and virtual storage, filters other than those of
 * filters.h, files that are not one plain file, storage that was never allocated. */
#ifndef RUNNER_RAWREAD_H
#define RUNNER_RAWREAD_H

#include "../../base/trace.h"
#include "../h5/h5io.h"

struct rawread;

/* *result is NULL if HDF5 has to read this data set; else the caller frees it with rawread_close. The data set must
 * outlive it. */
enum status rawread_open(const struct h5_dataset *dataset, struct rawread **result, struct error *error);
void rawread_close(struct rawread *raw);

/* Would it be read without HDF5? */
bool rawread_can_read(const struct h5_dataset *dataset);

/* Of a chunked data set that HDF5 has to read, and that is compressed: its filters that are ours are undone here before
 * HDF5 is asked, which takes any memory for a chunk that decodes to more than a chunk. NULL: it is not such a one. */
struct rawread *rawread_open_check(const struct h5_dataset *dataset);
/* STATUS_IO: a chunk of the selection cannot be decoded within bounds. */
enum status rawread_check_chunks(struct rawread *raw, const struct selection *selection, struct error *error);

/* Is called for each run of elements of a contiguous data set when it has been read and is still in the cache, by the
 * thread that read it. `first`: the run's first element, in the data set's row-major order. */
struct rawread_visitor {
    void (*visit)(void *context, int thread, int64_t first, int64_t elements, const void *data);
    void *context;
};
/* From now on at most so many threads read what need not be decoded; 0: all. */
void rawread_limit_plain(int threads);
/* Is the data set contiguous, so that it has runs for a visitor? */
bool rawread_is_contiguous(const struct rawread *raw);

/* Reads a box into packed memory as h5_read does, bit for bit. A chunk of which it has only a part is decoded
 * whole, and again for the next box. STATUS_IO names the file, the data set and, for a damaged chunk, its place. One
 * call at a time. `trace` gets the decoding of each chunk; `visitor` and `trace` may be NULL. */
enum status rawread_read(struct rawread *raw, const struct box *box, void *data, const struct rawread_visitor *visitor,
                         struct trace *trace, struct error *error);
/* The same of a selection, converted to the target's type by the threads that read. */
enum status rawread_selected(struct rawread *raw, const struct selection *selection, const struct read_target *target,
                             const struct rawread_visitor *visitor, struct trace *trace, struct error *error);

#endif
