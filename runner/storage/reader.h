/* reader.h - reads an array from its data set, its generator or a stored result.
 *
 * A reader keeps the location of its array, so its data set is open only while it is read: a job with thousands of
 * arrays needs no more descriptors than a job with a few.
 *
 * hash: XXH3-128 of the values, independent of layout, tiling and order. Each row (a run along the last axis) is cut
 * into segments of 1024 elements. Segment s of row r has number r * ceil(columns / 1024) + s, and its hash is
 * XXH3_128bits_withSeed(its little-endian bytes, number). The array's hash is the sum of all segment hashes modulo
 * 2^128. A band that consists of whole segments of an array numbers them as the array does. So the hash of an array in
 * bands is the sum of the bands' hashes, and nothing need be read again. */
#ifndef RUNNER_READER_H
#define RUNNER_READER_H

#include "../base/trace.h"
#include "array.h"

#define READER_HASH_TEXT 33 /* 32 hex digits and a NUL */
#define READER_SEGMENT   1024
#define READERS_OPEN     32 /* readers that are open at the same time; each uses one or two descriptors */

struct h5_dataset;
struct rawread;
struct pieces;

struct reader {
    const struct array *array;
    const struct decoding *decoding; /* applied to the elements; NULL: they are used as they are stored */
    char *file, *object;             /* the data set that holds the array; NULL: no file has it (yet) */
    const char *field;               /* the field of a table that the input reads; NULL: not a table */
    bool live;           /* another program appends to the file (SWMR); the reader reads the extent that was planned */
    bool foreign;        /* another program made the file: it is an input */
    struct stat version; /* identifies the file, which must not change; st_ino 0: it was never opened */
    struct h5_dataset *dataset;     /* NULL: not open */
    struct rawread *raw;            /* reads `dataset` without HDF5; NULL: HDF5 reads it */
    struct rawread *chunk_check;    /* decodes chunks within bounds before HDF5 reads them; NULL: not needed */
    struct pieces *pieces;          /* the data sets that hold the array, if there are several; `file` is then NULL */
    char hash[READER_HASH_TEXT];    /* hash of an input in a file; "": not known yet, or not in a file */
    uint64_t hash_low, hash_high;   /* sum over the boxes read so far */
    int64_t hashed;                 /* number of elements hashed so far; -1: a box could not be hashed */
    uint64_t share_low, share_high; /* a band's share of the hash of its array, once `shared` */
    bool shared;
    struct read_counts counts; /* totals of all reads */
    struct casts casts;        /* conversion losses; each element is counted once */
    int64_t counted;           /* number of elements that `casts` has counted */
    bool losses_printed;       /* the message about the losses was printed */
    bool used;                 /* values were read */
    bool doubted;              /* the piece's file was written after values were read */
    int rehashes;              /* how often the values were read again because the file was written */
    char *unreadable;          /* why an input could not be opened or read; NULL: it could, or was not tried */
};

/* Initializes a reader of `array`, which must outlive it, and takes the file and data set of an input from it. Opens
 * nothing. */
void reader_init(struct reader *reader, const struct array *array);
/* Sets the file and data set that hold a result. Opens nothing. */
void reader_set_dataset(struct reader *reader, const char *file, const char *object);
/* Sets the pieces that hold a result that is stored in several data sets. The reader then owns `pieces`. */
void reader_set_pieces(struct reader *reader, struct pieces *pieces);
/* Opens the data set, unless it is open or no file has the array. STATUS_IO: the data set is gone, or its values
 * changed since it was described or first opened; or a read of the input has failed before. */
enum status reader_open(struct reader *reader, struct error *error);
/* Checks that the values of an open reader have not changed since it was opened. If its file was written or touched,
 * compares the hash of the present values with that of the values that were read; if the latter is unknown, the values
 * count as changed. STATUS_IO, naming the file: they have changed. */
enum status reader_check(struct reader *reader, struct error *error);
/* Do both describe the same file, not written in between? */
bool reader_same_version(const struct stat *a, const struct stat *b);
/* Closes the data set; reader_open opens it again. */
void reader_close(struct reader *reader);
/* Closes the data set and frees everything that the reader owns. */
void reader_free(struct reader *reader);

/* ---- steps of reader_open, for pieces too ---- */

/* Opens the data set, for raw reading if possible. *version: the version of its file. */
enum status reader_open_dataset(struct reader *reader, struct stat *version, struct error *error);
/* Checks the chunks and the sources of an input's open data set, because HDF5 would trust them. */
enum status reader_prepare(struct reader *reader, struct error *error);
/* Closes what could not be opened, and remembers why. Returns STATUS_IO. */
enum status reader_fail_open(struct reader *reader, struct error *error);
/* Was the file written since it was opened? *now becomes its version. */
bool reader_is_written(const struct reader *reader, struct stat *now);
/* Fails because the file of a reader was written. Returns STATUS_IO. */
enum status reader_fail_changed(const struct reader *reader, struct error *error);

