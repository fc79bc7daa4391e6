/* filters.c - applies the filters of struct filters: each reads one buffer and writes the other; then the two are
 * swapped. Deflate is done by libdeflate, which inflates two to three times as fast as zlib, or by zlib if libdeflate
 * is not installed. */
#include "filters.h"

#include "../../base/workers.h"
#include "h5io.h"

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
    CHUNKS_SEEN = 256, /* most chunks whose masks are read */
    CHECKSUM_BYTES = 4,
    LANES_BYTES = 128 << 20,
    MAX_ADDED_BYTES = 1 << 16, /* data between two compressors: at most twice the bytes of the chunk, plus this */
    MAX_SHRUNK = 1032,         /* most bytes that one byte of deflate expands to; LZF: 88 */
};

struct filter_buffers {
    char *data, *other; /* `data` holds the chunk; filters write to `other` */
    size_t size, other_size;
#if TILERUN_LIBDEFLATE
    struct libdeflate_decompressor *decompressor;
    struct libdeflate_compressor *compressor;
    unsigned level; /* level of `compressor` */
#endif
};

/* Is the filter deflate, LZF, or a compressor of codecs.h? */
static bool is_compressor(H5Z_filter_t id) {
    return id == H5Z_FILTER_DEFLATE || codec_name(id);
}

/* Can this module decode the filter? If not, *needs names what to install; NULL: not known. */
static bool can_decode(H5Z_filter_t id, const unsigned values[CODEC_VALUES], const char **needs) {
    *needs = id == FILTER_LZF        ? "a tilerun built with liblzf (Debian's liblzf-dev)"
             : id == H5Z_FILTER_SZIP ? "an HDF5 library built with szip (libaec)"
                                     : NULL;
    if (id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32 || id == H5Z_FILTER_DEFLATE) return true;
    if (*needs) return id == FILTER_LZF && TILERUN_LZF;
    return codec_can_decode(id, values, needs);
}

/* Can this module encode for a filter that HDF5 lacks? */
static bool can_encode(H5Z_filter_t id) {
    return id == FILTER_LZF || id == FILTER_ZSTD;
}

/* Reads the number and the first parameters of a filter; parameters that do not exist are 0. */
static H5Z_filter_t read_filter(hid_t creation, unsigned number, unsigned values[CODEC_VALUES]) {
    unsigned flags, configuration;
    size_t count = CODEC_VALUES;
    memset(values, 0, CODEC_VALUES * sizeof *values);
    return H5Pget_filter2(creation, number, &flags, &count, values, 0, NULL, &configuration);
}

bool filters_find(hid_t creation, struct filters *filters) {
    int count = H5Pget_nfilters(creation);
    if (count < 0 || count > FILTERS_MAX) return false;
    const char *needs;
    *filters = (struct filters){.count = count};
    for (int i = 0; i < count; i++) {
        filters->id[i] = read_filter(creation, (unsigned)i, filters->values[i]);
        if (!can_decode(filters->id[i], filters->values[i], &needs)) filters->first_supported = i + 1;
    }
    return filters->first_supported == 0;
}

bool filters_have_compressor(const struct filters *filters) {
    for (int i = filters->first_supported; i < filters->count; i++)
        if (is_compressor(filters->id[i])) return true;
    return false;
}

char *filters_missing(hid_t creation, unsigned number) {
    unsigned values[CODEC_VALUES];
    H5Z_filter_t id = read_filter(creation, number, values);
    const char *name = id == H5Z_FILTER_SZIP ? "szip" : codec_name(id), *needs;
    if (can_decode(id, values, &needs) || H5Zfilter_avail(id) > 0) return NULL;
    const char *plugin = codec_in_hdf5plugin(id)
                             ? "`pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=$(python3 -c "
                               "'import hdf5plugin; print(hdf5plugin.PLUGINS_PATH)')`"
                         : needs ? ""
                                 : "its plugin for HDF5, in a folder that HDF5_PLUGIN_PATH names";
    OWNED char *what = must_printf(name ? "filter %d (%s)" : "filter %d", (int)id, name);
    return must_printf("%s, which is not installed here: %s%s%s", what, needs ? needs : "",
                       needs && *plugin ? ", or " : "", plugin);
}

