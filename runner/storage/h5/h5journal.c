/* h5journal.c - a journal is a file beside the file that it restores: the size of that file, then entries in the order
 * of the overwrites. An entry is written before its bytes are overwritten, so if a kill truncates an entry, its bytes
 * are still in the file. */
#include "h5journal.h"

#include "../../base/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct h5_journal {
    char *path;            /* of the file */
    int descriptor;        /* of the journal; -1: closed */
    uint64_t size;         /* size of the original file */
    pthread_mutex_t mutex; /* held while the file changes; guards the members below */
    bool final;            /* h5_restore refuses */
    uint64_t end;          /* of the journal */
};

struct entry { /* followed by its old bytes */
    uint64_t address, bytes;
};

static char *journal_path(const char *path) {
    return must_printf("%s" H5_JOURNAL, path);
}

/* Writes all bytes, or fails with errno. */
static bool write_all(int descriptor, const void *data, uint64_t bytes, uint64_t address) {
    for (const char *from = data; bytes > 0;) {
        errno = 0;
        ssize_t written = pwrite(descriptor, from, bytes, (off_t)address);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            if (errno == 0) errno = ENOSPC;
            return false;
        }
        from += written;
        address += (uint64_t)written;
        bytes -= (uint64_t)written;
    }
    return true;
}

static bool read_all(int descriptor, void *data, uint64_t bytes, uint64_t address) {
    for (char *to = data; bytes > 0;) {
        errno = 0;
        ssize_t got = pread(descriptor, to, bytes, (off_t)address);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (errno == 0) errno = EIO;
            return false;
        }
        to += got;
        address += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return true;
}

/* ---- saving ----------------------------------------------------------------------------------------------------- */

struct h5_journal *h5_journal_begin(const char *path) {
    struct stat about;
    char *beside = journal_path(path);
    struct h5_journal *journal = NULL;
    int descriptor =
        stat(path, &about) == 0 ? open(beside, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666) : -1;
    uint64_t size = descriptor >= 0 ? (uint64_t)about.st_size : 0;
    if (descriptor >= 0 && write_all(descriptor, &size, sizeof size, 0)) {
        journal = must_malloc(sizeof *journal);
        *journal = (struct h5_journal){must_strdup(path), descriptor, size, .end = sizeof size};
        pthread_mutex_init(&journal->mutex, NULL);
    } else if (descriptor >= 0) {
        int number = errno;
        close(descriptor);
        unlink(beside);
        errno = number;
    }
    free(beside);
    return journal;
}

bool h5_journal_keep(struct h5_journal *journal, int descriptor, uint64_t address, uint64_t bytes) {
    if (address >= journal->size) return true;
    struct entry entry = {address, bytes < journal->size - address ? bytes : journal->size - address};
    char *whole = must_malloc(sizeof entry + entry.bytes);
    memcpy(whole, &entry, sizeof entry);
    bool kept = read_all(descriptor, whole + sizeof entry, entry.bytes, address) &&
                write_all(journal->descriptor, whole, sizeof entry + entry.bytes, journal->end);
    if (kept) journal->end += sizeof entry + entry.bytes;
    free(whole);
    return kept;
}

void h5_journal_lock(struct h5_journal *journal) {
    if (journal) pthread_mutex_lock(&journal->mutex);
}

void h5_journal_unlock(struct h5_journal *journal, bool final) {
    if (!journal) return;
    journal->final = final;
    pthread_mutex_unlock(&journal->mutex);
}

void h5_journal_free(struct h5_journal *journal) {
    if (!journal) return;
    close(journal->descriptor);
    free(journal->path);
    free(journal);
}

/* ---- restoring --------------------------------------------------------------------------------------------------- */

/* Writes an entry back, unless the file already has its bytes: a disk that refused a write may refuse it again. */
static bool restore_entry(int journal, uint64_t at, int file) {
    struct entry entry;
    if (!read_all(journal, &entry, sizeof entry, at)) return false;
    char *old = must_malloc(entry.bytes + 1), *current = must_malloc(entry.bytes + 1);
    bool good = read_all(journal, old, entry.bytes, at + sizeof entry);
    if (good && !(read_all(file, current, entry.bytes, entry.address) && memcmp(current, old, entry.bytes) == 0))
        good = write_all(file, old, entry.bytes, entry.address);
    free(current);
    free(old);
    return good;
}

/* Writes all entries back, from the last to the first. An incomplete entry is ignored: its bytes were not overwritten.
 */
static bool restore_entries(int journal, int file) {
    struct stat about;
    uint64_t size, count = 0, *places = NULL;
    if (fstat(journal, &about) != 0) return false;
    if (about.st_size < (off_t)sizeof size) return true; /* the process was killed before it changed the file */
    if (!read_all(journal, &size, sizeof size, 0)) return false;
    struct entry entry;
    for (uint64_t at = sizeof size, end = (uint64_t)about.st_size; at + sizeof entry <= end;) {
        if (!read_all(journal, &entry, sizeof entry, at) || entry.bytes > end - at - sizeof entry) break;
        places = must_realloc(places, (count + 1) * sizeof *places);
        places[count++] = at;
        at += sizeof entry + entry.bytes;
    }
    bool good = true;
    while (good && count > 0) good = restore_entry(journal, places[--count], file);
    free(places);
    return good && ftruncate(file, (off_t)size) == 0;
}

static bool restore(const char *path, int journal) {
    int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    char *beside = journal_path(path);
    bool good = file >= 0 && journal >= 0 && restore_entries(journal, file);
    if (file >= 0) close(file);
    if (good) unlink(beside);
    free(beside);
    return good;
}

bool h5_restore(struct h5_journal *journal) {
    pthread_mutex_lock(&journal->mutex);
    return !journal->final && restore(journal->path, journal->descriptor);
}

bool h5_restore_leftover(const char *path) {
    char *beside = journal_path(path);
    int journal = open(beside, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool good = restore(path, journal);
    if (journal >= 0) close(journal);
    free(beside);
    return good;
}
