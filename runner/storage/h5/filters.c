/* filters.c - applies filters from one buffer to another and then swaps the two. Uses libdeflate, which inflates two to
 * three times as fast as zlib, or zlib where libdeflate is absent. */
#include "filters.h"

#include "../../base/fail.h"

#include <stdlib.h>
#include <string.h>
#if TILERUN_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif
#if TILERUN_LZF
#include <errno.h>
#include <limits.h>
#include <lzf.h>
#endif

enum {
    CHECKSUM_BYTES = 4,
    LONGER = 1 << 16,   /* and twice its bytes: what a chunk can become between two compressors */
    MOST_SHRUNK = 1032, /* bytes that one byte of deflate can expand to, at most; LZF: 88 */
};

struct filter_buffers {
    char *data, *other; /* `data` holds the chunk in its present form */
    size_t size, other_size;
#if TILERUN_LIBDEFLATE
    struct libdeflate_decompressor *decompressor;
    struct libdeflate_compressor *compressor;
    unsigned level; /* of `compressor` */
#endif
};

/* Inflate, LZF, or what codecs.h undoes? */
static bool is_compressor(H5Z_filter_t id) {
    return id == H5Z_FILTER_DEFLATE || codec_name(id);
}

static bool is_known(H5Z_filter_t id, const unsigned values[CODEC_VALUES]) {
    const char *needs;
    if (id == FILTER_LZF) return TILERUN_LZF;
    return id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32 || id == H5Z_FILTER_DEFLATE ||
           codec_can_decode(id, values, &needs);
}

/* Can we apply it, too? */
static bool is_written(H5Z_filter_t id) {
    return id == FILTER_LZF || id == FILTER_ZSTD;
}

/* A filter's number and the first of its parameters; those that it lacks are 0. */
static H5Z_filter_t read_filter(hid_t creation, unsigned number, unsigned values[CODEC_VALUES]) {
    unsigned flags, configuration;
    size_t count = CODEC_VALUES;
    memset(values, 0, CODEC_VALUES * sizeof *values);
    return H5Pget_filter2(creation, number, &flags, &count, values, 0, NULL, &configuration);
}

bool filters_find(hid_t creation, struct filters *filters) {
    int count = H5Pget_nfilters(creation);
    if (count < 0 || count > FILTERS_MAX) return false;
    *filters = (struct filters){.count = count};
    for (int i = 0; i < count; i++) {
        filters->id[i] = read_filter(creation, (unsigned)i, filters->values[i]);
        if (!is_known(filters->id[i], filters->values[i])) filters->from = i + 1;
    }
    return filters->from == 0;
}

bool filters_decompress(const struct filters *filters) {
    for (int i = filters->from; i < filters->count; i++)
        if (is_compressor(filters->id[i])) return true;
    return false;
}

char *filters_missing(hid_t creation, unsigned number) {
    unsigned values[CODEC_VALUES];
    H5Z_filter_t id = read_filter(creation, number, values);
    const char *name = codec_name(id), *needs = NULL;
    if (is_known(id, values) || H5Zfilter_avail(id) > 0) return NULL;
    codec_can_decode(id, values, &needs);
    if (id == FILTER_LZF) needs = "a tilerun built with liblzf (Debian's liblzf-dev)";
    if (id == H5Z_FILTER_SZIP) name = "szip", needs = "an HDF5 library built with szip (libaec)";
    const char *plugin = codec_in_hdf5plugin(id)
                             ? "`pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=$(python3 -c "
                               "'import hdf5plugin; print(hdf5plugin.PLUGINS_PATH)')`"
                         : needs ? ""
                                 : "its plugin for HDF5, in a folder that HDF5_PLUGIN_PATH names";
    char *what = must_printf(name ? "filter %d (%s)" : "filter %d", (int)id, name);
    char *text = must_printf("%s, which is not installed here: %s%s%s", what, needs ? needs : "",
                             needs && *plugin ? ", or " : "", plugin);
    free(what);
    return text;
}

const char *h5_compression_needs(enum job_compression compression) {
    const char *needs = NULL;
    const unsigned none[CODEC_VALUES] = {0};
    if (compression == COMPRESSION_LZF && !TILERUN_LZF) needs = "a tilerun built with liblzf (Debian's liblzf-dev)";
    if (compression == COMPRESSION_ZSTD) codec_can_decode(FILTER_ZSTD, none, &needs);
    return needs;
}