/* Do the first CHUNKS_SEEN chunks all skip the filter? Looking at all chunks would take minutes. */
static bool is_never_applied(hid_t dataset, unsigned number) {
    OWNED_ID hid_t space = H5Dget_space(dataset);
    hsize_t chunks = 0;
    unsigned mask = 0; /* bit i set: filter i was not applied */
    if (H5Dget_num_chunks(dataset, space, &chunks) < 0 || chunks == 0) return false;
    for (hsize_t i = 0; i < chunks && i < CHUNKS_SEEN; i++)
        if (H5Dget_chunk_info(dataset, space, i, NULL, &mask, NULL, NULL) < 0 || !(mask >> number & 1)) return false;
    return true;
}

char *filters_needed(hid_t dataset, hid_t creation) {
    for (unsigned i = 0; (int)i < H5Pget_nfilters(creation); i++) {
        char *missing = filters_missing(creation, i);
        if (missing && !is_never_applied(dataset, i)) return missing;
        free(missing);
    }
    return NULL;
}

const char *h5_compression_needs(enum job_compression compression) {
    const unsigned none[CODEC_VALUES] = {0};
    const char *needs;
    H5Z_filter_t id = compression == COMPRESSION_LZF    ? FILTER_LZF
                      : compression == COMPRESSION_ZSTD ? FILTER_ZSTD
                                                        : H5Z_FILTER_DEFLATE;
    return can_decode(id, none, &needs) ? NULL : needs;
}

