/* h5io.h - data sets, read and written by boxes; tilerun's files, written. What the caller opens for reading comes
 * from storage/untrusted/h5open.h.
 *
 * HDF5 takes one thread at a time; a reader and a writer may both need it while a run is streamed, so the functions
 * that they call hold a lock. Elements arrive in the machine's byte order and in one of tilerun's types. */
#ifndef RUNNER_H5IO_H
#define RUNNER_H5IO_H

#include "../elements/selection.h"
#include "h5.h"
#include <hdf5.h>

/* An open data set. */
struct h5_dataset {
    hid_t file, id; /* file < 0: its file belongs to somebody else, who closes it */
    enum dtype dtype;
    struct shape shape;
    struct shape chunk; /* rank 0: not chunked */
    int inner;          /* axes of `shape` and `chunk`, the last, that are arrays in its elements */
    size_t element;     /* bytes of one in the file */
    bool plain;         /* the file has the bits of `dtype`, in either byte order */
    bool codes;         /* of an enumeration that is no bool */
    hid_t memory;       /* what HDF5 makes of an element (h5element.h) */
    bool filtered;      /* chunks are compressed or checksummed */
    bool scattered;     /* virtual, or in external storage: it may lack something (h5mapped.h) */
    herr_t (*read)(hid_t, hid_t, hid_t, hid_t, void *); /* as H5Dread without properties; NULL: H5Dread */
    const int *write_failure; /* of a data set from h5_create: the errno of the file's first failed write; 0: none */
};

/* Of `shape` or `chunk` the axes that the data set has itself. */
struct shape h5_dataset_axes(const struct h5_dataset *dataset, const struct shape *shape);
void h5_close(struct h5_dataset *dataset);
/* Is the data set in a file that another program is writing by SWMR, or was when it ended? */
bool h5_is_swmr(hid_t dataset);

/* The lock on HDF5. h5_read and h5_write take it themselves. */
void h5_lock(void);
void h5_unlock(void);

/* Reads a box into packed memory, in the data set's own dtype. STATUS_IO: it failed. If a write to the data set failed
 * before, the error is that of the write. */
enum status h5_read(struct h5_dataset *dataset, const struct box *box, void *data, struct error *error);
/* The same of a selection. */
enum status h5_read_selected(struct h5_dataset *dataset, const struct selection *selection, void *data,
                             struct error *error);

/* Where a chunk is stored. */
struct h5_chunk_place {
    haddr_t address; /* in the file; HADDR_UNDEF: not stored, all its elements are the fill value */
    hsize_t bytes;
    unsigned mask; /* bit i: filter i was not applied */
};
/* Finds the chunk that begins at `corner`, in a data set of a file that tilerun writes or of h5_open_lookup. Call with the
 * lock. */
enum status h5_find_chunk(hid_t dataset, const hsize_t corner[], struct h5_chunk_place *place, struct error *error);
/* Finds room in the file for a chunk, stored in `bytes` bytes, of a data set from h5_create. The room's contents are
 * undefined until the caller writes them. Call with the lock. */
enum status h5_allocate_chunk(hid_t dataset, const hsize_t corner[], size_t bytes, haddr_t *address,
                              struct error *error);
/* Opens the data set's file (open as `descriptor`) a second time for reading, and the data set in it, for
 * h5_find_chunk. Negative: it failed. Close with h5_close_lookup. */
hid_t h5_open_lookup(hid_t dataset, int descriptor);
void h5_close_lookup(hid_t look);

/* Creates data set /path, and the groups that it needs, in an open file. The caller frees *result with h5_close. */
enum status h5_create(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                      const struct h5_layout *layout, struct h5_dataset **result, struct error *error);
enum status h5_write(struct h5_dataset *dataset, const struct box *box, const void *data, struct error *error);
/* Fails with the errno of the file's first failed write, if there is one. */
enum status h5_check_writes(struct h5_dataset *dataset, struct error *error);

/* The HDF5 type of a dtype, little-endian as stored in files (HDF5 has no float16 and bfloat16: they are built); close
 * with H5Tclose. */
hid_t h5_type(enum dtype dtype);

/* Creates an empty file, replacing an existing one, with the version bounds and creation order of all files of
 * tilerun. */
enum status h5_create_file(const char *path, hid_t *file, struct error *error);
/* Opens a file of h5_create_file again, to write more. What is overwritten is kept in a journal, which the caller frees
 * whatever the status; NULL: none was begun, and the file is as it was. */
struct h5_journal;
enum status h5_reopen_file(const char *path, struct h5_journal **journal, hid_t *file, struct error *error);
/* For writing without HDF5: the descriptor of a file of h5_create_file, and where the errno of its first failed write
 * is kept (`failure` may be NULL). */
int h5_descriptor(hid_t object, int **failure);
/* Has HDF5 write what it holds of a data set's file, so that rawread can read the data set. */
enum status h5_flush(struct h5_dataset *dataset, struct error *error);
/* Flushes and closes a file; a full disk is reported here at the latest. The id is invalid afterwards, whatever the
 * status. */
enum status h5_close_file(hid_t file, struct error *error);
/* The properties of every new file, group and data set; H5P_..._CREATE is `class`; close with H5Pclose. Members and
 * attributes keep the order in which they are created, as h5dump, h5py and HDFView list them. Attributes stay in the
 * object's header however many they are: HDF5 1.10's H5Ocopy, and so h5copy and h5py's copy, crashes on texts among
 * those that it keeps elsewhere, and h5py reads fixed-length ones, which it can copy, as bytes. */
hid_t h5_creation(hid_t class);
/* Opens the group /path, creating it and its parents if they are missing; close with H5Gclose. */
enum status h5_group(hid_t file, const char *path, hid_t *group, struct error *error);

/* Set an attribute of a file, group or data set, replacing an existing one. Text is variable-length UTF-8. */
enum status h5_set_text(hid_t object, const char *name, const char *value, struct error *error);
enum status h5_set_integer(hid_t object, const char *name, int64_t value, struct error *error);
enum status h5_set_real(hid_t object, const char *name, double value, struct error *error);
enum status h5_set_shape(hid_t object, const char *name, const struct shape *shape, struct error *error);
/* Whether it has any, at less cost than looking for one by its name. */
bool h5_has_attributes(hid_t object);
/* The text of an attribute; NULL: absent. The caller frees. */
char *h5_get_text(hid_t object, const char *name);
/* A number of an attribute, as int64_t or double (`dtype`); false: absent, or no single number. */
bool h5_get_number(hid_t object, const char *name, enum dtype dtype, void *value);
/* What another program's attribute says (`units`, `long_name`), without blanks around it; NULL: absent, empty or not
 * UTF-8. The caller frees. */
char *h5_get_trimmed_text(hid_t object, const char *name);
/* HDF5's account of the last of its calls that failed in this thread, in one line; valid until the next one fails. It
 * is kept when the call fails, so that calls that succeed in between do not matter. */
const char *h5_error_text(void);
/* The same of a failure that is not HDF5's. */
void h5_set_error_text(const char *text);

#endif
