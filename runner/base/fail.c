/* fail.c - filling `struct error`, and memory that cannot be missing. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status fail(struct error *error, enum status status, const char *format, ...) {
    if (error->status != STATUS_OK) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    return status;
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
