/* h5file.h - tilerun's own HDF5 files, and where data sets and chunks lie in a file. */
#ifndef RUNNER_H5FILE_H
#define RUNNER_H5FILE_H

#include "h5io.h"
#include <sys/stat.h>

/* Creates an empty file, replacing an existing one, with the version bounds and creation order of tilerun's files. */
enum status h5_create_file(const char *path, hid_t *file, struct error *error);
/* Opens a file of h5_create_file again, to write more. */
enum status h5_reopen_file(const char *path, hid_t *file, struct error *error);
/* Flushes and closes a file, and reports a full disk. The id is invalid afterwards, whatever the status. */
enum status h5_close_file(hid_t file, struct error *error);
/* For writing without HDF5: the descriptor of a file of h5_create_file, and the address of the errno of its first
 * failed write (`failure` may be NULL). */
int h5_descriptor(hid_t object, int **failure);

/* Is the file open for SWMR reading: does a SWMR writer have it open, or did it die? */
bool h5_is_swmr(hid_t dataset);
/* Will every later change of the data set's values change `version`, which its file had before it was opened? false:
 * other files hold values too, or a program appends to it, or the file was written within this tick of the clock. */
bool h5_is_settled(const struct h5_dataset *dataset, const struct stat *version);

/* The address of a contiguous data set's elements in its file; HADDR_UNDEF: nothing was written. */
haddr_t h5_extent_address(hid_t dataset);

/* Location of a stored chunk. */
struct h5_chunk_location {
    haddr_t address; /* HADDR_UNDEF: the chunk is not stored, its elements are the fill value */
    hsize_t bytes;
    unsigned mask; /* bit i set: filter i was not applied */
};
/* Finds the chunk that begins at `corner`. The data set belongs to a file that tilerun writes, or comes from
 * h5_open_lookup. The caller holds the lock. */
enum status h5_find_chunk(hid_t dataset, const hsize_t corner[], struct h5_chunk_location *location,
                          struct error *error);
/* Allocates space in the file for a chunk that is stored in `bytes` bytes, of a data set from h5_create. The caller
 * then writes the contents. The caller holds the lock. */
enum status h5_allocate_chunk(hid_t dataset, const hsize_t corner[], size_t bytes, haddr_t *address,
                              struct error *error);
/* Opens the file of a data set, which is open as `descriptor`, a second time for reading, and the data set in it, for
 * h5_find_chunk. Negative: it failed. Close with h5_close_lookup. */
hid_t h5_open_lookup(hid_t dataset, int descriptor);
void h5_close_lookup(hid_t look);

#endif