/* Remembers why an input cannot be read, if `status` is STATUS_IO. Returns `status`. */
enum status reader_note_failure(struct reader *reader, enum status status, const struct error *error);

/* Reads a box into packed host memory, on all cores if the storage allows it. `trace` may be NULL. STATUS_INTERRUPTED:
 * a signal arrived before the read. */
enum status reader_read(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                        struct error *error);

/* Are conversion losses of the array possible, and not counted yet? To count what the conversion to the array's type
 * loses: call reader_casts_begin, then read every box exactly once and add it. */
bool reader_needs_casts(const struct reader *reader);
void reader_casts_begin(struct reader *reader);
/* Adds the losses of one box; `before` is a copy of `counts` from before the box was read. */
void reader_casts_add(struct reader *reader, const struct read_counts *before, const struct box *box);

/* Sets the losses of a result, which were counted when it was written. */
void reader_casts_set(struct reader *reader, const struct casts *casts);

/* "3 of 65536 elements overflowed float16, 2 ..."; NULL: nothing was lost. The caller frees. */
char *reader_cast_losses(const struct reader *reader);
/* "6 of 12 elements are fill values: 1 source is missing, '/d' in b.h5, which is not there"; NULL: no source is
 * missing. The caller frees. */
char *reader_absent_sources(const struct reader *reader);

/* "decoded as CF says: stored * 0.01 + 273.15; 12 of 400 missing". NULL: not all elements are counted yet, or decoding
 * changed nothing. The caller frees. */
char *reader_decoding_text(const struct reader *reader);
/* Sets *missing to the number of missing elements; false: not all elements are counted yet. */
bool reader_missing_count(const struct reader *reader, int64_t *missing);

/* Is the array an input in files whose hash is not known? To hash an array while it is read for another purpose: call
 * reader_hash_begin, read every box once by reader_read_hashed, in any order, and call reader_hash_end. If a box does
 * not begin and end at multiples of READER_SEGMENT along the last axis, reader_hash must read the whole array again. */
bool reader_needs_hash(const struct reader *reader);
void reader_hash_begin(struct reader *reader);
/* Reads a box as reader_read does, and adds it to the hash. For contiguous data sets each core hashes the elements that
 * it has just read. */
enum status reader_read_hashed(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                               struct error *error);
/* Sets `hash` if all elements are hashed. */
void reader_hash_end(struct reader *reader);
/* Sets `hash` from the sum. */
void reader_hash_set(struct reader *reader);
/* Sets `hash`, if it is not known, by reading the whole array in bands of bounded size. STATUS_IO, at once, if a read
 * has failed before. */
enum status reader_hash(struct reader *reader, struct error *error);
/* Sets a band's share: the sum over the segments of its array that begin in the band. The band's hash must be known. If
 * the band does not consist of whole segments, reads the segments that begin in it. */
enum status reader_share(struct reader *reader, struct error *error);

/* The pieces of an array that is stored in several data sets, each of which holds one box of it: a result that shards
 * computed by panels, or a concatenated input. */
#define PIECES_OPEN 16 /* data sets that are open at the same time */
struct array_piece {
    struct reader reader;
    struct box box; /* position in the array */
};

struct pieces {
    struct array plain; /* the array for the readers of pieces: without a view, and not an input */
    int count, next;    /* `next`: entry of `open` that is replaced next */
    struct reader *open[PIECES_OPEN];
    struct array_piece items[];
};
/* Allocates `count` pieces of `array`, which must outlive them. A reader takes them. */
struct pieces *pieces_create(const struct array *array, int count);
/* Sets the box, file, data set and file version of a piece. Opens nothing. */
void pieces_set(struct pieces *pieces, int number, const struct box *box, const char *file, const char *object,
                const struct stat *version);
/* Opens the data set of the first piece. It stays open until another piece is read. */
enum status pieces_open_first(struct pieces *pieces, const struct h5_dataset **dataset, struct error *error);

/* The readers of all arrays of a job, indexed by array number. */
struct readers {
    struct reader *items;
    int count, open_count;
    struct reader *open[READERS_OPEN]; /* least recently used first */
};
void readers_init(struct readers *readers, const struct array *arrays, int count);
void readers_free(struct readers *readers);
/* Opens the reader of an array. If READERS_OPEN are open, closes the least recently used one first. */
enum status readers_open(struct readers *readers, int array, struct error *error);
/* Sets the hash of an array: to the sum of the shares of its bands, if all are known; else by reader_hash. */
enum status readers_hash(struct readers *readers, int number, struct error *error);
/* Forgets that inputs could not be read: they are tried again. */
void readers_forgive(struct readers *readers);
/* Closes the readers of arrays that neither task number `task` nor a later one reads. */
void readers_close_before(struct readers *readers, int task);

#endif
