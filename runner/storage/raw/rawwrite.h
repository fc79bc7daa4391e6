/* rawwrite.h - writes data sets of h5_create without HDF5, which only finds places in the file. Rows go straight to
 * places that were allocated beforehand; chunks are encoded and written by all cores. Parts of filtered chunks are left
 * to HDF5. */
#ifndef RUNNER_RAWWRITE_H
#define RUNNER_RAWWRITE_H

#include "../../base/trace.h"
#include "../elements/selection.h"
#include "../h5/h5io.h"

struct rawwrite;

/* `dataset` comes from h5_create and must outlive *result, which the caller frees with rawwrite_close; NULL: HDF5 has
 * to write (scalars, empty arrays). If boxes will come in the order of their rows, each next to the last, pages of the
 * system's cache are made ready up to `ahead` bytes beforehand; else pass 0. STATUS_IO: the disk is full, say. */
enum status rawwrite_open(struct h5_dataset *dataset, int64_t ahead, struct rawwrite **result, struct error *error);
void rawwrite_close(struct rawwrite *raw);

/* Where elements come from, packed, and as which type; what their conversion to the data set's type loses is added to
 * `casts`, which may be NULL where the types are one. */
struct write_source {
    const void *data;
    enum dtype dtype;
    struct casts *casts;
};

/* Writes a packed box, converted by the threads that write. One call at a time, from any thread. `trace` gets the
 * encoding of each chunk; it may be NULL. */
enum status rawwrite_write(struct rawwrite *raw, const struct box *box, const struct write_source *source,
                           struct trace *trace, struct error *error);

#endif
