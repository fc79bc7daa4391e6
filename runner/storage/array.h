/* array.h - describes an operand: an input in a file, a generated input or an operation's result. The description does
 * not change once the plan is made; reader.h reads what it describes. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../../kernels/core/cut.h"
#include "elements/decode.h"
#include "h5/h5.h"
#include "view.h"

#include <sys/stat.h>

/* What is known of an axis of an array: that it is an axis of an input's data set, which has a label or dimension
 * scales for it. The axis of a result is that of an input where the operation's geometry says so. */
struct array_axis {
    const struct array *of; /* the input; NULL: nothing is known */
    int number;             /* the axis of its data set */
    char *label;            /* owned by `of`; NULL: none */
};

/* The files of an input that is concatenated. */
struct array_part {
    char *file;
    struct box place; /* of its data set, in the whole */
    struct stat version;
    struct decoding *decoding; /* of its numbers; NULL: they are values */
};
struct array_parts {
    const struct array *owner;
    int count;
    struct array_part of[];
};

struct array {
    const char *name, *label; /* of the input or operation; owned by the job */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    char *units, *long_name;       /* the unit of its elements and what they are, owned; NULL: unknown */
    /* How its values follow from what its file stores, owned; NULL: they are what is stored. `packed`: its elements are
     * the stored numbers all the same, for operations that only move them. */
    struct decoding *decoding;
    bool packed;
    struct array *other;       /* the same array in the plan, packed or not as this one is not; NULL: there is none */
    const struct array *moved; /* of a result: the input whose elements it has, moved; NULL: it was computed */
    struct array_axis axes[MAX_RANK];
    int first_reader, last_reader; /* the first and the last task that read it; -1: none */
    /* Of an input: what is seen of its data set, or of the shape that is generated (`rows`, `select`, a panel). */
    struct data_view view;
    /* Only of an input in a file. */
    enum dtype stored;         /* in the data set; read as `dtype` */
    struct shape chunk;        /* of the data set; rank 0: not chunked */
    bool filtered, direct;     /* its chunks are encoded; it can be read without HDF5 (rawread.h) */
    double held;               /* bytes that its files have stored of the data set; infinity: not known */
    bool scattered;            /* it lies in other files, some of which may be missing */
    struct h5_absent absent;   /* what is missing of what is seen */
    struct stat version;       /* the file's, when it was described; st_ino 0: there is no file, or several */
    struct array_parts *parts; /* of an input that lies in several files (concatenate.h); NULL: it lies in one */
    bool mixed;                /* its files are decoded in different ways; `decoding` is the first that there is */
    char *remark;              /* on attributes that cannot be applied, owned; NULL: none */
};

/* Describes an input: opens its data set, takes its type and shape, and closes it. The keys `rows` and
 * `select` are not applied yet. STATUS_USAGE: it cannot be read. Its axes point to `array`, which must keep its place.
 * The caller frees with array_free. */
enum status array_describe(const struct job_input *input, struct array *array, struct error *error);
/* STATUS_USAGE: it is an enumeration, and the job does not say as which type its numbers are read. */
struct h5_dataset;
enum status array_check_enumeration(const struct job_input *input, const char *file, const struct h5_dataset *dataset,
                                    struct error *error);
/* A description that owns what it holds, but for the labels of axes. No task reads it yet, and it
 * has no other. */
struct array array_copy(const struct array *array);
/* Can its elements be read as they are stored, for an operation that only moves them and stores them as `dtype`: are
 * all numbers kept, and does the job not ask for a type? */
bool array_can_pack(const struct array *array, enum dtype dtype);
/* From now on its elements are the stored numbers. */
void array_pack(struct array *array);
/* From now on its elements, which were packed, are decoded. */
void array_unpack(struct array *array);
/* Narrows an axis to elements first .. first + count - 1. */
void array_narrow(struct array *array, int axis, int64_t first, int64_t count);
/* Applies the key `select`. STATUS_USAGE: it does not fit the data set. */
enum status array_select(struct array *array, const struct job_select *select, struct error *error);
/* Of an input in a file, once it is narrowed. What was never stored costs little to read, and data sets of which a part
 * is filled are common; but a kilobyte that claims terabytes would keep a job busy for hours. STATUS_USAGE: of 64 GiB
 * or more that the job sees the file holds less than 1/65536. */
enum status array_check_mostly_empty(const struct array *array, struct error *error);
/* Of an input in a file, once it is narrowed: is there all that it lies in of what is seen (virtual data sets, external
 * storage)? Fills `lack`. STATUS_USAGE: it is not, with the first name, unless the input says `sources: fill`. */
enum status array_check_sources(struct array *array, struct error *error);
/* What is seen of part number `number` of an input that lies in several files, or of all of an input, in its data set;
 * false: nothing. */
bool array_seen_in_file(const struct array *array, int number, struct selection *seen);
/* Where chunks end in what is seen: where boxes of it are cut. */
struct grid array_grid(const struct array *array);
/* Notes that a task reads it; tasks are noted in their order. */
void array_add_reader(struct array *array, int task);
void array_free(struct array *array);
/* The files that an input lies in: from number 0 on, NULL behind the last. */
const char *array_file(const struct array *input, int number);

#endif
