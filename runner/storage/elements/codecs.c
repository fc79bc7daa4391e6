/* codecs.c - loads decompressors at run time, and implements bitshuffle.
 *
 * Stored formats, from the specifications and sources of the filters (numbers most significant byte first):
 *     zstd         a Zstandard frame
 *     LZ4          total bytes (8), bytes of a block (4); for each block its stored bytes (4) and the block,
 *                  uncompressed if its stored bytes equal its decoded bytes
 *     Blosc        a Blosc 1 buffer
 *     bitshuffle   alone: as described below; with LZ4 or zstd: total bytes (8), bytes of a block (4); for each
 *                  block its stored bytes (4) and the compressed block; then, uncompressed, the elements after the
 *                  last group of 8
 *
 * Bitshuffle stores bit b of byte j of all elements of a block side by side, eight to a byte, least significant bit
 * first. */
#include "codecs.h"

#include "bytes.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* From the registry of The HDF Group; `plugin`: hdf5plugin contains it. */
static const struct registered_filter {
    int filter;
    const char *name;
    bool plugin;
} registered_filters[] = {
    {305, "LZO", false},
    {FILTER_BZIP2, "bzip2", true},
    {FILTER_LZF, "LZF", false},
    {FILTER_BLOSC, "Blosc", true},
    {32002, "MAFISC", false},
    {32003, "Snappy", false},
    {FILTER_LZ4, "LZ4", true},
    {32005, "APAX", false},
    {32006, "CBF", false},
    {32007, "JPEG-XR", false},
    {FILTER_BITSHUFFLE, "bitshuffle", true},
    {32009, "SPDP", false},
    {32010, "LPC-Rice", false},
    {32011, "CCSDS-123", false},
    {32012, "JPEG-LS", false},
    {FILTER_ZFP, "ZFP", true},
    {32014, "fpzip", false},
    {FILTER_ZSTD, "zstd", true},
    {32016, "B3D", false},
    {FILTER_SZ, "SZ", true},
    {32018, "FCIDECOMP, which is JPEG-LS", true},
    {32019, "JPEG", false},
    {32020, "VBZ", false},
    {32021, "FAPEC", false},
    {32022, "BitGroom", false},
    {32023, "Granular BitRound", false},
    {32024, "SZ3", true},
    {32025, "Delta-Rice", false},
    {FILTER_BLOSC2, "Blosc2", true},
    {32027, "FLAC", false},
    {32028, "SPERR", true},
    {32029, "TERSE/PROLIX", false},
    {32030, "FFMPEG", false},
    {32033, "HTJ2K", true},
};

/* NULL: the registry has no such filter. */
static const struct registered_filter *find_registered(int filter) {
    for (size_t i = 0; i < sizeof registered_filters / sizeof *registered_filters; i++)
        if (registered_filters[i].filter == filter) return &registered_filters[i];
    return NULL;
}

const char *codec_name(int filter) {
    const struct registered_filter *entry = find_registered(filter);
    return entry ? entry->name : NULL;
}

bool codec_in_hdf5plugin(int filter) {
    const struct registered_filter *entry = find_registered(filter);
    return entry && entry->plugin;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

static struct libraries {
    int (*lz4)(const char *from, char *to, int stored, int capacity);
    size_t (*zstd)(void *to, size_t capacity, const void *from, size_t stored);
    size_t (*zstd_compress)(void *to, size_t capacity, const void *from, size_t bytes, int level);
    unsigned long long (*zstd_decoded_bytes)(const void *from, size_t stored);
    int (*blosc)(const void *from, void *to, size_t capacity, int threads);
    int (*blosc_validate)(const void *from, size_t stored, size_t *claims);
} libraries;

/* Loads a symbol of a library. ISO C does not convert an object pointer to a function pointer; POSIX does. */
static void load_symbol(const char *library, const char *name, void *function) {
    void *file = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* stays open */
    if (file) *(void **)function = dlsym(file, name);
}

static void load_libraries(void) {
    load_symbol("liblz4.so.1", "LZ4_decompress_safe", (void *)&libraries.lz4);
    load_symbol("libzstd.so.1", "ZSTD_decompress", (void *)&libraries.zstd);
    load_symbol("libzstd.so.1", "ZSTD_compress", (void *)&libraries.zstd_compress);
    load_symbol("libzstd.so.1", "ZSTD_getFrameContentSize", (void *)&libraries.zstd_decoded_bytes);
    load_symbol("libblosc.so.1", "blosc_decompress_ctx", (void *)&libraries.blosc);
    load_symbol("libblosc.so.1", "blosc_cbuffer_validate", (void *)&libraries.blosc_validate);
}

/* Opens the libraries at the first call; a function is NULL if its library is missing. */
static const struct libraries *open_libraries(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_libraries);
    return &libraries;
}

