/* status.c - filling `struct error`. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

enum status fail(struct error *error, enum status status, const char *format, ...) {
    if (error->status != STATUS_OK) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
    va_end(arguments);
    error->status = status;
    return status;
}
