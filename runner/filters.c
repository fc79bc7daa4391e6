/* filters.c - three filters over a pair of buffers that change places. libdeflate inflates two to three times as fast
 * as zlib; where it is absent zlib does. */
#include "filters.h"

#include <stdlib.h>
#include <string.h>
#if TILERUN_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

enum { CHECKSUM_BYTES = 4 };

struct filter_room {
    char *data, *other; /* `data` holds the chunk as it is at the moment */
    size_t size, other_size;
#if TILERUN_LIBDEFLATE
    struct libdeflate_decompressor *decompressor;
    struct libdeflate_compressor *compressor;
    unsigned level; /* of the compressor */
#endif
};

bool filters_find(hid_t creation, struct filters *filters) {
    int count = H5Pget_nfilters(creation);
    if (count < 0 || count > FILTERS_MAX) return false;
    filters->count = count;
    for (int i = 0; i < count; i++) {
        unsigned flags, configuration, values[8] = {0};
        size_t value_count = 8;
        filters->id[i] = H5Pget_filter2(creation, (unsigned)i, &flags, &value_count, values, 0, NULL, &configuration);
        filters->parameter[i] = values[0];
        bool known = filters->id[i] == H5Z_FILTER_SHUFFLE || filters->id[i] == H5Z_FILTER_DEFLATE ||
                     filters->id[i] == H5Z_FILTER_FLETCHER32;
        if (!known) return false;
    }
    return true;
}

/* ---- rooms ------------------------------------------------------------------------------------------------------- */

struct filter_room *filter_room_create(void) {
    struct filter_room *room = must_malloc(sizeof *room);
    memset(room, 0, sizeof *room);
    return room;
}