/* Values of the parameter by which bitshuffle names its compressor. */
/* Parameters of bitshuffle: bytes of an element, elements of a block (0: default), and the compressor. */
enum { ELEMENT_BYTES = 2, BLOCK_ELEMENTS = 3, COMPRESSOR = 4 };
enum { NO_COMPRESSOR = 0, WITH_LZ4 = 2, WITH_ZSTD = 3 };

bool codec_can_decode(int filter, const unsigned values[CODEC_VALUES], const char **needs) {
    static const char lz4[] = "liblz4.so.1 (Debian's liblz4-1)", zstd[] = "libzstd.so.1 (Debian's libzstd1)",
                      blosc[] = "libblosc.so.1 (Debian's libblosc1)";
    const struct libraries *here = open_libraries();
    *needs = NULL;
    unsigned compressor = filter == FILTER_BITSHUFFLE ? values[COMPRESSOR] : NO_COMPRESSOR;
    if (filter == FILTER_BITSHUFFLE && compressor != NO_COMPRESSOR && compressor != WITH_LZ4 && compressor != WITH_ZSTD)
        return false;
    if ((filter == FILTER_LZ4 || compressor == WITH_LZ4) && !here->lz4) *needs = lz4;
    if ((filter == FILTER_ZSTD || compressor == WITH_ZSTD) &&
        !(here->zstd && here->zstd_compress && here->zstd_decoded_bytes))
        *needs = zstd;
    if (filter == FILTER_BLOSC && !(here->blosc && here->blosc_validate)) *needs = blosc;
    bool ours = filter == FILTER_LZ4 || filter == FILTER_ZSTD || filter == FILTER_BLOSC || filter == FILTER_BITSHUFFLE;
    return ours && !*needs;
}

bool codec_can_decode_all(int filter) {
    const unsigned lz4[CODEC_VALUES] = {[COMPRESSOR] = WITH_LZ4}, zstd[CODEC_VALUES] = {[COMPRESSOR] = WITH_ZSTD};
    const char *needs;
    return codec_can_decode(filter, lz4, &needs) && codec_can_decode(filter, zstd, &needs);
}

/* ---- one block --------------------------------------------------------------------------------------------------- */

static uint64_t big_endian(const unsigned char *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | from[i];
    return value;
}

/* Decompresses a block that must fill `bytes` bytes exactly. */
static bool decompress_block(unsigned compressor, const unsigned char *from, size_t stored, unsigned char *to,
                             size_t bytes) {
    if (compressor == WITH_ZSTD) return libraries.zstd(to, bytes, from, stored) == bytes;
    if (stored > INT_MAX || bytes > INT_MAX) return false;
    return libraries.lz4((const char *)from, (char *)to, (int)stored, (int)bytes) == (int)bytes;
}

/* Reads the format that LZ4's and bitshuffle's filters share: a header, then blocks. */
struct block_reader {
    size_t bytes, block_bytes; /* total; of each block but the last */
    const unsigned char *at;
    size_t remaining; /* stored bytes from `at` on */
};

/* Reads the header of data in blocks; false: they are damaged. */
static bool read_header(const void *from, size_t stored, struct block_reader *reader) {
    const unsigned char *header = from;
    if (stored < 12) return false;
    uint64_t bytes = big_endian(header, 8);
    *reader = (struct block_reader){(size_t)bytes, (size_t)big_endian(header + 8, 4), header + 12, stored - 12};
    return bytes < SIZE_MAX && reader->block_bytes > 0;
}

/* Finds the next block and its number of stored bytes; false: the data end before. */
static bool next_block(struct block_reader *reader, const unsigned char **block, size_t *stored) {
    if (reader->remaining < 4) return false;
    *stored = (size_t)big_endian(reader->at, 4);
    if (*stored > reader->remaining - 4) return false;
    *block = reader->at + 4;
    reader->at += 4 + *stored;
    reader->remaining -= 4 + *stored;
    return true;
}

/* ---- LZ4 --------------------------------------------------------------------------------------------------------- */

