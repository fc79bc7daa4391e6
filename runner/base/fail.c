/* fail.c - fills `struct error`; allocations that cannot fail. */
#include "fail.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *_Atomic subject; /* set by fail_set_subject */

enum status fail_write(struct error *error, const char *path, int number) {
    struct rlimit limit;
    if (number == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return fail(error, STATUS_IO,
                    "%s: cannot be written: it would exceed the file size limit of %llu bytes (`ulimit -f`)", path,
                    (unsigned long long)limit.rlim_cur);
    if (number == EIO)
        return fail(error, STATUS_IO, "%s: cannot be written: %s (the disk failed, or the file was truncated)", path,
                    strerror(number));
    return fail(error, STATUS_IO, "%s: cannot be written: %s", path, strerror(number));
}

enum status fail_call(struct error *error, enum status status, const char *call, const char *words, const char *file,
                      int line) {
    const char *about = atomic_load(&subject), *colon = about ? ": " : "";
    if (!about) about = "";
    if (!words || !*words) return fail(error, status, "%s%s%s failed (%s:%d)", about, colon, call, file, line);
    return fail(error, status, "%s%s%s failed: %s (%s:%d)", about, colon, call, words, file, line);
}

enum status fail_prefix(struct error *error, const char *kind, const char *name) {
    const struct error inner = *error;
    *error = (struct error){.status = STATUS_OK};
    return fail(error, inner.status, "%s %s: %s", kind, name, inner.text);
}

const char *fail_set_subject(const char *what) {
    return atomic_exchange(&subject, what);
}

const char *fail_subject(void) {
    return atomic_load(&subject);
}

/* ---- allocations that cannot fail -------------------------------------------------------------------------------- */

void *must_have(void *memory) {
    if (memory) return memory;
    const char *about = fail_subject();
    fprintf(stderr, "tilerun: %s%sout of host memory\n", about ? about : "", about ? ": " : "");
    _exit(STATUS_DEVICE); /* like a kill: finished runs are kept, and --resume does the others */
}

void *try_malloc(unsigned long bytes) {
    return malloc(bytes);
}

void *try_zeroed(unsigned long bytes) {
    return calloc(bytes, 1);
}

void *must_malloc(unsigned long bytes) {
    return must_have(malloc(bytes ? bytes : 1));
}

void *must_zeroed(unsigned long bytes) {
    return must_have(calloc(bytes ? bytes : 1, 1));
}

void *must_realloc(void *memory, unsigned long bytes) {
    return must_have(realloc(memory, bytes ? bytes : 1));
}

void *must_grow(void *array, int count, unsigned long element_bytes) {
    char *grown = must_realloc(array, ((unsigned long)count + 1) * element_bytes);
    memset(grown + (unsigned long)count * element_bytes, 0, element_bytes);
    return grown;
}

char *must_strdup(const char *text) {
    return text ? must_have(strdup(text)) : NULL;
}

char *must_realpath(const char *path) {
    char *real = realpath(path, NULL);
    return real || errno != ENOMEM ? real : must_have(real);
}

char *must_vprintf(const char *format, va_list arguments) {
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    return must_have(length < 0 ? NULL : text);
}

char *must_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = must_vprintf(format, arguments);
    va_end(arguments);
    return text;
}

void must_append(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *more = must_vprintf(format, arguments);
    va_end(arguments);
    size_t length = *text ? strlen(*text) : 0, added = strlen(more) + 1;
    *text = must_realloc(*text, length + added);
    memcpy(*text + length, more, added);
}

/* The buffer of must_stream. */
struct growing {
    char **text;
    size_t length, capacity;
};

/* For fopencookie: appends to the text. */
static ssize_t grow(void *cookie, const char *data, size_t bytes) {
    struct growing *growing = cookie;
    size_t needed = growing->length + bytes + 1;
    if (needed > growing->capacity) {
        growing->capacity = 2 * needed;
        *growing->text = must_realloc(*growing->text, growing->capacity);
    }
    memcpy(*growing->text + growing->length, data, bytes);
    (*growing->text)[growing->length += bytes] = '\0';
    return (ssize_t)bytes;
}

/* For fopencookie: frees the cookie; the caller of must_stream frees the text. */
static int stop_growing(void *cookie) {
    free(cookie);
    return 0;
}

FILE *must_stream(char **text) {
    struct growing *growing = must_malloc(sizeof *growing);
    *growing = (struct growing){text, 0, 1};
    *text = must_strdup("");
    return must_have(fopencookie(growing, "w", (cookie_io_functions_t){.write = grow, .close = stop_growing}));
}

const char *fail_without_path(const struct error *error, const char *path) {
    size_t length = strlen(path);
    int begins = strncmp(error->text, path, length) == 0 && error->text[length] == ':';
    return error->text + (begins ? length + 2 : 0);
}

void free_owned(void *pointer) {
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

void *disown(void *pointer) {
    void *taken;
    memcpy(&taken, pointer, sizeof taken);
    memset(pointer, 0, sizeof taken);
    return taken;
}

void close_owned(FILE **file) {
    if (*file) fclose(*file);
}

void close_folder(DIR **folder) {
    if (*folder) closedir(*folder);
}

void close_descriptor(const int *descriptor) {
    int number = errno;
    if (*descriptor >= 0) close(*descriptor);
    errno = number;
}
