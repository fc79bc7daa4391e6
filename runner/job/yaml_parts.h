/* yaml_parts.h - what yaml.c alone needs of yaml_errors.c and yaml_types.c. */
#ifndef RUNNER_YAML_PARTS_H
#define RUNNER_YAML_PARTS_H

#include "yaml.h"
#include <stdarg.h>

struct complaint {
    int line, column; /* 0: about the file as a whole */
    int order;        /* among those of one place */
    char *text;
};

struct complaints {
    int count; /* kept and not kept */
    struct complaint items[YAML_MAX_ERRORS];
};

/* The same words at the same place are kept once. */
void complaints_add(struct complaints *complaints, int line, int column, const char *format, va_list arguments);
/* `text` is the file that messages call `name`; NULL: it could not be read. */
void complaints_print(const struct complaints *complaints, const char *name, const char *text, size_t length, FILE *to);
void complaints_free(struct complaints *complaints);

/* Gives a scalar its kind and value from its text; quoted ones are strings. */
void yaml_resolve_type(struct yaml_node *node);

/* Is it a C0 or C1 control or DEL? Those would let a file write to the terminal. */
bool is_control(const char *text);
/* Bytes of the line break at `text`, as YAML counts lines; 0: none there. */
int line_break_length(const char *text, size_t length);

#endif
