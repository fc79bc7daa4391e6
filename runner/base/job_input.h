/* job_input.h - an input as the job describes it: job/ reads it from the job file, storage/ reads its elements. */
#ifndef RUNNER_JOB_INPUT_H
#define RUNNER_JOB_INPUT_H

#include "random_terms.h"

struct yaml_node; /* a position in the job file */

/* One entry of `select`: the elements to take along one axis, with Python's meaning. */
struct job_slice {
    bool index;               /* only element `first`, and the axis is dropped */
    bool has_end;             /* false: to the end of the axis */
    int64_t first, end, step; /* negative: counted from the end of the axis; step >= 1 */
};
#define JOB_SLICE_TEXT 72
/* Writes a slice as Python does, "0:100:2" or "-1", into `text` and returns it. */
const char *job_slice_format(const struct job_slice *slice, char text[JOB_SLICE_TEXT]);

/* The slices of `select`, one for each axis. */
struct job_select {
    const struct yaml_node *where; /* errors are reported here */
    int rank;                      /* number of entries; 0: the key is not given */
    struct job_slice slices[MAX_RANK];
};

/* The slices as Python writes them, "[0:100, ::2, -1]". The caller frees. */
char *job_select_text(const struct job_select *select);

/* Which other files an input's file may refer to by external links, virtual data sets and external storage. */
enum job_external { EXTERNAL_SAME_FOLDER, EXTERNAL_ALLOW, EXTERNAL_DENY };

/* A number in a job file; exact if it is a 64-bit integer. */
struct job_number {
    bool is_integer;
    int64_t integer;
    double real;
};
#define JOB_MAX_MISSING 16
/* The numbers of `missing`. */
struct job_missing {
    int count;
    struct job_number numbers[JOB_MAX_MISSING];
};

/* An input at one combination of the swept parameters. */
struct job_input {
    const struct yaml_node *where, *node; /* its name in the job file, and the map of its keys */
    bool unread;                          /* the map has a mistake, which was reported: shape and type are unknown */
    char *name, *label;                   /* label: the values of the swept parameters that it depends on, "n=512" */
    bool random; /* generated (the last three members); false: read from a file (the members in between) */
    char *file;  /* relative to the current directory, or absolute */
    char *file_as_written;
    char *dataset, *field;      /* field: of a table; NULL: whole elements */
    enum job_external external; /* copied from the job */
    bool concatenated;          /* `file` is a pattern, and its matches are concatenated... */
    int concatenate;            /* ...along this axis */
    bool has_rows;
    int64_t rows[2]; /* first, count */
    struct job_select select;
    bool fill;                  /* missing sources of a virtual data set are read as fill values */
    bool has_dtype;             /* elements are converted... */
    enum dtype as;              /* ...to this type */
    bool stored_numbers;        /* scale_factor, _FillValue and the like are not applied (`decode: none`) */
    struct job_missing missing; /* stored numbers that mean "no value" */
    struct random_terms terms;
    struct shape shape;
    enum dtype dtype;
};

/* How a result is compressed. */
enum job_compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_LZF, COMPRESSION_ZSTD };

#endif
