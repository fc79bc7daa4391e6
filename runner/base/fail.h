/* fail.h - how anything that can go wrong says so.
 *
 * A function that can fail returns an `enum status` (0 is good) and takes a `struct error *` that it fills, once, with
 * a sentence. Nobody prints and nobody exits on the way up: main prints `error.text` and returns the status, or, where
 * a run may fail while the job goes on, the sentence becomes that run's `message`. */
#ifndef RUNNER_FAIL_H
#define RUNNER_FAIL_H

#include "../../kernels/core/status.h"

#include <stdio.h>

/* For a file that cannot be written, with the errno that says why: STATUS_IO, and what that means for the user. */
enum status fail_write(struct error *error, const char *path, int number);

/* For a failed call: the expression, the library's own words and file:line. `words` may be NULL.
 *     return FAIL_CALL(error, STATUS_IO, "fsync(fd)", strerror(errno)); */
#define FAIL_CALL(error, status, expression, words) fail_call(error, status, expression, words, __FILE__, __LINE__)
enum status fail_call(struct error *error, enum status status, const char *expression, const char *words,
                      const char *file, int line);

/* What is being worked on, an operation or a file: FAIL_CALL, memory that is missing and a library that gives up say
 * it. The text must live until it is taken back. Returns what was said before; NULL: nothing. */
const char *fail_set_subject(const char *what);
const char *fail_subject(void);
/* Puts "KIND NAME: " before the sentence. Returns the status. */
enum status fail_prefix(struct error *error, const char *kind, const char *name);

/* Memory that cannot be missing: prints and ends the process with STATUS_DEVICE when the host has none left (only for
 * small bookkeeping; buffers for data are allocated with plain malloc and checked). */
void *must_have(void *memory); /* NULL: none was left */
void *must_malloc(unsigned long bytes);
void *must_realloc(void *memory, unsigned long bytes);
char *must_strdup(const char *text);
/* realpath; NULL, with errno: for another reason than memory. */
char *must_realpath(const char *path);
/* printf into a new string that the caller frees. */
char *must_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As open_memstream, which drops what it finds no memory for. */
FILE *must_stream(char **text, size_t *length);

#endif
