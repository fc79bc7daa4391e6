/* reader.h - reads an array wherever its elements are: in a data set, in a generator, in a stored result.
 *
 * A reader remembers where its array lies, so its data set is open only while it is read: a job with thousands of
 * arrays needs no more descriptors than one with a few.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (a run along the last axis) is cut
 * into segments of 1024 elements. Segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number). The array's hash is the sum of all of them modulo 2^128. */
#ifndef RUNNER_READER_H
#define RUNNER_READER_H

#include "../base/trace.h"
#include "array.h"

#define READER_HASH_TEXT 33 /* 32 hex digits and a NUL */
#define READER_SEGMENT   1024
#define READERS_OPEN     32 /* open at a time; each takes one or two descriptors */

struct h5_dataset;
struct rawread;
struct pieces;

struct reader {
    const struct array *array;
    const struct decoding *decoding; /* applied to what is read; NULL: nothing is */
    char *file, *object;             /* the data set that the array lies in; NULL: none (yet) */
    const char *field;               /* of an input that is a table's; NULL: none */
    bool live;           /* another program is appending to its file: what was there when it was planned is read */
    bool foreign;        /* it is an input's: others made the file */
    struct stat version; /* the file's, which must not change; st_ino 0: the file was never opened */
    struct h5_dataset *dataset;   /* NULL: not open */
    struct rawread *raw;          /* of `dataset`; NULL: HDF5 has to read it */
    struct rawread *packed;       /* then: what is unpacked here before; NULL: nothing */
    struct pieces *pieces;        /* the data sets that the array lies in, if they are several; `file` is then NULL */
    char hash[READER_HASH_TEXT];  /* of an input in a file: "" until it is known; else always "" */
    uint64_t hash_low, hash_high; /* sum over the boxes so far */
    int64_t hashed;               /* elements hashed so far; -1: a box could not be hashed */
    struct read_counts counts;    /* of all that was read */
    struct casts casts;           /* over the elements that were counted so far: over all of them, once */
    int64_t cast;                 /* how many elements that is */
    bool losses_printed;          /* their losses were printed */
};

/* Makes a reader of an array, which must outlive it. Opens nothing. An input's file and data set are taken from the
 * array. */
void reader_init(struct reader *reader, const struct array *array);
/* Sets the file and data set that a result lies in. Opens nothing. */
void reader_set_dataset(struct reader *reader, const char *file, const char *object);
/* The same of a result that lies in several; the reader owns them from then on. */
void reader_set_pieces(struct reader *reader, struct pieces *pieces);
/* Opens the data set, unless it is open or the array lies in no file. STATUS_IO: it is gone, or its file is not the
 * version that was described or opened first. */
enum status reader_open(struct reader *reader, struct error *error);
/* STATUS_IO, with the file's name, if the file of an open reader has changed since. */
enum status reader_check(const struct reader *reader, struct error *error);
/* Are these the same file, with nothing written in between? */
bool reader_same_version(const struct stat *a, const struct stat *b);
/* Closes the data set for now. */
void reader_close(struct reader *reader);
/* Closes the data set and frees what the reader owns. */
void reader_free(struct reader *reader);

/* Reads a box, packed, into host memory, on all cores if the storage allows it. `trace` may be NULL.
 * STATUS_INTERRUPTED: a signal came before. */
enum status reader_read(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                        struct error *error);

/* Counting what is lost where elements are converted to the array's type: begin, then read every box once. */
bool reader_needs_casts(const struct reader *reader);
void reader_casts_begin(struct reader *reader);
/* Adds what was lost since `before`, a copy of `counts`, in a box. */
void reader_casts_add(struct reader *reader, const struct read_counts *before, const struct box *box);

/* Of a result: what was lost of all elements where it was written. */
void reader_casts_set(struct reader *reader, const struct casts *casts);

/* "input 'X': 3 of 65536 elements overflowed float16, 2 ..."; NULL: nothing was lost. The caller frees. */
char *reader_cast_losses(const struct reader *reader);
/* What of an input its sources lack, in the same way: "input 'x': 6 of 12 elements are fill values: 1 source is
 * missing,
 * '/d' in b.h5, which is not there". */
char *reader_absent_sources(const struct reader *reader);

/* "input 'X': decoded as CF says: stored * 0.01 + 273.15; 12 of 400 missing", once all elements were counted; NULL:
 * decoding has changed nothing. The caller frees. */
char *reader_decoding_text(const struct reader *reader);
/* How many elements are missing, and whether that is known. */
bool reader_missing_count(const struct reader *reader, int64_t *missing);

/* Hashing while the array is read for another purpose: every box must come once, in any order. After a box that is not
 * cut at multiples of READER_SEGMENT along the last axis, reader_hash has to read everything again. */
bool reader_needs_hash(const struct reader *reader);
void reader_hash_begin(struct reader *reader);
/* reader_read, which also adds the box to the hash; for contiguous data sets each core hashes what it has just read. */
enum status reader_read_hashed(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                               struct error *error);
void reader_hash_end(struct reader *reader); /* fills `hash` if all elements have been hashed */
/* Fills `hash`, if it is missing, by reading the whole array in bands of bounded size. */
enum status reader_hash(struct reader *reader, struct error *error);

/* The readers of all arrays of a job, by the arrays' numbers. */
struct readers {
    struct reader *of;
    int count, open_count;
    struct reader *open[READERS_OPEN]; /* the least recently used first */
};
void readers_init(struct readers *readers, const struct array *arrays, int count);
void readers_free(struct readers *readers);
/* Opens an array's reader; if READERS_OPEN are open, closes the least recently used one first. */
enum status readers_open(struct readers *readers, int array, struct error *error);
/* Closes the readers of arrays that no task from number `task` on reads. */
void readers_close_before(struct readers *readers, int task);

#endif