void filters_add_compressor(hid_t creation, const struct h5_layout *layout, size_t chunk_bytes) {
    const unsigned lzf[] = {4, 0x0105, (unsigned)chunk_bytes}; /* h5py's versions of the filter and of LZF */
    const unsigned level = (unsigned)layout->level;
    if (layout->compression == COMPRESSION_GZIP) H5Pset_deflate(creation, level);
    if (layout->compression == COMPRESSION_LZF) H5Pset_filter(creation, FILTER_LZF, H5Z_FLAG_OPTIONAL, 3, lzf);
    if (layout->compression == COMPRESSION_ZSTD) H5Pset_filter(creation, FILTER_ZSTD, H5Z_FLAG_OPTIONAL, 1, &level);
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

struct filter_buffers *filter_buffers_create(void) {
    return must_zeroed(sizeof(struct filter_buffers));
}

void filter_buffers_free(struct filter_buffers *buffers) {
    free(buffers->data);
    free(buffers->other);
#if TILERUN_LIBDEFLATE
    libdeflate_free_decompressor(buffers->decompressor);
    libdeflate_free_compressor(buffers->compressor);
#endif
    free(buffers);
}

struct filter_lanes filter_lanes_create(int64_t chunk_bytes) {
    int64_t lanes = LANES_BYTES / (2 * chunk_bytes), workers = workers_count();
    struct filter_lanes made = {.count = (int)(lanes < 1 ? 1 : lanes > workers ? workers : lanes)};
    made.buffers = must_malloc((unsigned long)made.count * sizeof(struct filter_buffers *));
    for (int i = 0; i < made.count; i++) made.buffers[i] = filter_buffers_create();
    return made;
}

void filter_lanes_free(struct filter_lanes *lanes) {
    for (int i = 0; i < lanes->count; i++) filter_buffers_free(lanes->buffers[i]);
    free(lanes->buffers);
}

/* Makes *memory, of *size bytes, at least `bytes` long, and returns it. NULL: out of memory. */
static char *grow(char **memory, size_t *size, size_t bytes) {
    if (*size < bytes) {
        char *larger = realloc(*memory, bytes);
        if (!larger) return NULL;
        *memory = larger;
        *size = bytes;
    }
    return *memory;
}

char *filter_buffers_reserve(struct filter_buffers *buffers, size_t bytes) {
    return grow(&buffers->data, &buffers->size, bytes + CHECKSUM_BYTES);
}

/* Makes the result of a filter the input of the next. */
static void swap_buffers(struct filter_buffers *buffers) {
    char *data = buffers->data;
    size_t size = buffers->size;
    buffers->data = buffers->other, buffers->size = buffers->other_size;
    buffers->other = data, buffers->other_size = size;
}

/* ---- fletcher32 ---- */

static void checksum_store(uint32_t sum, char *to) {
    for (int i = 0; i < CHECKSUM_BYTES; i++) to[i] = (char)(sum >> (8 * i));
}

/* Does the stored checksum match? HDF5 1.6.2 on little-endian machines stored the bytes of each half swapped. */
static bool checksum_matches(uint32_t sum, const char *stored) {
    char computed[CHECKSUM_BYTES], reversed[CHECKSUM_BYTES];
    checksum_store(sum, computed);
    checksum_store((sum & 0x00ff00ffu) << 8 | (sum >> 8 & 0x00ff00ffu), reversed);
    return memcmp(computed, stored, CHECKSUM_BYTES) == 0 || memcmp(reversed, stored, CHECKSUM_BYTES) == 0;
}

/* ---- deflate and LZF --------------------------------------------------------------------------------------------- */

#define TOO_SMALL CODEC_TOO_SMALL

/* Decompress `stored` bytes of buffers->data and return the number of decoded bytes; 0: the data are damaged;
 * TOO_SMALL: there are more than `capacity`. */
static size_t inflate_chunk(struct filter_buffers *buffers, size_t stored, char *to, size_t capacity) {
#if TILERUN_LIBDEFLATE
    size_t length = 0;
    if (!buffers->decompressor) buffers->decompressor = libdeflate_alloc_decompressor();
    if (!buffers->decompressor) return 0;
    enum libdeflate_result result =
        libdeflate_zlib_decompress(buffers->decompressor, buffers->data, stored, to, capacity, &length);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return TOO_SMALL;
    return result == LIBDEFLATE_SUCCESS ? length : 0;
#else
    uLongf length = (uLongf)capacity;
    int result = uncompress((Bytef *)to, &length, (const Bytef *)buffers->data, (uLong)stored);
    if (result == Z_BUF_ERROR) return TOO_SMALL; /* or the data are truncated */
    return result == Z_OK ? length : 0;
#endif
}

static size_t lzf_decompress_chunk(struct filter_buffers *buffers, size_t stored, char *to, size_t capacity) {
#if TILERUN_LZF
    if (stored == 0 || stored > UINT_MAX) return 0; /* liblzf would read one byte even if there is none */
    errno = 0;
    unsigned max_int = capacity > UINT_MAX ? UINT_MAX : (unsigned)capacity;
    size_t length = lzf_decompress(buffers->data, (unsigned)stored, to, max_int);
    return length == 0 && errno == E2BIG ? TOO_SMALL : length;
#else
    (void)buffers, (void)stored, (void)to, (void)capacity;
    return 0;
#endif
}

/* Decompresses `stored` bytes of buffers->data, as inflate_chunk does, by any compressor. */
static size_t decompress_once(struct filter_buffers *buffers, H5Z_filter_t id, const unsigned values[CODEC_VALUES],
                              size_t stored, char *to, size_t capacity) {
    if (id == FILTER_LZF) return lzf_decompress_chunk(buffers, stored, to, capacity);
    if (id == H5Z_FILTER_DEFLATE) return inflate_chunk(buffers, stored, to, capacity);
    return codec_decompress(id, values, buffers->data, stored, to, capacity);
}

/* Decompresses `stored` bytes to exactly `plain_bytes` bytes, or, if `plain_bytes` is 0, to any number up to `bound`.
 * The result goes to `to`, or to buffers->other if `to` is NULL. Returns the number of bytes; 0: it failed; *why is the
 * reason. */
static size_t decompress_chunk(struct filter_buffers *buffers, H5Z_filter_t id, const unsigned values[CODEC_VALUES],
                               size_t stored, size_t plain_bytes, size_t bound, char *to, const char **why) {
    bool states_size = id != FILTER_LZF && id != H5Z_FILTER_DEFLATE; /* data of codecs.h state their decoded size */
    size_t length = 0, capacity = plain_bytes ? plain_bytes : 4 * stored;
    size_t limit = plain_bytes ? plain_bytes : MAX_SHRUNK * stored;
    if (!plain_bytes && states_size) capacity = limit = codec_decoded_bytes(id, values, buffers->data, stored);
    if (!plain_bytes && limit > bound) limit = bound;
    if (capacity > limit) capacity = limit;
    do {
        *why = "there is not enough memory to decode it";
        char *into = to ? to : grow(&buffers->other, &buffers->other_size, capacity + CHECKSUM_BYTES);
        if (!into) return 0;
        length = decompress_once(buffers, id, values, stored, into, capacity);
        capacity *= 2;
    } while (length == TOO_SMALL && capacity < 2 * limit);
    *why = id == FILTER_LZF           ? "it is not LZF of a whole chunk"
           : id == H5Z_FILTER_DEFLATE ? "it cannot be inflated"
                                      : "it cannot be decompressed to a whole chunk";
    return length == TOO_SMALL || (plain_bytes && length != plain_bytes) ? 0 : length;
}

/* Compress `plain_bytes` bytes of buffers->data into buffers->other and return the number of bytes; 0: it failed.
 * compress_chunk also makes buffers->other large enough. */
static size_t deflate_chunk(struct filter_buffers *buffers, size_t plain_bytes, unsigned level) {
#if TILERUN_LIBDEFLATE
    if (!buffers->compressor || buffers->level != level) {
        libdeflate_free_compressor(buffers->compressor);
        buffers->compressor = libdeflate_alloc_compressor((int)level);
        buffers->level = level;
    }
    if (!buffers->compressor) return 0;
    return libdeflate_zlib_compress(buffers->compressor, buffers->data, plain_bytes, buffers->other,
                                    buffers->other_size);
#else
    uLongf length = (uLongf)buffers->other_size;
    bool good = compress2((Bytef *)buffers->other, &length, (const Bytef *)buffers->data, (uLong)plain_bytes,
                          (int)level) == Z_OK;
    return good ? (size_t)length : 0;
#endif
}

static size_t lzf_compress_chunk(struct filter_buffers *buffers, size_t plain_bytes) {
#if TILERUN_LZF
    if (plain_bytes > UINT_MAX || buffers->other_size > UINT_MAX) return 0;
    return lzf_compress(buffers->data, (unsigned)plain_bytes, buffers->other, (unsigned)buffers->other_size);
#else
    (void)buffers, (void)plain_bytes;
    return 0;
#endif
}

static size_t compress_chunk(struct filter_buffers *buffers, H5Z_filter_t id, unsigned level, size_t plain_bytes) {
    if (!grow(&buffers->other, &buffers->other_size, codec_bound(plain_bytes) + CHECKSUM_BYTES)) return 0;
    if (id == FILTER_LZF) return lzf_compress_chunk(buffers, plain_bytes);
    if (id == H5Z_FILTER_DEFLATE) return deflate_chunk(buffers, plain_bytes, level);
    return codec_compress(buffers->data, plain_bytes, buffers->other, buffers->other_size, (int)level);
}

/* ---- all filters ------------------------------------------------------------------------------------------------- */

/* Was the filter not applied to the chunk? */
static bool is_skipped(unsigned mask, int filter) {
    return mask >> (filter % 32) & 1;
}

/* The input size of filter i when the chunk was written; 0: not known, because a compressor or an unsupported filter
 * came before it. */
static size_t bytes_before(const struct filters *filters, unsigned mask, int i, size_t plain_bytes) {
    size_t bytes = plain_bytes;
    if (filters->first_supported > 0) return 0;
    for (int j = 0; j < i; j++) {
        if (is_skipped(mask, j)) continue;
        if (is_compressor(filters->id[j])) return 0;
        if (filters->id[j] == H5Z_FILTER_FLETCHER32) bytes += CHECKSUM_BYTES;
    }
    return bytes;
}

/* The filter that decoding undoes last; -1: no filter was applied. */
static int last_decoded(const struct filters *filters, unsigned mask) {
    for (int i = 0; i < filters->count; i++)
        if (!is_skipped(mask, i)) return i;
    return -1;
}

const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_buffers *buffers, size_t stored,
                           size_t plain_bytes, char *to, const char **why) {
    size_t bytes = stored;
    const int last = filters->first_supported > 0 ? -1 : last_decoded(filters, mask);
    for (int i = filters->count - 1; i >= filters->first_supported; i--) {
        if (is_skipped(mask, i)) continue;
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            *why = "fletcher32 checksum mismatch";
            if (bytes < CHECKSUM_BYTES) return NULL;
            bytes -= CHECKSUM_BYTES;
            if (!checksum_matches(bytes_fletcher32((unsigned char *)buffers->data, bytes), buffers->data + bytes))
                return NULL;
            continue;
        }
        char *into = i == last && (is_compressor(filters->id[i]) || bytes == plain_bytes) ? to : NULL;
        if (is_compressor(filters->id[i])) {
            bytes = decompress_chunk(buffers, filters->id[i], filters->values[i], bytes,
                                     bytes_before(filters, mask, i, plain_bytes), 2 * plain_bytes + MAX_ADDED_BYTES,
                                     into, why);
            if (bytes == 0) return NULL;
        } else {
            *why = "there is not enough memory to decode it";
            char *unshuffled = into ? into : grow(&buffers->other, &buffers->other_size, bytes + CHECKSUM_BYTES);
            if (!unshuffled) return NULL;
            size_t size = filters->values[i][0] ? filters->values[i][0] : 1;
            bytes_unshuffle((unsigned char *)buffers->data, (unsigned char *)unshuffled, bytes, size);
        }
        if (into) return *why = NULL, into; /* `to` holds all `plain_bytes` bytes */
        swap_buffers(buffers);
    }
    *why = bytes == plain_bytes || filters->first_supported > 0 ? NULL : "it does not have the size of a chunk";
    return buffers->data;
}

