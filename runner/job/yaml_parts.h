/* yaml_parts.h - the functions of yaml_errors.c and yaml_types.c; for yaml.c only. */
#ifndef RUNNER_YAML_PARTS_H
#define RUNNER_YAML_PARTS_H

#include "yaml.h"
#include <stdarg.h>

struct diagnostic {
    int line, column; /* 0: about the file as a whole */
    int order;        /* in which it was added */
    char *text;
};

struct diagnostics {
    int count; /* added; at most YAML_MAX_ERRORS of them are kept */
    struct diagnostic items[YAML_MAX_ERRORS];
};

/* Adds an error, unless the same text exists at the same position. */
void diagnostics_add(struct diagnostics *diagnostics, int line, int column, const char *format, va_list arguments);
/* Prints the errors with their source lines. `text`: the contents of the file `name`; NULL: it could not be read. */
void diagnostics_print(const struct diagnostics *diagnostics, const char *name, const char *text, size_t length,
                       FILE *to);
void diagnostics_free(struct diagnostics *diagnostics);

/* Sets a scalar's kind and value from its text; a quoted one is a string. */
void yaml_resolve_type(struct yaml_node *node);

/* Is it a C0 or C1 control character or DEL? Printed, these could control the terminal. */
bool is_control(const char *text);
/* The length in bytes of the line break at `text`, by YAML's rules; 0: there is none. */
int line_break_length(const char *text, size_t length);

#endif
