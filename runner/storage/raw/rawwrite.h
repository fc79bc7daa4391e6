/* rawwrite.h - writes data sets of h5_create without HDF5, which only allocates space in the file. Rows are written to
 * space that is allocated beforehand; all cores encode and write chunks. HDF5 writes parts of filtered chunks. */
#ifndef RUNNER_RAWWRITE_H
#define RUNNER_RAWWRITE_H

#include "../../base/trace.h"
#include "../elements/selection.h"
#include "../h5/h5io.h"

struct rawwrite;

/* Prepares to write `dataset`, which comes from h5_create and must outlive *result; the caller frees *result with
 * rawwrite_close. NULL: HDF5 must write it (scalars, empty arrays). If each box will follow the previous one, in the
 * order of rows, pages are populated up to `ahead` bytes before they are written; else pass 0. STATUS_IO: for example,
 * the disk is full. */
enum status rawwrite_open(struct h5_dataset *dataset, int64_t ahead, struct rawwrite **result, struct error *error);
/* Closes *closed, unless it is NULL, and sets it to NULL. */
void rawwrite_close(struct rawwrite **closed);

/* The source of a write: packed elements of type `dtype`. The losses of their conversion to the type of the data set
 * are added to `casts`, which may be NULL if the types are equal. */
struct write_source {
    const void *data;
    enum dtype dtype;
    struct casts *casts;
};

/* Writes a packed box; the writing threads convert it. One call at a time, from any thread. `trace`, which may be NULL,
 * records the encoding of each chunk. */
enum status rawwrite_write(struct rawwrite *raw, const struct box *box, const struct write_source *source,
                           struct trace *trace, struct error *error);

#endif
