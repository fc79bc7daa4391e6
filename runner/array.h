/* array.h - something that operands are read from, wherever its elements are: a data set, a generator, a stored result.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (run along the last axis) is cut into
 * segments of 1024 elements; segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number); the sum of all of them modulo 2^128 is the array's. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "h5io.h"
#include "job.h"

#define ARRAY_HASH_TEXT 33 /* 32 hex digits and a NUL */

struct array {
    char *name, *label; /* the input's or operation's */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    struct h5_dataset *dataset;    /* files: open; results: open once stored; random: NULL */
    int64_t first_row;             /* of the band that `rows` names */
    char hash[ARRAY_HASH_TEXT];    /* files: "" until array_hash; random and results: "" */
};

/* Reads a box, packed, into host memory. */
enum status array_read(struct array *array, const struct box *box, void *data, struct error *error);
/* Reads the whole array once, in bands of bounded size, and fills `hash`. */
enum status array_hash(struct array *array, struct error *error);

#endif
