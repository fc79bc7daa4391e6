/* yaml_source.c - finds where nodes stand in their files, and what stands there. */
#include "yaml_parts.h"

#include "../base/fail.h"
#include "../base/text.h"

#include <ctype.h>
#include <string.h>

const struct yaml_source *yaml_source_of(const struct yaml_document *document, const struct yaml_node *node) {
    return node && node->source ? node->source : document->source;
}

int yaml_break_length(const char *text, size_t length) {
    static const char *const breaks[] = {"\r\n", "\n", "\r", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        size_t size = strlen(breaks[i]);
        if (size <= length && memcmp(text, breaks[i], size) == 0) return (int)size;
    }
    return 0;
}

bool yaml_is_control(const char *text) {
    unsigned char c = (unsigned char)text[0];
    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

const char *yaml_find_line(const char *text, const char *end, int line) {
    if (end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark has no column */
    for (int i = 1; i < line && text < end;) {
        int size = yaml_break_length(text, (size_t)(end - text));
        if (size) i++;
        text += size ? size : 1;
    }
    return text;
}

const char *yaml_find_comment(const char *text, const char *end) {
    for (const char *c = text; c + 1 < end && yaml_break_length(c, (size_t)(end - c)) == 0; c++)
        if ((*c == ' ' || *c == '\t') && c[1] == '#') return c;
    return NULL;
}

/* Where a scalar begins in its file, behind its quote if it has one. NULL: the scalar is not from a file. Sets *end to
 * the end of the file's text. */
static const char *find_scalar(const struct yaml_document *document, const struct yaml_node *scalar, const char **end) {
    const struct yaml_source *source = yaml_source_of(document, scalar);
    if (!scalar->text || scalar->replaced || scalar->line == 0 || !source->text) return NULL;
    *end = source->text + source->length;
    const char *at = yaml_find_line(source->text, *end, scalar->line);
    for (int i = 1; i < scalar->column && at < *end; i++) at += utf8_length(at, (size_t)(*end - at));
    return at + (scalar->quoted && at < *end);
}

/* Like find_scalar, but NULL also if the file does not hold the scalar's text letter for letter there. */
static const char *verbatim_text(const struct yaml_document *document, const struct yaml_node *scalar,
                                 const char **end) {
    const char *at = find_scalar(document, scalar, end);
    size_t length = at ? strlen(scalar->text) : 0;
    return at && (size_t)(*end - at) >= length && memcmp(at, scalar->text, length) == 0 ? at : NULL;
}

void yaml_find_byte(const struct yaml_document *document, const struct yaml_node *scalar, int offset, int *line,
                    int *column) {
    const char *end, *at = find_scalar(document, scalar, &end);
    if (!at) return;
    /* The letters of the text stand in the file in their order, with others (escapes, indentation) between them. */
    int byte_line = scalar->line, byte_column = scalar->column + scalar->quoted;
    /* behind '|' or '>' the text begins on the next line */
    bool header = scalar->quoted && (at[-1] == '|' || at[-1] == '>');
    for (int i = 0; i <= offset && scalar->text[i]; i++) {
        if (isspace((unsigned char)scalar->text[i]) || ((unsigned char)scalar->text[i] & 0xc0) == 0x80) continue;
        for (bool found = false; !found && at < end;) {
            int size = yaml_break_length(at, (size_t)(end - at));
            found = *at == scalar->text[i] && !header;
            if (found && i == offset) break;
            if (size) header = false;
            byte_line += size > 0;
            byte_column = size ? 1 : byte_column + 1;
            at += size ? size : utf8_length(at, (size_t)(end - at));
        }
        if (at == end) return;
    }
    *line = byte_line;
    *column = byte_column;
}

bool yaml_is_verbatim(const struct yaml_document *document, const struct yaml_node *scalar) {
    const char *end;
    return verbatim_text(document, scalar, &end) != NULL;
}

const char *yaml_comment_hint(const struct yaml_document *document, const struct yaml_node *scalar) {
    const char *end, *at = scalar->quoted ? NULL : verbatim_text(document, scalar, &end);
    if (!at) return "";
    at += strlen(scalar->text);
    return yaml_find_comment(at, end) == at + strspn(at, " \t") - 1
               ? "; text after ' #' is a comment: use quotes to keep it"
               : "";
}

char *yaml_place(const struct yaml_document *document, const struct yaml_node *node) {
    return must_printf("%s:%d:%d", yaml_source_of(document, node)->name, node->line, node->column);
}
