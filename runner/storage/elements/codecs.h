/* codecs.h - chunks that filters registered with The HDF Group have compressed: zstd, LZ4 and Blosc by their libraries,
 * which are opened when a file first needs one, and bitshuffle (over LZ4, zstd or nothing), which is undone here. */
#ifndef RUNNER_CODECS_H
#define RUNNER_CODECS_H

#include <stdbool.h>
#include <stddef.h>

/* The numbers of the filters. */
#define FILTER_BZIP2      307
#define FILTER_LZF        32000 /* h5py's own */
#define FILTER_BLOSC      32001
#define FILTER_LZ4        32004
#define FILTER_BITSHUFFLE 32008
#define FILTER_ZFP        32013
#define FILTER_ZSTD       32015
#define FILTER_SZ         32017
#define FILTER_BLOSC2     32026

/* The name by which people know a filter; NULL: none is known. */
const char *codec_name(int filter);
/* Is it among those that the Python package hdf5plugin brings? */
bool codec_in_hdf5plugin(int filter);

/* What a filter of those above takes of its parameters: bitshuffle the bytes of an element, the elements of a block (0:
 * its own choice) and a compressor. */
#define CODEC_VALUES 5

/* Can this module undo the filter here? If not, *needs is what is missing, "libblosc.so.1 (Debian's libblosc1)"; NULL:
 * it never can. */
bool codec_can_decode(int filter, const unsigned values[CODEC_VALUES], const char **needs);
/* Can it do so whatever the parameters are? */
bool codec_can_decode_all(int filter);

#define CODEC_DAMAGED   0
#define CODEC_TOO_SMALL ((size_t)-1)
/* Decompresses `stored` bytes into `to`, which has room for `most`. Returns how many bytes came out, CODEC_DAMAGED, or
 * CODEC_TOO_SMALL: there are more than `most`. Any thread may call it. */
size_t codec_decompress(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored, void *to,
                        size_t most);
/* Compresses by zstd into `to`, which has room for codec_bound(bytes). Returns how many bytes came out; 0: it failed.
 * Any thread may call it. */
size_t codec_compress(const void *from, size_t bytes, void *to, size_t room, int level);
/* No compressor makes more of so many bytes. */
size_t codec_bound(size_t bytes);

/* How many bytes will come out, as the data themselves claim; 0: they do not say. */
size_t codec_decoded_bytes(int filter, const unsigned values[CODEC_VALUES], const void *from, size_t stored);

#endif