/* codec_decompress for the LZ4 filter. */
static size_t decode_lz4(const void *from, size_t stored, unsigned char *to, size_t capacity) {
    struct block_reader reader;
    const unsigned char *block;
    size_t length;
    if (!read_header(from, stored, &reader)) return CODEC_DAMAGED;
    if (reader.bytes > capacity) return CODEC_TOO_SMALL;
    for (size_t done = 0; done < reader.bytes; done += reader.block_bytes) {
        size_t bytes = reader.bytes - done < reader.block_bytes ? reader.bytes - done : reader.block_bytes;
        if (!next_block(&reader, &block, &length)) return CODEC_DAMAGED;
        if (length == bytes)
            memcpy(to + done, block, bytes);
        else if (!decompress_block(WITH_LZ4, block, length, to + done, bytes))
            return CODEC_DAMAGED;
    }
    return reader.bytes;
}

/* ---- bitshuffle -------------------------------------------------------------------------------------------------- */

/* Transposes an 8x8 matrix of bits: bit k of byte b becomes bit b of byte k. */
static uint64_t transpose_bits(uint64_t x) {
    uint64_t t = (x ^ (x >> 7)) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ (t << 28);
}

/* Swaps the bits of a at `low << shift` with the bits of b at `low`. */
static void swap_bit_groups(uint64_t *a, uint64_t *b, int shift, uint64_t low) {
    uint64_t t = ((*a >> shift) ^ *b) & low;
    *b ^= t;
    *a ^= t << shift;
}

/* Transposes an 8x8 matrix of bytes: byte k of word w becomes byte w of word k. */
static void transpose_bytes(uint64_t word[8]) {
    for (int i = 0; i < 4; i++) swap_bit_groups(&word[i], &word[i + 4], 32, UINT64_C(0x00000000ffffffff));
    for (int i = 0; i < 6; i += i % 2 ? 3 : 1)
        swap_bit_groups(&word[i], &word[i + 2], 16, UINT64_C(0x0000ffff0000ffff));
    for (int i = 0; i < 8; i += 2) swap_bit_groups(&word[i], &word[i + 1], 8, UINT64_C(0x00ff00ff00ff00ff));
}

/* Returns byte number `byte` of each of the 8 elements of a group. */
static uint64_t group_bytes(const unsigned char *from, size_t row, size_t byte, size_t group) {
    uint64_t bits = 0;
    for (unsigned b = 0; b < 8; b++) bits |= (uint64_t)from[(byte * 8 + b) * row + group] << (8 * b);
    return transpose_bits(bits);
}

enum { MAX_SIZE = 8 /* bytes of an element */, STRIP = 64 /* groups that are decoded together */ };

/* Decodes STRIP groups from `group` on: sorts their bits into bytes by significance, then those into elements. */
static void unshuffle_strip(const unsigned char *from, unsigned char *to, size_t row, size_t group, size_t size) {
    uint64_t sorted[MAX_SIZE * STRIP];
    for (size_t byte = 0; byte < size; byte++)
        for (size_t at = 0; at < STRIP; at += 8) {
            uint64_t *word = sorted + byte * STRIP + at;
            for (size_t b = 0; b < 8; b++) memcpy(&word[b], from + (byte * 8 + b) * row + group + at, sizeof *word);
            transpose_bytes(word);
            _Pragma("omp simd") for (size_t b = 0; b < 8; b++) word[b] = transpose_bits(word[b]);
        }
    bytes_unshuffle((const uint8_t *)sorted, to + group * 8 * size, STRIP * 8 * size, size);
}

/* Decodes a block of `count` elements of `size` bytes; `count` is a multiple of 8. */
static void unshuffle_bits(const unsigned char *from, unsigned char *to, size_t count, size_t size) {
    size_t row = count / 8, group = 0;
    for (; size <= MAX_SIZE && row - group >= STRIP; group += STRIP) unshuffle_strip(from, to, row, group, size);
    for (; group < row; group++)
        for (size_t byte = 0; byte < size; byte++) {
            uint64_t bytes = group_bytes(from, row, byte, group);
            for (unsigned e = 0; e < 8; e++) to[(group * 8 + e) * size + byte] = (unsigned char)(bytes >> (8 * e));
        }
}

enum { DEFAULT_BLOCK_BYTES = 8192, MIN_BLOCK = 128 /* elements */ };

/* The elements of a block, of `size` bytes each, if the filter's parameter is 0. */
static size_t default_block(size_t size) {
    size_t elements = DEFAULT_BLOCK_BYTES / size / 8 * 8;
    return elements < MIN_BLOCK ? MIN_BLOCK : elements;
}

