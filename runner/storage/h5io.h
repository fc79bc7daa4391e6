/* h5io.h - data sets: boxes of elements in, boxes of elements out. With result_*.c, h5sources.c, rawread.c and
 * rawwrite.c the only code that calls HDF5, which takes one thread at a time: while a run is streamed a reader and a
 * writer may both want it, so what they call holds a lock. Elements arrive in the machine's byte order and in one of
 * tilerun's types. */
#ifndef RUNNER_H5IO_H
#define RUNNER_H5IO_H

#include "h5.h"
#include <hdf5.h>

/* An open data set. */
struct h5_dataset {
    hid_t file, id; /* file < 0: borrowed, somebody else closes it */
    enum dtype dtype;
    struct shape shape;
    struct shape chunk;       /* rank 0: not chunked */
    bool filtered;            /* chunks are compressed or checksummed */
    const int *write_failure; /* of h5_create: the errno of the file's first failed write; 0: none */
};

/* Opens a data set for reading. Errors (STATUS_USAGE) say which: no such file, a directory, no permission, not HDF5,
 * truncated, no such data set (with the nearest name), a group, a compound, string or otherwise unusable type, rank
 * above 3. */
enum status h5_open(const char *path, const char *name, struct h5_dataset **result, struct error *error);
void h5_close(struct h5_dataset *dataset);
/* The file alone, for reading, with the same errors; close with H5Fclose. */
enum status h5_open_file(const char *path, hid_t *file, struct error *error);

/* The lock on HDF5; h5_read and h5_write take it themselves. */
void h5_lock(void);
void h5_unlock(void);

/* Reads a box into packed memory of the data set's own dtype. STATUS_IO on failure, which is that of writing where the
 * data set is one that could not be written. */
enum status h5_read(struct h5_dataset *dataset, const struct box *box, void *data, struct error *error);

/* Where a chunk is stored. */
struct h5_place {
    haddr_t address; /* in the file; HADDR_UNDEF: nowhere, all its elements are the fill value */
    hsize_t bytes;
    unsigned mask; /* bit i: filter i was not applied */
};
/* Finds the chunk that begins at `corner`, of a data set in a file of ours or of h5_look. With the lock. */
enum status h5_find_chunk(hid_t dataset, const hsize_t corner[], struct h5_place *place, struct error *error);
/* Finds room in the file for a chunk of a data set from h5_create, stored in so many bytes; what is there until they
 * are written is undefined. With the lock. */
enum status h5_place_chunk(hid_t dataset, const hsize_t corner[], size_t bytes, haddr_t *address, struct error *error);
/* The data set once more, to ask h5_find_chunk about, in its file (open as `descriptor`) opened once more, for reading;
 * negative: cannot be. */
hid_t h5_look(hid_t dataset, int descriptor);
void h5_look_away(hid_t look);

/* Creates /path (with its groups) in an open file. */
enum status h5_create(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                      const struct h5_layout *layout, struct h5_dataset **result, struct error *error);
enum status h5_write(struct h5_dataset *dataset, const struct box *box, const void *data, struct error *error);
/* Fails with what the file's first failed write said, if one has failed. */
enum status h5_check_writes(struct h5_dataset *dataset, struct error *error);

/* The HDF5 type of a dtype, little-endian as stored in files (float16 and bfloat16 are made here); close with H5Tclose.
 */
hid_t h5_type(enum dtype dtype);

/* A new, empty file (what is there is truncated) with the bounds and creation order that all of ours have. */
enum status h5_create_file(const char *path, hid_t *file, struct error *error);
/* A file of ours, to go on writing. What is written over is kept in a journal, which is the caller's to free whatever
 * the status. */
struct h5_journal;
enum status h5_reopen_file(const char *path, struct h5_journal **journal, hid_t *file, struct error *error);
/* Makes the file what it was; false: it could not, or is to stay. Once, from any thread, also while another one writes
 * to the file: that one then waits for ever at its next write. */
bool h5_restore(struct h5_journal *journal);
/* Between these two (NULL: nothing to do) the file is neither changed nor restored. `final`: it is to stay as it is. */
void h5_journal_hold(struct h5_journal *journal);
void h5_journal_release(struct h5_journal *journal, bool final);
void h5_journal_free(struct h5_journal *journal);
/* For writing past HDF5: the descriptor of one of our files, and where the errno of its first failed write is kept
 * (`failure` may be NULL). */
int h5_descriptor(hid_t object, int **failure);
/* Has HDF5 write what it holds of a data set's file, so that rawread can read the data set. */
enum status h5_flush(struct h5_dataset *dataset, struct error *error);
/* Flushes and closes: a full disk shows here at the latest. The id is gone whatever the status. */
enum status h5_close_file(hid_t file, struct error *error);
/* Opens the group /path, making it and its parents where they are missing; close with H5Gclose. */
enum status h5_group(hid_t file, const char *path, hid_t *group, struct error *error);

/* Small helpers for attributes; `object` is a file, group or data set. One that is there is replaced. Text is
 * variable-length UTF-8. */
enum status h5_set_text(hid_t object, const char *name, const char *value, struct error *error);
enum status h5_set_integer(hid_t object, const char *name, int64_t value, struct error *error);
enum status h5_set_real(hid_t object, const char *name, double value, struct error *error);
enum status h5_set_shape(hid_t object, const char *name, const struct shape *shape, struct error *error);
/* The text of an attribute; NULL: absent. The caller frees. */
char *h5_get_text(hid_t object, const char *name);
/* What a data set says of the unit of its elements, in its attribute `units`, without blanks around it; NULL: nothing,
 * or nothing that is UTF-8. The caller frees. */
char *h5_get_units(hid_t object);
/* HDF5's own account of the last failure, in one line; a static buffer. */
const char *h5_words(void);

#endif
