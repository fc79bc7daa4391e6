/* yaml_parts.h - a document from inside; for yaml*.c only. */
#ifndef RUNNER_YAML_PARTS_H
#define RUNNER_YAML_PARTS_H

#include "yaml.h"
#include <stdarg.h>

/* A file, or another text, that nodes come from. */
struct yaml_source {
    int number; /* 0: the document's own; those that it includes follow */
    char *name, *text;
    size_t length;
    struct yaml_source *next;
};

/* An error. */
struct diagnostic {
    const struct yaml_source *source;
    int line, column; /* 0: the error is about the file as a whole */
    int order;        /* its number in the order of addition */
    char *text;
};

/* The errors of a document. */
struct diagnostics {
    int count; /* added; at most YAML_MAX_ERRORS of them are kept */
    struct diagnostic items[YAML_MAX_ERRORS];
};

/* A node with what only the document needs of it. */
struct owned_node {
    struct yaml_node node; /* first: a node's address is its owner's */
    struct owned_node *next;
    int expanded; /* nodes of this subtree, with the targets of its aliases */
    int height;   /* levels of lists and maps in this subtree; a scalar has none */
    bool open;    /* its end is not read yet, so an alias to it would be cyclic */
};

struct yaml_document {
    struct yaml_source *source; /* the document's own, then those that it includes */
    struct yaml_node *root;
    struct owned_node *nodes;
    struct diagnostics diagnostics;
};

/* Adds an error, unless the same text exists at the same position. */
void diagnostics_add(struct diagnostics *diagnostics, const struct yaml_source *source, int line, int column,
                     const char *format, va_list arguments);

/* What is wrong at this place and how to mend it, in words; NULL: libyaml's `problem` says it best. `context`: what
 * libyaml was doing there, since line `from`; NULL: unknown. `indent`: the words for a wrongly indented line. */
const char *yaml_hint(const struct yaml_source *source, int line, int column, const char *problem, const char *context,
                      int from, const char *indent);

/* Sets a scalar's kind and value from its text; a quoted one is a string. */
void yaml_resolve_type(struct yaml_node *node);

/* Makes a scalar a real number, as the tag !!float demands. false: its text is not a number. */
bool yaml_read_real(struct yaml_node *node);
#define OTHER_TAGS "tags other than !!str and !!float are not supported"

/* ---- yaml_source.c ---- */

/* The file that a node comes from; the document's own for NULL and for nodes without a position. */
const struct yaml_source *yaml_source_of(const struct yaml_document *document, const struct yaml_node *node);
/* The beginning of line number `line` of a file's text, which ends at `end`; `end` if there are fewer lines. */
const char *yaml_find_line(const char *text, const char *end, int line);
/* Where a comment begins in the line at `text`; NULL: the line has none. ' #' in a quoted text counts as one. */
const char *yaml_find_comment(const char *text, const char *end);
/* Sets the line and column of the byte `offset` of a scalar that has escapes or several lines; leaves them as they are
 * if the byte is not found. */
void yaml_find_byte(const struct yaml_document *document, const struct yaml_node *scalar, int offset, int *line,
                    int *column);
/* Does the text begin with a C0 or C1 control character or DEL? Printed, these could control the terminal. */
bool yaml_is_control(const char *text);
/* The length in bytes of the line break at `text`, by YAML's rules; 0: there is no line break. */
int yaml_break_length(const char *text, size_t length);

#endif
