/* file_io.c - repeats read, pread and pwrite until all bytes are done. */
#include "file_io.h"

#include "fail.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

char *file_read_all(int descriptor, size_t max, size_t *length) {
    size_t capacity = 1 << 16, count = 0;
    char *text = must_malloc(capacity);
    if (length) *length = 0;
    for (ssize_t more; count <= max && (more = read(descriptor, text + count, capacity - count - 1)) != 0;) {
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return free(text), NULL;
        count += (size_t)more;
        if (capacity - count < 2) text = must_realloc(text, capacity *= 2);
    }
    text[count] = '\0';
    if (length) *length = count;
    return text;
}

ssize_t file_read_at(int descriptor, void *data, size_t bytes, off_t at) {
    size_t done = 0;
    for (ssize_t got = 1; done < bytes && got != 0; done += got > 0 ? (size_t)got : 0) {
        got = pread(descriptor, (char *)data + done, bytes - done, at + (off_t)done);
        if (got < 0 && errno != EINTR) return -1;
    }
    return (ssize_t)done;
}

int file_write_at(int descriptor, const void *data, size_t bytes, off_t at) {
    for (size_t done = 0; done < bytes;) {
        errno = 0;
        ssize_t written = pwrite(descriptor, (const char *)data + done, bytes - done, at + (off_t)done);
        if (written <= 0 && errno != EINTR) return errno ? errno : EIO;
        if (written > 0) done += (size_t)written;
    }
    return 0;
}
