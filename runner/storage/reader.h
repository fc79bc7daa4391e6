/* reader.h - reads an array, wherever its elements are: a data set, a generator, a stored result.
 *
 * A reader remembers where its array lies, so that the data set is open only while somebody reads it: a job of
 * thousands of arrays takes no more descriptors than one of a few.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (run along the last axis) is cut into
 * segments of 1024 elements; segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number); the sum of all of them modulo 2^128 is the array's. */
#ifndef RUNNER_READER_H
#define RUNNER_READER_H

#include "../base/trace.h"
#include "array.h"

#define READER_HASH_TEXT 33 /* 32 hex digits and a NUL */
#define READER_SEGMENT   1024
#define READERS_OPEN     32 /* at a time; each takes one or two descriptors */

struct h5_dataset;
struct rawread;

struct reader {
    const struct array *array;
    char *file, *object;          /* the data set that it lies in; NULL: in none (yet) */
    struct stat version;          /* of the file as it must stay; st_ino 0: it was never opened */
    struct h5_dataset *dataset;   /* while it is open; else NULL */
    struct rawread *raw;          /* of `dataset`; NULL: HDF5 has to read it */
    char hash[READER_HASH_TEXT];  /* files: "" until it is known; random and results: "" */
    uint64_t hash_low, hash_high; /* of the boxes so far */
    int64_t hashed;               /* elements so far; -1: a box could not be taken */
};

/* Makes a reader of an array, which must outlive it; opens nothing. An input in a file lies there as described. */
void reader_init(struct reader *reader, const struct array *array);
/* Says in which file and data set a result lies; opens nothing. */
void reader_place(struct reader *reader, const char *file, const char *object);
/* Opens the data set; nothing to do where it is open or in no file. STATUS_IO: it is gone, or no longer the version
 * that was described or opened first. */
enum status reader_open(struct reader *reader, struct error *error);
/* STATUS_IO, with the file's name, if an open reader's file was changed since. */
enum status reader_check(const struct reader *reader, struct error *error);
/* Closes the data set for now. */
void reader_close(struct reader *reader);
/* Closes it for good. */
void reader_free(struct reader *reader);

/* Reads a box, packed, into host memory, on all cores where the storage allows. `trace` may be NULL. Nothing is read
 * after a signal: STATUS_INTERRUPTED. */
enum status reader_read(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                        struct error *error);

/* The hash, taken along while the array is read for another purpose: every box once, in any order. A box that is not
 * cut at multiples of READER_SEGMENT along the last axis spoils it, and reader_hash has to read everything again. */
bool reader_hash_missing(const struct reader *reader);
void reader_hash_begin(struct reader *reader);
/* reader_read, and the box into the hash: where it can, each core hashes what it has just read. */
enum status reader_read_hashed(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                               struct error *error);
void reader_hash_end(struct reader *reader); /* fills `hash` if all elements have come */
/* Fills `hash`, if it is missing, by reading the whole array in bands of bounded size. */
enum status reader_hash(struct reader *reader, struct error *error);

/* The readers of all arrays of a job, by the arrays' numbers. */
struct readers {
    struct reader *of;
    int count, open_count;
    struct reader *open[READERS_OPEN]; /* the longest unused first */
};
void readers_init(struct readers *readers, const struct array *arrays, int count);
void readers_free(struct readers *readers);
/* Opens an array's reader; the longest unused one is closed where READERS_OPEN are open. */
enum status readers_open(struct readers *readers, int array, struct error *error);
/* Closes those of arrays that no task from number `task` on reads. */
void readers_close_before(struct readers *readers, int task);

#endif
