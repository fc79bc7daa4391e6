/* codecs.h - decompresses chunks of filters that are registered with The HDF Group: zstd, LZ4 and Blosc by their
 * libraries, which are opened when a file first needs them, and bitshuffle (with LZ4, zstd or no compressor) by code in
 * this module. */
#ifndef RUNNER_CODECS_H
#define RUNNER_CODECS_H

#include <stdbool.h>
#include <stddef.h>

/* Filter numbers. */
#define FILTER_BZIP2      307
#define FILTER_LZF        32000 /* h5py's own */
#define FILTER_BLOSC      32001
#define FILTER_LZ4        32004
#define FILTER_BITSHUFFLE 32008
#define FILTER_ZFP        32013
#define FILTER_ZSTD       32015
#define FILTER_SZ         32017
#define FILTER_BLOSC2     32026

/* The common name of a filter; NULL: not known. */
const char *codec_name(int filter);
/* Does the Python package hdf5plugin contain the filter? */
bool codec_in_hdf5plugin(int filter);

/* The number of filter parameters that this module uses. */
#define CODEC_VALUES 5

/* Can this module decode the filter here? If not, *needs names what is missing, "libblosc.so.1 (Debian's libblosc1)",
 * or is NULL: this module does not implement the filter. */
bool codec_can_decode(int filter, const unsigned values[CODEC_VALUES], const char **needs);
/* Can this module decode the filter with any parameters? */
bool codec_can_decode_all(int filter);

#define CODEC_DAMAGED   0
#define CODEC_TOO_SMALL ((size_t)-1)
/* Decompresses `stored` bytes into `to`, which has room for `capacity` bytes. Returns the number of decoded bytes,
 * CODEC_DAMAGED, or CODEC_TOO_SMALL if there are more than `capacity`. Thread-safe. */
size_t codec_decompress(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored, void *to,
                        size_t capacity);
/* Compresses by zstd into `to`, which has room for codec_bound(bytes). Returns the number of compressed bytes; 0: it
 * failed. Thread-safe. */
size_t codec_compress(const void *from, size_t bytes, void *to, size_t capacity, int level);
/* An upper bound on the compressed size of `bytes` bytes, for all compressors. */
size_t codec_bound(size_t bytes);

/* The number of decoded bytes that the compressed data state; 0: they state none. */
size_t codec_decoded_bytes(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored);

#endif
