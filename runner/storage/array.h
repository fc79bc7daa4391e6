/* array.h - something that operands are read from, wherever its elements are: a data set, a generator, a stored result.
 *
 * An array in a file remembers where it lies, so that it is open only while somebody reads it: a job of thousands of
 * arrays takes no more descriptors than one of a few.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (run along the last axis) is cut into
 * segments of 1024 elements; segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number); the sum of all of them modulo 2^128 is the array's. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../job/job.h"
#include "rawread.h"
#include <sys/stat.h>

#define ARRAY_HASH_TEXT 33 /* 32 hex digits and a NUL */

#define ARRAY_SEGMENT 1024
#define ARRAYS_OPEN   32 /* at most, besides those of the task under way; each takes one or two descriptors */

struct array {
    char *name, *label; /* the input's or operation's */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    char *units;                   /* of its elements; NULL: unknown */
    int last_reader;               /* the last task that reads it */
    char *file, *object;           /* the data set that it lies in; NULL: in none (yet) */
    struct stat version;           /* of the file when it was first opened; st_ino 0: it was not */
    struct shape chunk;            /* of that data set; rank 0: not in chunks */
    bool filtered, direct;         /* its chunks are encoded; it can be read past HDF5 */
    struct h5_dataset *dataset;    /* while it is open; else NULL */
    struct rawread *raw;           /* of `dataset`; NULL: HDF5 has to read it */
    int64_t first_row;             /* of the band that `rows` names */
    char hash[ARRAY_HASH_TEXT];    /* files: "" until it is known; random and results: "" */
    uint64_t hash_low, hash_high;  /* of the boxes so far */
    int64_t hashed;                /* elements so far; -1: a box could not be taken */
};

/* Says in which file and data set an array lies; opens nothing. */
void array_place(struct array *array, const char *file, const char *object);
/* Opens an array for reading; nothing to do where it is open or in no file. The first time this fills version, chunk,
 * filtered, direct and an input's units, and an input's errors are STATUS_USAGE; later the file must be as it was. */
enum status array_open(struct array *array, struct error *error);
/* STATUS_IO, with the file's name, if an open array's file was changed since it was first opened. */
enum status array_check(const struct array *array, struct error *error);
/* Closes it for now. */
void array_close(struct array *array);
/* Closes it for good. */
void array_free(struct array *array);
/* Closes those that no task from number `task` on reads; and all, where more than ARRAYS_OPEN are left. */
void arrays_close_idle(struct array *arrays, int count, int task);

/* Reads a box, packed, into host memory, on all cores where the storage allows. `trace` may be NULL. Nothing is read
 * after a signal: STATUS_INTERRUPTED. */
enum status array_read(struct array *array, const struct box *box, void *data, struct trace *trace,
                       struct error *error);

/* The hash, taken along while the array is read for another purpose: every box once, in any order. A box that is not
 * cut at multiples of ARRAY_SEGMENT along the last axis spoils it, and array_hash has to read everything again. */
bool array_hash_missing(const struct array *array);
void array_hash_begin(struct array *array);
/* array_read and array_hash_box in one: where it can, each core hashes what it has just read. */
enum status array_read_hashed(struct array *array, const struct box *box, void *data, struct trace *trace,
                              struct error *error);
void array_hash_box(struct array *array, const struct box *box, const void *data);
void array_hash_end(struct array *array); /* fills `hash` if all elements have come */
/* Fills `hash`, if it is missing, by reading the whole array in bands of bounded size. */
enum status array_hash(struct array *array, struct error *error);

#endif