void filters_add_compressor(hid_t creation, const struct h5_layout *layout, size_t chunk_bytes) {
    const unsigned lzf[] = {4, 0x0105, (unsigned)chunk_bytes}; /* as h5py: versions of its filter and of LZF */
    const unsigned level = (unsigned)layout->level;
    if (layout->compression == COMPRESSION_GZIP) H5Pset_deflate(creation, level);
    if (layout->compression == COMPRESSION_LZF) H5Pset_filter(creation, FILTER_LZF, H5Z_FLAG_OPTIONAL, 3, lzf);
    if (layout->compression == COMPRESSION_ZSTD) H5Pset_filter(creation, FILTER_ZSTD, H5Z_FLAG_OPTIONAL, 1, &level);
}

/* ---- rooms ------------------------------------------------------------------------------------------------------- */

struct filter_buffers *filter_buffers_create(void) {
    struct filter_buffers *room = must_malloc(sizeof *room);
    memset(room, 0, sizeof *room);
    return room;
}

void filter_buffers_free(struct filter_buffers *room) {
    free(room->data);
    free(room->other);
#if TILERUN_LIBDEFLATE
    libdeflate_free_decompressor(room->decompressor);
    libdeflate_free_compressor(room->compressor);
#endif
    free(room);
}

static char *grow(char **memory, size_t *size, size_t bytes) {
    if (*size < bytes) {
        char *larger = realloc(*memory, bytes);
        if (!larger) return NULL;
        *memory = larger;
        *size = bytes;
    }
    return *memory;
}

char *filter_buffers_reserve(struct filter_buffers *room, size_t bytes) {
    return grow(&room->data, &room->size, bytes + CHECKSUM_BYTES);
}

static void exchange(struct filter_buffers *room) {
    char *data = room->data;
    size_t size = room->size;
    room->data = room->other, room->size = room->other_size;
    room->other = data, room->other_size = size;
}

/* ---- fletcher32 ---- */

static void checksum_store(uint32_t sum, char *to) {
    for (int i = 0; i < CHECKSUM_BYTES; i++) to[i] = (char)(sum >> (8 * i));
}

/* Does the stored checksum match? Files of HDF5 1.6.2 on little-endian machines have the bytes of each half
 * exchanged. */
static bool checksum_fits(uint32_t sum, const char *stored) {
    char now[CHECKSUM_BYTES], then[CHECKSUM_BYTES];
    checksum_store(sum, now);
    checksum_store((sum & 0x00ff00ffu) << 8 | (sum >> 8 & 0x00ff00ffu), then);
    return memcmp(now, stored, CHECKSUM_BYTES) == 0 || memcmp(then, stored, CHECKSUM_BYTES) == 0;
}

/* ---- deflate and LZF --------------------------------------------------------------------------------------------- */

#define TOO_SMALL CODEC_TOO_SMALL

/* These two decompress `stored` bytes of room->data and return how many bytes came out; 0: the data are damaged;
 * TOO_SMALL: there are more than `most`. */
static size_t inflate_room(struct filter_buffers *room, size_t stored, char *to, size_t most) {
#if TILERUN_LIBDEFLATE
    size_t length = 0;
    if (!room->decompressor) room->decompressor = libdeflate_alloc_decompressor();
    if (!room->decompressor) return 0;
    enum libdeflate_result result =
        libdeflate_zlib_decompress(room->decompressor, room->data, stored, to, most, &length);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return TOO_SMALL;
    return result == LIBDEFLATE_SUCCESS ? length : 0;
#else
    uLongf length = (uLongf)most;
    int result = uncompress((Bytef *)to, &length, (const Bytef *)room->data, (uLong)stored);
    if (result == Z_BUF_ERROR) return TOO_SMALL; /* or the data are cut short */
    return result == Z_OK ? length : 0;
#endif
}

static size_t expand_room(struct filter_buffers *room, size_t stored, char *to, size_t most) {
#if TILERUN_LZF
    if (stored == 0 || stored > UINT_MAX) return 0; /* liblzf would read one byte even if there is none */
    errno = 0;
    unsigned most_int = most > UINT_MAX ? UINT_MAX : (unsigned)most;
    size_t length = lzf_decompress(room->data, (unsigned)stored, to, most_int);
    return length == 0 && errno == E2BIG ? TOO_SMALL : length;
#else
    (void)room, (void)stored, (void)to, (void)most;
    return 0;
#endif
}

static size_t decompress_room(struct filter_buffers *room, H5Z_filter_t id, const unsigned values[CODEC_VALUES],
                              size_t stored, char *to, size_t most) {
    if (id == FILTER_LZF) return expand_room(room, stored, to, most);
    if (id == H5Z_FILTER_DEFLATE) return inflate_room(room, stored, to, most);
    return codec_decompress(id, values, room->data, stored, to, most);
}

/* Decompresses `stored` bytes to exactly `plain` bytes, or to any number up to `bound` if `plain` is 0: to `to`, or to
 * room->other if that is NULL. Returns that number; 0: it failed, and *why says why. */