/* Decodes blocks of `elements`, then a last block of whole groups of 8; copies the rest, which is stored as it is. */
static void unshuffle_chunk(const unsigned char *from, unsigned char *to, size_t bytes, size_t size, size_t elements) {
    size_t all = bytes / size, grouped = all / 8 * 8;
    for (size_t i = 0; i < grouped; i += elements)
        unshuffle_bits(from + i * size, to + i * size, grouped - i < elements ? grouped - i : elements, size);
    memcpy(to + grouped * size, from + grouped * size, bytes - grouped * size);
}

/* Decodes bitshuffle with a compressor; `size`: bytes of an element. The elements after the last multiple of 8 follow
 * unchanged. */
static size_t decompress_and_unshuffle(const struct block_reader *header, unsigned compressor, size_t size,
                                       unsigned char *to) {
    struct block_reader reader = *header;
    const unsigned char *block;
    size_t length, grouped = reader.bytes / size / 8 * 8 * size; /* bytes */
    unsigned char *bits = malloc((reader.block_bytes < grouped ? reader.block_bytes : grouped) + 1);
    bool good = bits && reader.block_bytes % (8 * size) == 0;
    for (size_t done = 0; good && done < grouped; done += reader.block_bytes) {
        size_t bytes = grouped - done < reader.block_bytes ? grouped - done : reader.block_bytes;
        good = next_block(&reader, &block, &length) && decompress_block(compressor, block, length, bits, bytes);
        if (good) unshuffle_bits(bits, to + done, bytes / size, size);
    }
    free(bits);
    good = good && reader.remaining == reader.bytes - grouped;
    if (good) memcpy(to + grouped, reader.at, reader.remaining);
    return good ? reader.bytes : CODEC_DAMAGED;
}

/* codec_decompress for bitshuffle. */
static size_t decode_bitshuffle(const unsigned values[], const void *from, size_t stored, void *to, size_t capacity) {
    struct block_reader reader;
    size_t size = values[ELEMENT_BYTES], elements = values[BLOCK_ELEMENTS];
    if (size == 0 || elements % 8 != 0) return CODEC_DAMAGED;
    if (values[COMPRESSOR] == NO_COMPRESSOR) {
        if (stored > capacity) return CODEC_TOO_SMALL;
        unshuffle_chunk(from, to, stored, size, elements ? elements : default_block(size));
        return stored;
    }
    if (!read_header(from, stored, &reader)) return CODEC_DAMAGED;
    if (reader.bytes > capacity) return CODEC_TOO_SMALL;
    return decompress_and_unshuffle(&reader, values[COMPRESSOR], size, to);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

size_t codec_decoded_bytes(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored) {
    struct block_reader reader;
    size_t claims = 0;
    if (filter == FILTER_BITSHUFFLE && values[COMPRESSOR] == NO_COMPRESSOR) return stored;
    if (filter == FILTER_BLOSC) return libraries.blosc_validate(from, stored, &claims) < 0 ? 0 : claims;
    if (filter == FILTER_ZSTD) {
        unsigned long long bytes = libraries.zstd_decoded_bytes(from, stored);
        return bytes >= ULLONG_MAX - 1 ? 0 : (size_t)bytes; /* unknown, or an error */
    }
    return read_header(from, stored, &reader) ? reader.bytes : 0;
}

size_t codec_bound(size_t bytes) {
    return bytes + bytes / 16 + 1024; /* LZF has the largest overhead: a byte for each 32 literals */
}

size_t codec_compress(const void *from, size_t bytes, void *to, size_t capacity, int level) {
    if (!open_libraries()->zstd_compress) return 0;
    size_t length = libraries.zstd_compress(to, capacity, from, bytes, level);
    return length > capacity ? 0 : length; /* errors are the largest numbers */
}

size_t codec_decompress(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored, void *to,
                        size_t capacity) {
    if (filter == FILTER_BITSHUFFLE) return decode_bitshuffle(values, from, stored, to, capacity);
    if (filter == FILTER_LZ4) return decode_lz4(from, stored, to, capacity);
    size_t claims = codec_decoded_bytes(filter, values, from, stored);
    if (claims > capacity) return CODEC_TOO_SMALL;
    if (filter == FILTER_BLOSC) {
        if (claims == 0 || claims > INT_MAX) return CODEC_DAMAGED;
        return libraries.blosc(from, to, capacity, 1) == (int)claims ? claims : CODEC_DAMAGED;
    }
    size_t length = libraries.zstd(to, capacity, from, stored);
    return length > capacity ? CODEC_DAMAGED : length; /* errors are the largest numbers */
}