const char *filters_encode(const struct filters *filters, struct filter_buffers *buffers, size_t plain_bytes,
                           size_t *stored) {
    size_t bytes = plain_bytes;
    for (int i = 0; i < filters->count; i++) {
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            if (!grow(&buffers->data, &buffers->size, bytes + CHECKSUM_BYTES)) return NULL;
            checksum_store(bytes_fletcher32((unsigned char *)buffers->data, bytes), buffers->data + bytes);
            bytes += CHECKSUM_BYTES;
            continue;
        }
        if (is_compressor(filters->id[i])) {
            bytes = compress_chunk(buffers, filters->id[i], filters->values[i][0], bytes);
            if (bytes == 0) return NULL;
        } else {
            if (!grow(&buffers->other, &buffers->other_size, bytes + CHECKSUM_BYTES)) return NULL;
            size_t size = filters->values[i][0] ? filters->values[i][0] : 1;
            bytes_shuffle((unsigned char *)buffers->data, (unsigned char *)buffers->other, bytes, size);
        }
        swap_buffers(buffers);
    }
    *stored = bytes;
    return buffers->data;
}

/* ---- for chunks that HDF5 reads itself --------------------------------------------------------------------------- */

/* The body of an H5Z_func_t. HDF5 reads complete chunks, so zeros pad a decoded result to `result_bytes` bytes. */
static size_t filter_for_hdf5(H5Z_filter_t id, unsigned flags, size_t value_count, const unsigned given[], size_t bytes,
                              size_t result_bytes, size_t *size, void **data) {
    struct filter_buffers *buffers = filter_buffers_create();
    unsigned values[CODEC_VALUES] = {0};
    size_t length = 0;
    const char *why, *needs;
    void *result = NULL;
    memcpy(values, given, (value_count < CODEC_VALUES ? value_count : CODEC_VALUES) * sizeof *values);
    if (can_decode(id, values, &needs) && filter_buffers_reserve(buffers, bytes)) {
        memcpy(buffers->data, *data, bytes);
        if (flags & H5Z_FLAG_REVERSE) /* UINT32_MAX: HDF5's limit of a chunk's bytes */
            length = decompress_chunk(buffers, id, values, bytes, 0, UINT32_MAX, NULL, &why);
        else if (can_encode(id))
            length = compress_chunk(buffers, id, values[0], bytes);
    }
    if (result_bytes < length || !(flags & H5Z_FLAG_REVERSE)) result_bytes = length;
    if (length > 0) result = H5allocate_memory(result_bytes, true);
    if (result) {
        memcpy(result, buffers->other, length);
        H5free_memory(*data);
        *data = result;
        *size = result_bytes;
    }
    filter_buffers_free(buffers);
    return result ? length : 0;
}