static size_t decompress(struct filter_buffers *room, H5Z_filter_t id, const unsigned values[CODEC_VALUES],
                         size_t stored, size_t plain, size_t bound, char *to, const char **why) {
    bool claims = id != FILTER_LZF && id != H5Z_FILTER_DEFLATE;
    size_t length = 0, most = plain ? plain : 4 * stored, limit = plain ? plain : MOST_SHRUNK * stored;
    /* The filters of codecs.h know how many bytes will come out. */
    if (!plain && claims) most = limit = codec_decoded_bytes(id, values, room->data, stored);
    if (!plain && limit > bound) limit = bound;
    if (most > limit) most = limit;
    do {
        *why = "there is no memory to decode it";
        char *into = to ? to : grow(&room->other, &room->other_size, most + CHECKSUM_BYTES);
        if (!into) return 0;
        length = decompress_room(room, id, values, stored, into, most);
        most *= 2;
    } while (length == TOO_SMALL && most < 2 * limit);
    *why = id == FILTER_LZF           ? "it is not LZF of a whole chunk"
           : id == H5Z_FILTER_DEFLATE ? "it cannot be inflated"
                                      : "it cannot be decompressed to a whole chunk";
    return length == TOO_SMALL || (plain && length != plain) ? 0 : length;
}

/* These two compress `plain` bytes of room->data into room->other and return how many came out; 0: it failed. */
static size_t deflate_room(struct filter_buffers *room, size_t plain, unsigned level) {
#if TILERUN_LIBDEFLATE
    if (!room->compressor || room->level != level) {
        libdeflate_free_compressor(room->compressor);
        room->compressor = libdeflate_alloc_compressor((int)level);
        room->level = level;
    }
    if (!room->compressor) return 0;
    return libdeflate_zlib_compress(room->compressor, room->data, plain, room->other, room->other_size);
#else
    uLongf length = (uLongf)room->other_size;
    bool good = compress2((Bytef *)room->other, &length, (const Bytef *)room->data, (uLong)plain, (int)level) == Z_OK;
    return good ? (size_t)length : 0;
#endif
}

static size_t compact_room(struct filter_buffers *room, size_t plain) {
#if TILERUN_LZF
    if (plain > UINT_MAX || room->other_size > UINT_MAX) return 0;
    return lzf_compress(room->data, (unsigned)plain, room->other, (unsigned)room->other_size);
#else
    (void)room, (void)plain;
    return 0;
#endif
}

static size_t compress_room(struct filter_buffers *room, H5Z_filter_t id, unsigned level, size_t plain) {
    if (!grow(&room->other, &room->other_size, codec_bound(plain) + CHECKSUM_BYTES)) return 0;
    if (id == FILTER_LZF) return compact_room(room, plain);
    if (id == H5Z_FILTER_DEFLATE) return deflate_room(room, plain, level);
    return codec_compress(room->data, plain, room->other, room->other_size, (int)level);
}

/* ---- all filters ------------------------------------------------------------------------------------------------- */

static bool skipped(unsigned mask, int filter) {
    return mask >> (filter % 32) & 1;
}

/* Bytes that filter i was given when the chunk was written; 0: unknown, because a compressor came before it, or what is
 * not ours. */
static size_t bytes_before(const struct filters *filters, unsigned mask, int i, size_t plain) {
    size_t bytes = plain;
    if (filters->from > 0) return 0;
    for (int j = 0; j < i; j++) {
        if (skipped(mask, j)) continue;
        if (is_compressor(filters->id[j])) return 0;
        if (filters->id[j] == H5Z_FILTER_FLETCHER32) bytes += CHECKSUM_BYTES;
    }
    return bytes;
}

/* The filter that is undone last; -1: none is undone. */
static int undone_last(const struct filters *filters, unsigned mask) {
    for (int i = 0; i < filters->count; i++)
        if (!skipped(mask, i)) return i;
    return -1;
}

const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_buffers *room, size_t stored,
                           size_t plain, char *to, const char **why) {
    size_t bytes = stored;
    const int last = filters->from > 0 ? -1 : undone_last(filters, mask);
    for (int i = filters->count - 1; i >= filters->from; i--) {
        if (skipped(mask, i)) continue;
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            *why = "fletcher32 checksum mismatch";
            if (bytes < CHECKSUM_BYTES) return NULL;
            bytes -= CHECKSUM_BYTES;
            if (!checksum_fits(bytes_fletcher32((unsigned char *)room->data, bytes), room->data + bytes)) return NULL;
            continue;
        }
        char *into = i == last && (is_compressor(filters->id[i]) || bytes == plain) ? to : NULL;
        if (is_compressor(filters->id[i])) {
            bytes = decompress(room, filters->id[i], filters->values[i], bytes, bytes_before(filters, mask, i, plain),
                               2 * plain + LONGER, into, why);
            if (bytes == 0) return NULL;
        } else {
            *why = "there is no memory to decode it";
            char *unshuffled = into ? into : grow(&room->other, &room->other_size, bytes + CHECKSUM_BYTES);
            if (!unshuffled) return NULL;
            size_t size = filters->values[i][0] ? filters->values[i][0] : 1;
            bytes_unshuffle((unsigned char *)room->data, (unsigned char *)unshuffled, bytes, size);
        }
        if (into) return *why = NULL, into; /* all `plain` bytes */
        exchange(room);
    }
    *why = bytes == plain || filters->from > 0 ? NULL : "it has not the size of a chunk";
    return room->data;
}

