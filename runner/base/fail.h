/* fail.h - defines how functions report errors, allocate memory that cannot be missing, and release what they own.
 *
 * A function that can fail returns an `enum status` (0 is success) and takes a `struct error *`, into which it writes
 * one sentence. Functions in between neither print nor exit: main prints `error.text` and returns the status. If a
 * run may fail while the job continues, the sentence becomes that run's `message`. */
#ifndef RUNNER_FAIL_H
#define RUNNER_FAIL_H

#include "../../kernels/core/status.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>

/* Reports that a file cannot be written, and explains the errno `number`. Returns STATUS_IO. */
enum status fail_write(struct error *error, const char *path, int number);

/* Reports a failed call, the library's message `words` (may be NULL) and file:line.
 *     return FAIL_CALL(error, STATUS_IO, "fsync(fd)", strerror(errno)); */
#define FAIL_CALL(error, status, call, words) fail_call(error, status, call, words, __FILE__, __LINE__)
enum status fail_call(struct error *error, enum status status, const char *call, const char *words, const char *file,
                      int line);

/* An error that nobody reads, for a call whose failure does not matter or shows in what it returns. */
#define IGNORED (&(struct error){.status = STATUS_OK})

/* The error's sentence without "PATH: " at its beginning. */
const char *fail_without_path(const struct error *error, const char *path);

/* Sets the subject: the operation or file that the process works on. The messages of FAIL_CALL, of missing memory and
 * of a crashed library begin with the subject. Its text must live until the next call. Returns the previous subject,
 * NULL if there was none. */
const char *fail_set_subject(const char *what);
const char *fail_subject(void); /* NULL: none is set */
/* Puts "KIND NAME: " before the error's sentence. Returns the error's status. */
enum status fail_prefix(struct error *error, const char *kind, const char *name);

/* ---- memory ---- */

/* Allocations that cannot fail: when the host is out of memory they print a message and end the process with
 * STATUS_DEVICE. They are for small bookkeeping only; buffers for data use malloc or try_malloc, which the caller
 * checks. */
void *must_have(void *memory); /* returns `memory`; ends the process if it is NULL */
void *must_malloc(unsigned long bytes);
void *must_zeroed(unsigned long bytes);
void *must_realloc(void *memory, unsigned long bytes);
/* Appends a zeroed element to an array of `count` elements, which it reallocates, and returns the element's address:
 *     *APPEND(list->items, list->count) = item; */
#define APPEND(array, count) ((array) = must_grow((array), (count), sizeof *(array)), &(array)[(count)++])
void *must_grow(void *array, int count, unsigned long element_bytes);
/* malloc and calloc, for OWNED: the analyzer of clang does not know that OWNED frees. */
void *try_malloc(unsigned long bytes);
void *try_zeroed(unsigned long bytes);
char *must_strdup(const char *text); /* NULL of NULL */
/* Like realpath. NULL, with errno set: it failed for a reason other than memory. */
char *must_realpath(const char *path);
/* printf into a new string that the caller frees. */
char *must_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *must_vprintf(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
/* Appends to *text, which may be NULL, as printf does, and reallocates it. */
void must_append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like open_memstream, but never loses text for lack of memory. The text is complete after each flush. */
FILE *must_stream(char **text);

/* ---- releasing ---- */

/* Declares variables that are released where their scope ends, by a function that takes their address. They must be
 * initialized. OWNED: pointers, whose memory is freed. */
#define FREED_BY(function) __attribute__((cleanup(function), unused)) /* unused: some are only released, as a lock is */
#define OWNED              FREED_BY(free_owned)
#define OWNED_FILE         FREED_BY(close_owned)      /* FILE *, which may be NULL */
#define OWNED_FOLDER       FREED_BY(close_folder)     /* DIR *, which may be NULL */
#define OWNED_DESCRIPTOR   FREED_BY(close_descriptor) /* int, which may be negative; errno stays */
void free_owned(void *pointer);
/* Takes the value of a pointer out of its variable, which then owns nothing: `*result = disown(&file);`. */
void *disown(void *pointer);
void close_owned(FILE **file);
void close_folder(DIR **folder);
void close_descriptor(const int *descriptor);
/* Defines NAME_release, for FREED_BY of a variable `struct NAME *`: calls `free` of the pointer, which may be NULL. */
// clang-format off
#define RELEASED_BY(name, free) static inline void name##_release(struct name **pointer) { free(*pointer); }
// clang-format on

#endif