/* Defines an H5Z_func_t. WHOLE: the bytes of a whole chunk; 0: not known. */
#define FILTER(NAME, ID, WHOLE)                                                                                        \
    static size_t NAME(unsigned flags, size_t count, const unsigned values[], size_t bytes, size_t *size,              \
                       void **data) {                                                                                  \
        return filter_for_hdf5(ID, flags, count, values, bytes, WHOLE, size, data);                                    \
    }
FILTER(lzf_filter, FILTER_LZF, count > 2 ? values[2] : 0) /* h5py stores the size of a chunk in parameter 2 */
FILTER(blosc_filter, FILTER_BLOSC, 0)
FILTER(lz4_filter, FILTER_LZ4, 0)
FILTER(bitshuffle_filter, FILTER_BITSHUFFLE, 0)
FILTER(zstd_filter, FILTER_ZSTD, 0)

/* Registers the filters with HDF5. Those whose library is missing are not registered, so that HDF5 can use a plugin for
 * them. */
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
                                     .encoder_present = can_encode(ours[i].id),
                                     .decoder_present = 1,
                                     .name = codec_name(ours[i].id),
                                     .filter = ours[i].filter};
        if (ours[i].id == FILTER_LZF ? TILERUN_LZF : codec_can_decode_all(ours[i].id)) H5Zregister(&filter);
    }
}
