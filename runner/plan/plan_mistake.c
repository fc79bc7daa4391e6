/* plan_mistake.c - reports mistakes at their position in the job. */
#include "plan_parts.h"

#include <stdarg.h>

void plan_mistake_inside(const struct job *job, const struct yaml_node *where, int at, const char *label,
                         const char *format, ...) {
    if (yaml_has_error(job->document, where)) return;
    struct error error; /* its text holds any message */
    va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start does it
    vsnprintf(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    const char *text = *label ? "%s (with %s)" : "%s%s";
    if (at < 0)
        yaml_error(job->document, where, text, error.text, label);
    else
        yaml_error_inside(job->document, where, at, text, error.text, label);
}
