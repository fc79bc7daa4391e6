/* file_io.h - reads and writes open files to the last byte, over short reads, short writes and signals. */
#ifndef RUNNER_FILE_IO_H
#define RUNNER_FILE_IO_H

#include <stddef.h>
#include <sys/types.h>

/* Reads a text from a file or pipe to its end, or until more than `max` bytes are read. Appends a NUL and sets *length
 * to the number of bytes before that (`length` may be NULL). NULL, with errno set: a read failed. The caller frees. */
char *file_read_all(int descriptor, size_t max, size_t *length);
/* Reads bytes from position `at` of a file. Returns their number, less than `bytes` only if the file ends; -1, with
 * errno set: a read failed. */
ssize_t file_read_at(int descriptor, void *data, size_t bytes, off_t at);
/* Writes bytes from position `at` of a file on. Returns 0, or the errno of the failed write. */
int file_write_at(int descriptor, const void *data, size_t bytes, off_t at);

#endif
