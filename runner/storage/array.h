/* array.h - something that operands are read from, wherever its elements are: a data set, a generator, a stored result.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (run along the last axis) is cut into
 * segments of 1024 elements; segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number); the sum of all of them modulo 2^128 is the array's. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../job/job.h"
#include "rawread.h"

#define ARRAY_HASH_TEXT 33 /* 32 hex digits and a NUL */

#define ARRAY_SEGMENT 1024

struct array {
    char *name, *label; /* the input's or operation's */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    struct h5_dataset *dataset;    /* files: open; results: open once stored; random: NULL */
    struct rawread *raw;           /* of `dataset`; NULL: HDF5 has to read it */
    int64_t first_row;             /* of the band that `rows` names */
    char hash[ARRAY_HASH_TEXT];    /* files: "" until it is known; random and results: "" */
    uint64_t hash_low, hash_high;  /* of the boxes so far */
    int64_t hashed;                /* elements so far; -1: a box could not be taken */
};

/* Opens what `dataset` of an array (NULL: none) is read by, and closes both. */
enum status array_open(struct array *array, struct h5_dataset *dataset, struct error *error);
void array_close(struct array *array);

/* Reads a box, packed, into host memory, on all cores where the storage allows. `trace` may be NULL. */
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
