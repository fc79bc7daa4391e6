/* filters.h - HDF5's shuffle, deflate and fletcher32 on memory, so that chunks are decoded and encoded on all cores,
 * outside of the library and its lock. Byte for byte what HDF5 itself stores and expects. And decoded, where liblzf was
 * there when tilerun was built: LZF, h5py's own compression. */
#ifndef RUNNER_FILTERS_H
#define RUNNER_FILTERS_H

#include "../base/fail.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#define FILTERS_MAX 32    /* HDF5 takes no more */
#define FILTER_LZF  32000 /* as h5py registered it */

/* A data set's filters, in the order in which writing applies them. */
struct filters {
    int count;
    H5Z_filter_t id[FILTERS_MAX];
    unsigned parameter[FILTERS_MAX]; /* shuffle: bytes of an element; deflate: level */
};

/* Gives HDF5 LZF too, for what it reads itself. Before the first file is opened; again does no harm. */
void filters_register(void);

/* Learns the filters of a data set's creation properties. false: there is one that is not known here, or too many. */
bool filters_find(hid_t creation, struct filters *filters);

/* Memory that one thread at a time works in; grows as needed. */
struct filter_room;
struct filter_room *filter_room_create(void);
void filter_room_free(struct filter_room *room);
/* Its first `bytes` bytes, to put a chunk into: stored, for filters_decode, or plain, for filters_encode. NULL: there
 * is no memory. */
char *filter_room_bytes(struct filter_room *room, size_t bytes);

/* Undoes the filters, without those in `mask` (bit i: filter i was not applied), on `stored` bytes in the room. Returns
 * the plain bytes, `plain` of them, in the room's own memory, and sets `*why` to NULL, or to what is wrong. */
const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_room *room, size_t stored,
                           size_t plain, const char **why);
/* Applies the filters to `plain` bytes in the room. Returns the stored bytes, of which there are `*stored`, in the
 * room's own memory; NULL: there is no memory. */
const char *filters_encode(const struct filters *filters, struct filter_room *room, size_t plain, size_t *stored);

/* Reverses the bytes of each element. */
void swap_bytes(void *data, int64_t elements, size_t size);

#endif
