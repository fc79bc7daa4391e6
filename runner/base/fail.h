/* fail.h - how functions report errors.
 *
 * A function that can fail returns an `enum status` (0 is success) and takes a `struct error *`, into which it writes
 * one sentence. Functions in between neither print nor exit: main prints `error.text` and returns the status. Where a
 * run may fail while the job continues, the sentence becomes that run's `message`. */
#ifndef RUNNER_FAIL_H
#define RUNNER_FAIL_H

#include "../../kernels/core/status.h"

#include <stdio.h>

/* Reports that a file cannot be written, and explains the errno `number`. Returns STATUS_IO. */
enum status fail_write(struct error *error, const char *path, int number);

/* Reports a failed call with its expression, the library's message `words` (may be NULL) and file:line.
 *     return FAIL_CALL(error, STATUS_IO, "fsync(fd)", strerror(errno)); */
#define FAIL_CALL(error, status, expression, words) fail_call(error, status, expression, words, __FILE__, __LINE__)
enum status fail_call(struct error *error, enum status status, const char *expression, const char *words,
                      const char *file, int line);

/* Sets the subject: the operation or file that the process works on. FAIL_CALL, reports of missing memory and of a
 * crashed library begin with it. The text must live until the next call. Returns the previous subject; NULL: none. */
const char *fail_set_subject(const char *what);
const char *fail_subject(void);
/* Puts "KIND NAME: " before the error's sentence. Returns the error's status. */
enum status fail_prefix(struct error *error, const char *kind, const char *name);

/* Allocations that cannot fail: when the host is out of memory they print a message and end the process with
 * STATUS_DEVICE. They are for small bookkeeping only; buffers for data use malloc, and the caller checks them. */
void *must_have(void *memory); /* returns `memory`; ends the process if it is NULL */
void *must_malloc(unsigned long bytes);
void *must_realloc(void *memory, unsigned long bytes);
char *must_strdup(const char *text);
/* As realpath. NULL, with errno set: it failed for another reason than memory. */
char *must_realpath(const char *path);
/* printf into a new string that the caller frees. */
char *must_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Appends to *text as printf does, and reallocates it. */
void must_append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As open_memstream, but never loses text for lack of memory. */
FILE *must_stream(char **text, size_t *length);

#endif
