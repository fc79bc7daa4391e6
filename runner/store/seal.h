/* seal.h - makes files durable, and seals parts and manifests with a trailer, by which damage is found. */
#ifndef RUNNER_STORE_SEAL_H
#define RUNNER_STORE_SEAL_H

#include "../record/row.h"

/* Appends a trailer to a closed file: the hash of its bytes, for part_is_intact. `sync`: first syncs the file.
 * STATUS_IO: the file cannot be synced, read or written. */
enum status part_seal(const char *path, bool sync, struct error *error);
/* The content of a file's trailer. TRAILER_SYNCED: the file was on the disk before the trailer, so a crash of the
 * machine has not damaged it. */
enum trailer { TRAILER_NONE, TRAILER_HASH, TRAILER_SYNCED };
enum trailer part_trailer(const char *path);

/* Values of max_hashed_bytes: all files are hashed; or, for parts that were synced, only small ones, so that `merge
 * --link` takes seconds. */
#define ANY_SIZE           INT64_MAX
#define PART_LINKED_HASHED (INT64_C(1) << 20)
/* Does the hash in a part's trailer fit the bytes before it? If the file is larger than `max_hashed_bytes`, only checks
 * that the trailer is well-formed. */
bool part_is_intact(const char *path, off_t max_hashed_bytes);
/* Opens an undamaged part or manifest (part_is_intact), without HDF5's lock; negative: it is damaged or gone. */
hid_t part_open(const char *path, off_t max_hashed_bytes);
/* Reads the row of an open part; false: the part does not have exactly one row. */
bool part_row(hid_t part, const char *path, struct result_row *row);
/* Makes a file's data durable. */
enum status results_sync_file(const char *path, struct error *error);
/* Makes renames in a folder durable. */
enum status results_sync_folder(const char *folder, struct error *error);

#endif
