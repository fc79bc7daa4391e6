/* filters.h - applies HDF5 filters in memory, so that all cores decode and encode chunks without the library and its
 * lock: shuffle, deflate and fletcher32; LZF (h5py's own compression) if tilerun was built with liblzf; zstd; and, for
 * decoding, the other filters of codecs.h. The bytes are those that HDF5 stores and expects. */
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

/* The filters of a data set, in the order in which writing applies them. */
struct filters {
    int count;
    int first_supported; /* this module supports this filter and all after it; HDF5 decodes the filters before it */
    H5Z_filter_t id[FILTERS_MAX];
    /* Parameters. Value 0 of shuffle: bytes of an element; of deflate: level; others: codecs.h. */
    unsigned values[FILTERS_MAX][CODEC_VALUES];
};

/* Registers the filters that HDF5 lacks with HDF5, for chunks that HDF5 reads or writes itself. */
void filters_register(void);
/* Returns NULL if tilerun or HDF5 can decode filter `number`. Else names it and what to install: "filter 32013 (ZFP),
 * which is not installed here: `pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=...`". The caller frees. */
char *filters_missing(hid_t creation, unsigned number);
/* Returns filters_missing of the first missing filter that the data set needs; NULL: it needs no missing filter. An
 * optional filter is not needed if it was missing when the data set was written, because all chunks then skip it. */
char *filters_needed(hid_t dataset, hid_t creation);

/* Reads the filters from the creation properties of a data set. false: this module does not support one, or there are
 * too many. */
bool filters_find(hid_t creation, struct filters *filters);
/* Does a supported filter decompress, so that a few bytes may become many? */
bool filters_have_compressor(const struct filters *filters);

/* Adds the compressor of a layout to the creation properties of a new data set. */
void filters_add_compressor(hid_t creation, const struct h5_layout *layout, size_t chunk_bytes);

/* Two buffers in which one thread decodes or encodes one chunk at a time; they grow as needed. */
struct filter_buffers;
struct filter_buffers *filter_buffers_create(void);
void filter_buffers_free(struct filter_buffers *buffers);
/* The buffers of the lanes in which chunks are processed: one lane for each worker, or fewer if the buffers, two of a
 * chunk for each lane, would exceed 128 MiB. A lane takes the next chunk until none is left. */
struct filter_lanes {
    int count;
    struct filter_buffers **buffers;
};
/* `chunk_bytes`: decoded bytes of a chunk, not 0. */
struct filter_lanes filter_lanes_create(int64_t chunk_bytes);
void filter_lanes_free(struct filter_lanes *lanes);
/* Returns a buffer of at least `bytes` bytes, in which the caller places a chunk: stored bytes for filters_decode,
 * plain ones for filters_encode. NULL: out of memory. */
char *filter_buffers_reserve(struct filter_buffers *buffers, size_t bytes);

/* Decodes `stored` bytes in the buffer by the supported filters, except the filters in `mask` (bit i: filter i was not
 * applied). Returns the `plain_bytes` decoded bytes: in `to` (NULL, or `plain_bytes` long) if the last filter can write
 * there, else in one of `buffers`. If unsupported filters remain, returns the partly decoded bytes, which are
 * not much longer. *why: NULL, or why decoding failed; the contents of `to` are then undefined. */
const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_buffers *buffers, size_t stored,
                           size_t plain_bytes, char *to, const char **why);
/* Encodes `plain_bytes` bytes in the buffer. Returns the `*stored` encoded bytes, in one of `buffers`; NULL: out of
 * memory. */
const char *filters_encode(const struct filters *filters, struct filter_buffers *buffers, size_t plain_bytes,
                           size_t *stored);

#endif
