/* fail.c - filling `struct error`, and memory that cannot be missing. */
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum status fail_write(struct error *error, const char *path, int number) {
    struct rlimit limit;
    if (number == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return fail(error, STATUS_IO,
                    "%s: cannot be written: it would be larger than files may be here, %llu bytes (`ulimit -f`)", path,
                    (unsigned long long)limit.rlim_cur);
    if (number == EIO)
        return fail(error, STATUS_IO, "%s: cannot be written: %s (its disk failed, or somebody cut it short)", path,
                    strerror(number));
    return fail(error, STATUS_IO, "%s: cannot be written: %s", path, strerror(number));
}

enum status fail_call(struct error *error, enum status status, const char *expression, const char *words,
                      const char *file, int line) {
    if (!words || !*words) return fail(error, status, "%s failed (%s:%d)", expression, file, line);
    return fail(error, status, "%s failed: %s (%s:%d)", expression, words, file, line);
}

static void *must_have(void *memory) {
    if (memory) return memory;
    fputs("tilerun: out of host memory\n", stderr);
    abort();
}

void *must_malloc(unsigned long bytes) {
    return must_have(malloc(bytes ? bytes : 1));
}

void *must_realloc(void *memory, unsigned long bytes) {
    return must_have(realloc(memory, bytes ? bytes : 1));
}

char *must_strdup(const char *text) {
    return must_have(strdup(text));
}

char *must_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return must_have(length < 0 ? NULL : text);
}
