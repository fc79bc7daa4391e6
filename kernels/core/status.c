/* status.c - fills `struct error`. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static enum status fill(struct error *error, enum status status, const char *key, int item, const char *format,
                        va_list arguments) {
    if (error->status != STATUS_OK) return status;
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is
    vsnprintf(error->text, sizeof error->text, format, arguments);
    error->status = status;
    error->key = key;
    error->item = item;
    return status;
}

enum status fail(struct error *error, enum status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, NULL, 0, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
    va_end(arguments);
    return status;
}

enum status fail_key(struct error *error, const char *key, int item, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(error, STATUS_USAGE, key, item, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
    va_end(arguments);
    return STATUS_USAGE;
}