const char *filters_encode(const struct filters *filters, struct filter_buffers *room, size_t plain, size_t *stored) {
    size_t bytes = plain;
    for (int i = 0; i < filters->count; i++) {
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            if (!grow(&room->data, &room->size, bytes + CHECKSUM_BYTES)) return NULL;
            checksum_store(bytes_fletcher32((unsigned char *)room->data, bytes), room->data + bytes);
            bytes += CHECKSUM_BYTES;
            continue;
        }
        if (is_compressor(filters->id[i])) {
            bytes = compress_room(room, filters->id[i], filters->values[i][0], bytes);
            if (bytes == 0) return NULL;
        } else {
            if (!grow(&room->other, &room->other_size, bytes + CHECKSUM_BYTES)) return NULL;
            size_t size = filters->values[i][0] ? filters->values[i][0] : 1;
            bytes_shuffle((unsigned char *)room->data, (unsigned char *)room->other, bytes, size);
        }
        exchange(room);
    }
    *stored = bytes;
    return room->data;
}

/* ---- for chunks that HDF5 reads itself --------------------------------------------------------------------------- */

/* The body of an H5Z_func_t. If fewer than `whole` bytes are decoded zeros follow, because HDF5 reads the whole chunk.
 */
static size_t filter_for_hdf5(H5Z_filter_t id, unsigned flags, size_t value_count, const unsigned given[], size_t bytes,
                              size_t whole, size_t *size, void **data) {
    struct filter_buffers *room = filter_buffers_create();
    unsigned values[CODEC_VALUES] = {0};
    size_t length = 0;
    const char *why;
    void *result = NULL;
    memcpy(values, given, (value_count < CODEC_VALUES ? value_count : CODEC_VALUES) * sizeof *values);
    if (is_known(id, values) && filter_buffers_reserve(room, bytes)) {
        memcpy(room->data, *data, bytes);
        if (flags & H5Z_FLAG_REVERSE)
            length = decompress(room, id, values, bytes, 0, UINT32_MAX, NULL, &why) /* HDF5's limit of a chunk */;
        else if (is_written(id))
            length = compress_room(room, id, values[0], bytes);
    }
    if (whole < length || !(flags & H5Z_FLAG_REVERSE)) whole = length;
    if (length > 0) result = H5allocate_memory(whole, true);
    if (result) {
        memcpy(result, room->other, length);
        H5free_memory(*data);
        *data = result;
        *size = whole;
    }
    filter_buffers_free(room);
    return result ? length : 0;
}

#define FILTER(NAME, ID, WHOLE)                                                                                        \
    static size_t NAME(unsigned flags, size_t count, const unsigned values[], size_t bytes, size_t *size,              \
                       void **data) {                                                                                  \
        return filter_for_hdf5(ID, flags, count, values, bytes, WHOLE, size, data);                                    \
    }
FILTER(lzf_filter, FILTER_LZF, count > 2 ? values[2] : 0) /* h5py notes the bytes of a chunk */
FILTER(blosc_filter, FILTER_BLOSC, 0)
FILTER(lz4_filter, FILTER_LZ4, 0)
FILTER(bitshuffle_filter, FILTER_BITSHUFFLE, 0)
FILTER(zstd_filter, FILTER_ZSTD, 0)

/* A plugin that HDF5 finds itself stays where our library is missing. */
void filters_register(void) {
    static const struct {
        H5Z_filter_t id;
        H5Z_func_t filter;
    } ours[] = {{FILTER_LZF, lzf_filter},
                {FILTER_BLOSC, blosc_filter},
                {FILTER_LZ4, lz4_filter},
                {FILTER_BITSHUFFLE, bitshuffle_filter},
                {FILTER_ZSTD, zstd_filter}};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        const H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                     .id = ours[i].id,
                                     .encoder_present = is_written(ours[i].id),
                                     .decoder_present = 1,
                                     .name = codec_name(ours[i].id),
                                     .filter = ours[i].filter};
        if (ours[i].id == FILTER_LZF ? TILERUN_LZF : codec_can_decode_all(ours[i].id)) H5Zregister(&filter);
    }
}
