/* h5io.h - creates data sets and groups, and reads and writes boxes of data sets. storage/untrusted/h5open.h opens data
 * sets for reading; h5file.h creates files.
 *
 * HDF5 is not thread-safe; a reader and a writer may both need it while a run is streamed, so the functions that they
 * call hold a lock. Elements in memory have the machine's byte order and one of tilerun's types. */
#ifndef RUNNER_H5IO_H
#define RUNNER_H5IO_H

#include "../../base/fail.h"
#include "../elements/selection.h"
#include "h5.h"
#include <hdf5.h>

/* An open data set. */
struct h5_dataset {
    hid_t creation; /* creation properties; H5I_INVALID_HID: not read yet */
    hid_t file, id; /* file < 0: another owner closes the file */
    enum dtype dtype;
    struct shape shape;
    struct shape chunk; /* rank 0: not chunked */
    int inner;          /* number of last axes of `shape` and `chunk` that are array dimensions of the element type */
    size_t element;     /* bytes of an element in the file */
    bool plain;         /* stored elements have the bits of `dtype`, in either byte order */
    bool codes;         /* the element type is an enumeration other than bool */
    hid_t memory;       /* memory type that HDF5 converts elements to (h5element.h) */
    bool filtered;      /* chunks are compressed or checksummed */
    bool scattered;     /* virtual, or in external storage: parts of it may be absent (h5sources.h) */
    herr_t (*read)(hid_t, hid_t, hid_t, hid_t, void *); /* replaces H5Dread, without its property list; NULL: H5Dread */
    const int *write_failure; /* only from h5_create: errno of the first failed write to its file; 0: none */
};

/* `shape` or `chunk` without the array dimensions of the element type. */
struct shape h5_dataset_axes(const struct h5_dataset *dataset, const struct shape *shape);
/* Closes a data set, unless it is NULL, and sets it to NULL. */
void h5_close(struct h5_dataset **closed);

/* Declare an id of HDF5 of any kind, or a data set, that is closed at the end of its scope: `OWNED_ID hid_t space =
 * H5Dget_space(id);`. It must be initialized. */
#define OWNED_ID      FREED_BY(h5_release_id)
#define OWNED_DATASET FREED_BY(h5_close)
void h5_release_id(const hid_t *id);

/* The lock on the HDF5 library. h5_read and h5_write take it themselves. */
void h5_lock(void);
void h5_unlock(void);

/* Reads a box into packed memory, as the dtype of the data set. Fails with STATUS_IO; if a write to the data set failed
 * before, with the error of the write. */
enum status h5_read(struct h5_dataset *dataset, const struct box *box, void *data, struct error *error);
/* Like h5_read, but for a selection. */
enum status h5_read_selected(struct h5_dataset *dataset, const struct selection *selection, void *data,
                             struct error *error);

/* Stores the fill value of a data set, 0 without one, at the elements `memory_space` of `data`. */
void h5_fill(hid_t creation, hid_t type, hid_t memory_space, void *data);

/* Creates data set /path and its parent groups in an open file. The caller frees *result with h5_close. */
enum status h5_create(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                      const struct h5_layout *layout, struct h5_dataset **result, struct error *error);
/* Writes a box of a data set from h5_create. */
enum status h5_write(struct h5_dataset *dataset, const struct box *box, const void *data, struct error *error);
/* STATUS_IO, with its errno: a write to the file failed. */
enum status h5_check_writes(struct h5_dataset *dataset, struct error *error);
/* Flushes the buffers of HDF5, so that rawread can read the data set. */
enum status h5_flush(struct h5_dataset *dataset, struct error *error);

/* The HDF5 type of a dtype, little-endian as stored in files; float16 and bfloat16, which HDF5 lacks, are built. Close
 * with H5Tclose. */
hid_t h5_type(enum dtype dtype);

/* The creation properties of every new file, group and data set; `class` is an H5P_..._CREATE; close with H5Pclose.
 * Members and attributes keep the order of their creation, as h5dump, h5py and HDFView list them. Attributes stay in
 * the object header however many they are: with dense attribute storage, H5Ocopy of HDF5 1.10 (h5copy, and h5py's copy)
 * crashes on variable-length texts, and h5py reads fixed-length texts, which it can copy, as bytes. */
hid_t h5_creation(hid_t class);
/* Opens the group /path; creates it and its parents if they do not exist. Close with H5Gclose. */
enum status h5_group(hid_t file, const char *path, hid_t *group, struct error *error);

/* The HDF5 error stack of the last HDF5 call that failed in this thread, as one line; valid until the next failure. It
 * is recorded when the call fails, so successful calls in between do not clear it. */
const char *h5_error_text(void);
/* Sets that text, for a failure outside HDF5. */
void h5_set_error_text(const char *text);

#endif
