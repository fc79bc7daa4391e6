/* array.h - describes an operand: an input in a file, a generated input, or the result of an operation. The description
 * does not change after planning; reader.h reads the elements. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../../kernels/core/cut.h"
#include "elements/decode.h"
#include "h5/h5.h"
#include "view.h"

#include <sys/stat.h>

/* Identifies an axis of an array as an axis of an input's data set. Only axes with a label or dimension scales are
 * recorded. An axis of a result is an axis of an input if the operation's geometry says so. */
struct array_axis {
    const struct array *input; /* NULL: nothing is known */
    int number;                /* axis number in the input's data set */
    char *label;               /* owned by `input`; NULL: none */
};

/* A panel's input: a band of an input of the job. */
struct array_band {
    const struct array *input; /* the complete input; NULL: the array is not a band */
    int axis;                  /* the axis that is cut */
    int64_t first;             /* the band's first element along that axis */
};

/* One file of a concatenated input. */
struct concatenated_file {
    char *file;
    struct box box; /* position of its data set in the array */
    struct stat version;
    struct decoding *decoding; /* NULL: the stored numbers are the values */
};
struct concatenated_files {
    const struct array *owner;
    int count;
    char *packing; /* how the attributes of all files pack numbers; NULL: the files differ */
    double
        *coordinates[MAX_RANK]; /* of the first file along the other axes; NULL: it has none, or other files differ */
    struct concatenated_file items[];
};

/* Texts and the decoding are owned, but for the names. */
struct array {
    /* ---- every array ---- */
    const char *name, *label; /* the input's or operation's; owned by the job */
    enum dtype dtype;
    struct shape shape;
    bool unknown;              /* type and shape are unknown, because of a mistake in the job that was reported */
    char *units, *long_name;   /* unit and meaning of the elements; NULL: unknown */
    struct decoding *decoding; /* computes the values from stored numbers; NULL: the stored numbers are the values */
    bool keeps_stored;         /* the elements are nevertheless stored numbers, for operations that only move them */
    struct array *counterpart; /* the same array in the plan with the opposite `keeps_stored`; NULL: none */
    struct array_axis axes[MAX_RANK];
    int first_reader, last_reader; /* first and last task that read it; -1: none */
    /* ---- a result: `from_job` is NULL ---- */
    const struct array *moved_from; /* the input whose elements the result has in another order; NULL: none */
    /* ---- an input, in a file or generated ---- */
    const struct job_input *from_job; /* as the job describes it */
    struct data_view view; /* the part of its data set or generated shape that the job reads (`rows`, `select`) */
    struct array_band band;
    bool has_bands; /* arrays of the plan are bands of this one */
    /* ---- an input in a file: `from_job->random` is false ---- */
    char *unreadable;        /* why its files cannot be read, in a tolerant job; NULL: they can be read */
    char *remark;            /* about attributes that cannot be applied; NULL: none */
    enum dtype stored;       /* type in the data set; elements are read as `dtype` */
    struct shape chunk;      /* of the data set; rank 0: not chunked */
    bool filtered;           /* chunks are encoded */
    bool direct;             /* rawread.h can read the data set without HDF5 */
    double stored_bytes;     /* bytes that its files store for the data set; infinity: not known */
    bool scattered;          /* virtual, or in external storage: its files may be missing */
    struct h5_absent absent; /* the elements of the view that no source has */
    struct stat version;     /* identifies the file as it was described; st_ino 0: there are several files */
    bool settled;            /* every later change of the values changes the version of a file (h5_is_settled) */
    struct concatenated_files
        *parts;          /* the files of a concatenated input (reader.c: pieces); NULL: it is in one file */
    bool mixed_decoding; /* the parts are decoded differently; `decoding` is that of the first decoded part */
};

/* Describes an input: opens its data set, reads its type and shape, and closes it. Does not apply the keys `rows` and
 * `select`. STATUS_USAGE: the input cannot be read. Axes of the description point to `array`, which must not move in
 * memory. The caller frees with array_free. */
enum status array_describe(const struct job_input *input, struct array *array, struct error *error);
/* Copies a description; the copy does not own the labels of its axes. No task reads the copy yet, and its
 * `counterpart` is NULL. */
struct array array_copy(const struct array *array);
/* Can an operation that only moves elements read the stored numbers and store them as `dtype`? False if a number
 * would change, if the job sets the input's type, and for integers that become floats: a job that asks for floats wants
 * decoded values. */
bool array_can_pack(const struct array *array, enum dtype dtype);
/* Lets an array with a decoding have the stored numbers as elements. */
void array_pack(struct array *array);
/* Lets the array have the decoded values as elements again. */
void array_unpack(struct array *array);
/* Narrows an axis to elements first .. first + count - 1. */
void array_narrow(struct array *array, int axis, int64_t first, int64_t count);
/* Applies the key `select`. STATUS_USAGE: the key does not fit the shape of the data set. */
enum status array_select(struct array *array, const struct job_select *select, struct error *error);
/* For an input in a file, after narrowing. STATUS_USAGE: the job reads 64 GiB or more, and the file stores less than
 * 1/65536 of that. Elements that were never stored are cheap to read, and partly filled data sets are common; but a
 * file of one kilobyte that claims terabytes would keep a job busy for hours. */
enum status array_check_mostly_empty(const struct array *array, struct error *error);
/* For an input in a file, after narrowing: looks for the sources (virtual data sets) and files (external storage) of
 * the elements that the job reads, and fills `absent`. STATUS_USAGE, naming the first: one is missing, and the input
 * does not set `sources: fill`. */
enum status array_check_sources(struct array *array, struct error *error);
/* Sets *seen to the elements that the job reads of the data set in file number `number`; false: it reads none of
 * them. */
bool array_seen_in_file(const struct array *array, int number, struct selection *seen);
/* The grid of chunks in the view; boxes are cut along it. */
struct grid array_grid(const struct array *array);
/* Records that a task reads the array; call it in the order of the tasks. */
void array_add_reader(struct array *array, int task);
void array_free(struct array *array);
/* "input 'X n=512'", or "result of 'product'" if nothing is swept. The caller frees. */
char *array_title(const struct array *array);
/* The path of file number `number` of an input; NULL: the input has no such file. */
const char *array_file(const struct array *input, int number);

#endif
