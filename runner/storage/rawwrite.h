/* rawwrite.h - our own data sets written past HDF5, which only finds places in the file: rows straight to theirs where
 * they were allocated beforehand, chunks encoded and written by all cores. Parts of compressed or checksummed chunks
 * are left to HDF5. */
#ifndef RUNNER_RAWWRITE_H
#define RUNNER_RAWWRITE_H

#include "../base/trace.h"
#include "h5io.h"

struct rawwrite;

/* `dataset` comes from h5_create, and outlives it. Where boxes will come in the order of their rows, each next to the
 * last, room in the system's cache is made ready up to `ahead` bytes beforehand; else `ahead` is 0. *result is NULL
 * where HDF5 has to write (scalars, empty arrays). A disk that is full may say so here. */
enum status rawwrite_open(struct h5_dataset *dataset, int64_t ahead, struct rawwrite **result, struct error *error);
void rawwrite_close(struct rawwrite *raw);

/* Writes a packed box. One call at a time, from any thread; `trace` (may be
 * NULL) gets the encoding of each chunk. */
enum status rawwrite_write(struct rawwrite *raw, const struct box *box, const void *data, struct trace *trace,
                           struct error *error);

#endif