void filter_room_free(struct filter_room *room) {
    if (!room) return;
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

char *filter_room_bytes(struct filter_room *room, size_t bytes) {
    return grow(&room->data, &room->size, bytes + CHECKSUM_BYTES);
}

static void exchange(struct filter_room *room) {
    char *data = room->data;
    size_t size = room->size;
    room->data = room->other, room->size = room->other_size;
    room->other = data, room->other_size = size;
}

/* ---- shuffle: byte b of element i is at b * elements + i; what is left of a broken element stays at the end ---------
 */

#define UNSHUFFLE(TYPE)                                                                                                \
    do {                                                                                                               \
        _Pragma("omp simd") for (size_t i = 0; i < elements; i++) {                                                    \
            TYPE value = 0;                                                                                            \
            for (size_t b = 0; b < sizeof(TYPE); b++) value |= (TYPE)((TYPE)from[b * elements + i] << (8 * b));        \
            memcpy(to + i * sizeof(TYPE), &value, sizeof(TYPE));                                                       \
        }                                                                                                              \
    } while (0)

static void unshuffle(const unsigned char *restrict from, unsigned char *restrict to, size_t bytes, size_t size) {
    size_t elements = bytes / size;
    switch (size) {
    case 2: UNSHUFFLE(uint16_t); break;
    case 4: UNSHUFFLE(uint32_t); break;
    case 8: UNSHUFFLE(uint64_t); break;
    default:
        for (size_t b = 0; b < size; b++)
            for (size_t i = 0; i < elements; i++) to[i * size + b] = from[b * elements + i];
    }
    memcpy(to + elements * size, from + elements * size, bytes - elements * size);
}

static void shuffle(const unsigned char *restrict from, unsigned char *restrict to, size_t bytes, size_t size) {
    size_t elements = bytes / size;
    for (size_t b = 0; b < size; b++) {
        unsigned char *plane = to + b * elements;
#pragma omp simd
        for (size_t i = 0; i < elements; i++) plane[i] = from[i * size + b];
    }
    memcpy(to + elements * size, from + elements * size, bytes - elements * size);
}

/* ---- fletcher32: two sums of 16-bit words, most significant byte first, in ones' complement -------------------------
 */

static uint32_t fold(uint64_t sum) {
    return sum ? (uint32_t)((sum - 1) % 65535 + 1) : 0;
}

static uint32_t fletcher32(const unsigned char *data, size_t bytes) {
    enum { WORDS = 1 << 16 }; /* that the sums take without folding */
    uint64_t first = 0, second = 0;
    size_t words = bytes / 2;
    for (size_t done = 0; done < words;) {
        size_t end = words - done < WORDS ? words : done + WORDS;
        for (; done < end; done++) {
            first += (uint64_t)data[2 * done] << 8 | data[2 * done + 1];
            second += first;
        }
        first = fold(first);
        second = fold(second);
    }
    if (bytes % 2) {
        first = fold(first + ((uint64_t)data[bytes - 1] << 8));
        second = fold(second + first);
    }
    return (uint32_t)(second << 16 | first);
}

static void checksum_store(uint32_t sum, char *to) {
    for (int i = 0; i < CHECKSUM_BYTES; i++) to[i] = (char)(sum >> (8 * i));
}

/* Files of HDF5 1.6.2 on little-endian machines have the bytes of each half exchanged. */
static bool checksum_fits(uint32_t sum, const char *stored) {
    char now[CHECKSUM_BYTES], then[CHECKSUM_BYTES];
    checksum_store(sum, now);
    checksum_store((sum & 0x00ff00ffu) << 8 | (sum >> 8 & 0x00ff00ffu), then);
    return memcmp(now, stored, CHECKSUM_BYTES) == 0 || memcmp(then, stored, CHECKSUM_BYTES) == 0;
}

/* ---- deflate ------------------------------------------------------------------------------------------------------
 */

/* room->data -> room->other, where exactly `plain` bytes must come out. */
static bool inflate_room(struct filter_room *room, size_t stored, size_t plain) {
#if TILERUN_LIBDEFLATE
    if (!room->decompressor) room->decompressor = libdeflate_alloc_decompressor();
    return room->decompressor && libdeflate_zlib_decompress(room->decompressor, room->data, stored, room->other, plain,
                                                            NULL) == LIBDEFLATE_SUCCESS;
#else
    uLongf length = (uLongf)plain;
    return uncompress((Bytef *)room->other, &length, (const Bytef *)room->data, (uLong)stored) == Z_OK &&
           length == plain;
#endif
}

static size_t deflate_bound(size_t bytes) {
    return bytes + bytes / 1000 + 64 + 5 * (bytes / 10000 + 1); /* zlib's, or stored blocks, whichever is more */
}

/* 0: it failed. */
static size_t deflate_room(struct filter_room *room, size_t plain, unsigned level) {
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

/* ---- all of them ---------------------------------------------------------------------------------------------------
 */

static bool skipped(unsigned mask, int filter) {
    return mask >> (filter % 32) & 1;
}

const char *filters_decode(const struct filters *filters, unsigned mask, struct filter_room *room, size_t stored,
                           size_t plain, const char **why) {
    size_t bytes = stored;
    /* Checksums that were taken before deflating are still in what is inflated. */
    size_t inflated = plain;
    for (int i = 0; i < FILTERS_MAX && i < filters->count && filters->id[i] != H5Z_FILTER_DEFLATE; i++)
        if (filters->id[i] == H5Z_FILTER_FLETCHER32 && !skipped(mask, i)) inflated += CHECKSUM_BYTES;
    for (int i = filters->count - 1; i >= 0; i--) {
        if (skipped(mask, i)) continue;
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            *why = "its fletcher32 checksum does not fit";
            if (bytes < CHECKSUM_BYTES) return NULL;
            bytes -= CHECKSUM_BYTES;
            if (!checksum_fits(fletcher32((unsigned char *)room->data, bytes), room->data + bytes)) return NULL;
            continue;
        }
        *why = "there is no memory to decode it";
        if (!grow(&room->other, &room->other_size, (inflated > bytes ? inflated : bytes) + CHECKSUM_BYTES)) return NULL;
        if (filters->id[i] == H5Z_FILTER_DEFLATE) {
            *why = "it cannot be inflated";
            if (!inflate_room(room, bytes, inflated)) return NULL;
            bytes = inflated;
        } else {
            size_t size = filters->parameter[i] ? filters->parameter[i] : 1;
            unshuffle((unsigned char *)room->data, (unsigned char *)room->other, bytes, size);
        }
        exchange(room);
    }
    *why = bytes == plain ? NULL : "it has not the size of a chunk";
    return room->data;
}

const char *filters_encode(const struct filters *filters, struct filter_room *room, size_t plain, size_t *stored) {
    size_t bytes = plain;
    for (int i = 0; i < filters->count; i++) {
        size_t bound = deflate_bound(bytes) + CHECKSUM_BYTES;
        if (filters->id[i] == H5Z_FILTER_FLETCHER32) {
            if (!grow(&room->data, &room->size, bytes + CHECKSUM_BYTES)) return NULL;
            checksum_store(fletcher32((unsigned char *)room->data, bytes), room->data + bytes);
            bytes += CHECKSUM_BYTES;
            continue;
        }
        if (!grow(&room->other, &room->other_size, bound)) return NULL;
        if (filters->id[i] == H5Z_FILTER_DEFLATE) {
            bytes = deflate_room(room, bytes, filters->parameter[i]);
            if (bytes == 0) return NULL;
        } else {
            size_t size = filters->parameter[i] ? filters->parameter[i] : 1;
            shuffle((unsigned char *)room->data, (unsigned char *)room->other, bytes, size);
        }
        exchange(room);
    }
    *stored = bytes;
    return room->data;
}

#define SWAP(TYPE, SWAPPED)                                                                                            \
    for (int64_t i = 0; i < elements; i++) {                                                                           \
        TYPE value;                                                                                                    \
        memcpy(&value, bytes + i * (int64_t)sizeof value, sizeof value);                                               \
        value = (TYPE)SWAPPED(value);                                                                                  \
        memcpy(bytes + i * (int64_t)sizeof value, &value, sizeof value);                                               \
    }

void swap_bytes(void *data, int64_t elements, size_t size) {
    unsigned char *bytes = data;
    if (size == 2) SWAP(uint16_t, __builtin_bswap16)
    if (size == 4) SWAP(uint32_t, __builtin_bswap32)
    if (size == 8) SWAP(uint64_t, __builtin_bswap64)
}
