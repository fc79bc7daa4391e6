/* seal.c - makes a file durable, and seals it: appends a trailer with a hash that shows whether a crash of the machine
 * has damaged it. The trailer is the last 64 bytes of a part or manifest, after those that HDF5 has written:
 * "tilerun-part-xxh3:", 32 hex digits, a word or spaces, a newline.
 *
 * The file before the trailer is cut into blocks of 4 MiB, so that all cores can hash at once. Each block's XXH3-128 is
 * written as low half, high half, little-endian; the digits are the XXH3-128 of all these hashes. The word "synced"
 * states that all of that was on the disk before the trailer was written. */
#include "../base/fail.h"
#include "../base/file_io.h"
#include "../base/texts.h"
#include "../base/workers.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define SYNC_BYTES (INT64_C(32) << 20) /* of a band */
enum { TRAILER = 64, BLOCK = 4 << 20 };
static const char trailer_format[] = "tilerun-part-xxh3:%016llx%016llx%13s\n", word_synced[] = "synced";

/* ---- on the disk ---- */

/* Writes a file's data to the disk in bands, beginning the next band while it waits for one. A process within fsync
 * cannot be ended until all of the file is on the disk; after the bands fsync has little left to do. On file systems
 * without sync_file_range it has everything to do. */
static bool sync_bands(int descriptor) {
    off_t bytes = lseek(descriptor, 0, SEEK_END);
    for (off_t at = 0; at < bytes; at += SYNC_BYTES) {
        sync_file_range(descriptor, at + SYNC_BYTES, SYNC_BYTES, SYNC_FILE_RANGE_WRITE);
        if (sync_file_range(descriptor, at, SYNC_BYTES,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0)
            return errno == ESPIPE || errno == EINVAL || errno == ENOSYS;
    }
    return true;
}

/* Makes a file's data, or the names in a folder, durable. */
static enum status sync_path(const char *path, bool is_folder, struct error *error) {
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_CLOEXEC | (is_folder ? O_DIRECTORY : 0));
    bool failed = descriptor < 0 || (!is_folder && !sync_bands(descriptor));
    /* Some file systems cannot sync a folder and return EINVAL: there nothing more can be done. */
    failed = failed || (fsync(descriptor) != 0 && !(is_folder && errno == EINVAL));
    return failed ? fail(error, STATUS_IO, "%s: cannot be synced: %s", path, strerror(errno)) : STATUS_OK;
}

enum status results_sync_file(const char *path, struct error *error) {
    return sync_path(path, false, error);
}

enum status results_sync_folder(const char *folder, struct error *error) {
    return sync_path(folder, true, error);
}

/* ---- the trailer ---- */

/* The hash of the first `bytes` bytes of a file, computed in blocks on all cores. */
struct file_hash {
    int descriptor;
    off_t bytes;
    XXH128_hash_t *blocks;
    char **buffers; /* one for each thread */
    atomic_bool failed;
};

/* The work of hash_file for one block: reads and hashes it. */
static void hash_block(void *context, int64_t block, int thread) {
    struct file_hash *file = context;
    off_t at = (off_t)block * BLOCK;
    size_t size = file->bytes - at < BLOCK ? (size_t)(file->bytes - at) : BLOCK;
    if (!file->buffers[thread]) file->buffers[thread] = must_malloc(BLOCK);
    if (file_read_at(file->descriptor, file->buffers[thread], size, at) < (ssize_t)size)
        file->failed = true;
    else
        file->blocks[block] = XXH3_128bits(file->buffers[thread], size);
}

/* Hashes the first `bytes` bytes of a file. false: not all of them can be read. */
static bool hash_file(int descriptor, off_t bytes, XXH128_hash_t *hash) {
    int64_t blocks = (bytes + BLOCK - 1) / BLOCK;
    int threads = workers_count();
    OWNED XXH128_hash_t *hashes = must_malloc((unsigned long)(blocks + 1) * sizeof *hashes);
    struct file_hash file = {.descriptor = descriptor, .bytes = bytes, .blocks = hashes};
    file.buffers = must_zeroed((unsigned long)threads * sizeof *file.buffers);
    workers_run(blocks, hash_block, &file);
    *hash = XXH3_128bits(hashes, (size_t)blocks * sizeof *hashes);
    texts_free(file.buffers, threads);
    return !file.failed;
}

static void print_trailer(XXH128_hash_t hash, bool synced, char text[TRAILER + 1]) {
    snprintf(text, TRAILER + 1, trailer_format, (unsigned long long)hash.high64, (unsigned long long)hash.low64,
             synced ? word_synced : "");
}

/* Reads the trailer of a file. *bytes becomes the number of bytes before it. */
static enum trailer read_trailer(int descriptor, char text[TRAILER], off_t *bytes) {
    const char *word = &text[TRAILER - sizeof word_synced]; /* the newline is where the constant has its final zero */
    *bytes = lseek(descriptor, 0, SEEK_END) - TRAILER;
    bool there = *bytes > 0 && pread(descriptor, text, TRAILER, *bytes) == TRAILER &&
                 strncmp(text, trailer_format, strcspn(trailer_format, "%")) == 0;
    return !there ? TRAILER_NONE : strncmp(word, word_synced, sizeof word_synced - 1) ? TRAILER_HASH : TRAILER_SYNCED;
}

enum trailer part_trailer(const char *path) {
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[TRAILER];
    off_t bytes;
    return descriptor < 0 ? TRAILER_NONE : read_trailer(descriptor, text, &bytes);
}

bool part_is_intact(const char *path, off_t max_hashed_bytes) {
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return false;
    char found[TRAILER], expected[TRAILER + 1];
    off_t bytes;
    XXH128_hash_t hash;
    enum trailer trailer = read_trailer(descriptor, found, &bytes);
    if (trailer == TRAILER_NONE || bytes > max_hashed_bytes) return trailer != TRAILER_NONE;
    if (!hash_file(descriptor, bytes, &hash)) return false;
    print_trailer(hash, trailer == TRAILER_SYNCED, expected);
    return memcmp(found, expected, TRAILER) == 0;
}

hid_t part_open(const char *path, off_t max_hashed_bytes) {
    return part_is_intact(path, max_hashed_bytes) ? h5_open_unlocked(path) : H5I_INVALID_HID;
}

bool part_row(hid_t part, const char *path, struct result_row *row) {
    OWNED struct result_row *rows = NULL;
    int count;
    bool good = !result_load_rows(part, path, &rows, &count, IGNORED) && count == 1;
    if (good) *row = *rows;
    return good;
}

enum status part_seal(const char *path, bool sync, struct error *error) {
    if (sync) TRY(results_sync_file(path, error));
    errno = 0;
    int descriptor = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    off_t bytes = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    XXH128_hash_t hash;
    char text[TRAILER + 1];
    enum status status = STATUS_OK;
    if (bytes < 0 || !hash_file(descriptor, bytes, &hash)) {
        status = fail(error, STATUS_IO, "%s: cannot be read back: %s", path, strerror(errno ? errno : EIO));
    } else {
        print_trailer(hash, sync, text);
        errno = 0;
        if (pwrite(descriptor, text, TRAILER, bytes) != TRAILER)
            status = fail_write(error, path, errno ? errno : ENOSPC);
    }
    if (descriptor >= 0 && close(descriptor) != 0 && !status) status = fail_write(error, path, errno);
    return status;
}
