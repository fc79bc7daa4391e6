/* filters.h - HDF5's shuffle, deflate and fletcher32 on memory, so that chunks are decoded and encoded on all cores,
 * outside of the library and its lock. The bytes are those that HDF5 itself stores and expects. So are LZF (h5py's own
 * compression), if tilerun was built with liblzf, and zstd; decoded too is what else codecs.h undoes. */
#ifndef RUNNER_FILTERS_H
#define RUNNER_FILTERS_H

#include "../../base/fail.h"
#include "../elements/bytes.h"
#include "../elements/codecs.h"
#include "h5.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#define FILTERS_MAX 32 /* HDF5's limit */

/* A data set's filters, in the order in which writing applies them. */
struct filters {
    int count;
    int from; /* those before it are not among ours: HDF5 undoes them */
    H5Z_filter_t id[FILTERS_MAX];
    unsigned values[FILTERS_MAX][CODEC_VALUES]; /* shuffle: bytes of an element; deflate: level; codecs.h */
};

/* Registers the filters that HDF5 lacks with it, for chunks that it reads or writes itself; h5_prepare calls it. */
void filters_register(void);
/* NULL: a filter of a data set can be undone here, by us or by HDF5. Else which it is, and what helps: "filter 32013
 * (ZFP), which is not installed here: `pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=...`". The caller frees.
 */
char *filters_missing(hid_t creation, unsigned number);

/* Finds the filters in a data set's creation properties. false: one is not supported here, or there are too many. */
bool filters_find(hid_t creation, struct filters *filters);
/* Do those from `from` on decompress, so that a few bytes may become many? */
bool filters_decompress(const struct filters *filters);

/* Adds the compressor that a layout asks for to a new data set's creation properties. */
void filters_add_compressor(hid_t creation, const struct h5_layout *layout, size_t chunk_bytes);

/* Memory for one thread at a time; grows as needed. */
struct filter_buffers;
struct filter_buffers *filter_buffers_create(void);
void filter_buffers_free(struct filter_buffers *room);
/* Returns the room's first `bytes` bytes, for the caller to put a chunk into: stored bytes for filters_decode, plain
 * ones for filters_encode. NULL: out of memory. */
char *filter_buffers_reserve(struct filter_buffers *room, size_t bytes);

/* Undoes the filters from `from` on, on `stored` bytes in the room, except those in `mask` (bit i: filter i was not
 * applied). Returns the `plain` plain bytes: at `to`, which may be NULL and is as long, if the last step could write
 * them there; else in the room's own memory. Where others remain it returns what is as yet decoded: not much more. *why
 * is NULL, or the reason for a failure, after which `to` holds anything. */
const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_buffers *room, size_t stored,
                           size_t plain, char *to, const char **why);
/* Applies the filters to `plain` bytes in the room. Returns the `*stored` stored bytes, in the room's own memory; NULL:
 * out of memory. */
const char *filters_encode(const struct filters *filters, struct filter_buffers *room, size_t plain, size_t *stored);

#endif
