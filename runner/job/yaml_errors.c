/* yaml_errors.c - errors with positions: collects and sorts them, and prints them with their lines of the file. */
#include "yaml_parts.h"

#include "../base/fail.h"
#include "../base/text.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE 400 /* bytes of one message */
#define WINDOW      160 /* characters that are shown of a line... */
#define WINDOW_LINE 200 /* ...that is longer than this */
#define min(a, b)   ((a) < (b) ? (a) : (b))

/* ---- collecting ------------------------------------------------------------------------------------------------ */

void diagnostics_add(struct diagnostics *diagnostics, const struct yaml_source *source, int line, int column,
                     const char *format, va_list arguments) {
    char text[MAX_MESSAGE];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= MAX_MESSAGE) memcpy(text + MAX_MESSAGE - 4, "...", 4);
    int kept = min(diagnostics->count, YAML_MAX_ERRORS);
    for (int i = 0; i < kept; i++) {
        const struct diagnostic *other = &diagnostics->items[i];
        if (other->source == source && other->line == line && other->column == column && strcmp(other->text, text) == 0)
            return;
    }
    if (kept < YAML_MAX_ERRORS)
        diagnostics->items[kept] = (struct diagnostic){source, line, column, kept, must_strdup(text)};
    diagnostics->count++;
}

bool yaml_error_at(struct yaml_document *document, int line, int column, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    diagnostics_add(&document->diagnostics, document->source, line, column, format, arguments);
    va_end(arguments);
    return false;
}

bool yaml_error(struct yaml_document *document, const struct yaml_node *where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    diagnostics_add(&document->diagnostics, yaml_source_of(document, where), where ? where->line : 0,
                    where ? where->column : 0, format, arguments);
    va_end(arguments);
    return false;
}

bool yaml_error_inside(struct yaml_document *document, const struct yaml_node *where, int offset, const char *format,
                       ...) {
    int line = where->line, column = where->column + where->quoted;
    for (int i = 0; i < offset; i++) column += ((unsigned char)where->text[i] & 0xc0) != 0x80;
    if (!yaml_is_verbatim(document, where)) yaml_find_byte(document, where, offset, &line, &column);
    va_list arguments;
    va_start(arguments, format);
    diagnostics_add(&document->diagnostics, yaml_source_of(document, where), line, where->column ? column : 0, format,
                    arguments);
    va_end(arguments);
    return false;
}

bool yaml_has_error(const struct yaml_document *document, const struct yaml_node *where) {
    const struct yaml_source *source = yaml_source_of(document, where);
    for (int i = 0; where->line > 0 && i < min(document->diagnostics.count, YAML_MAX_ERRORS); i++) {
        const struct diagnostic *other = &document->diagnostics.items[i];
        if (other->source == source && other->line == where->line && other->column == where->column) return true;
    }
    return false;
}

bool yaml_has_message(const struct yaml_document *document, const char *beginning) {
    for (int i = 0; i < min(document->diagnostics.count, YAML_MAX_ERRORS); i++)
        if (strncmp(document->diagnostics.items[i].text, beginning, strlen(beginning)) == 0) return true;
    return false;
}

int yaml_error_count(const struct yaml_document *document) {
    return document->diagnostics.count;
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

/* Prints one character in one column: `?` for an unsafe one. Returns its length in bytes. */
static int print_character(const char *text, size_t length, FILE *to) {
    int size = utf8_length(text, length);
    if (*text == '\t')
        fputc(' ', to);
    else if (text_shown(text, length) == 0)
        fputc('?', to);
    else
        fwrite(text, 1, (size_t)size, to);
    return size ? size : 1;
}

/* Orders by file, then by position, then by time. */
static int compare_errors(const void *a, const void *b) {
    const struct diagnostic *x = a, *y = b;
    if (x->source != y->source) return x->source->number < y->source->number ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->order - y->order;
}

/* Prints the line with a mistake and a caret under its column; of a long line only a window around the column. */
static void print_source(const char *text, size_t length, int line, int column, FILE *to) {
    const char *end = text + length;
    text = yaml_find_line(text, end, line);
    if (text == end) return; /* the error is at the end of the file: there is no such line */

    int characters = 0;
    for (const char *c = text; c < end && yaml_break_length(c, (size_t)(end - c)) == 0; characters++) {
        int size = utf8_length(c, (size_t)(end - c));
        c += size ? size : 1;
    }
    int first = 0, count = characters;
    if (characters > WINDOW_LINE) {
        first = column > WINDOW / 2 ? column - WINDOW / 2 : 0;
        count = min(WINDOW, characters - first);
    }
    fprintf(to, "%5d | %s", line, first > 0 ? "..." : "");
    for (int i = 0; i < first + count; i++) {
        int size = utf8_length(text, (size_t)(end - text));
        text += i < first ? (size ? size : 1) : print_character(text, (size_t)(end - text), to);
    }
    fprintf(to, "%s\n      | %*s^\n", first + count < characters ? "..." : "", column - 1 - first + (first > 0 ? 3 : 0),
            "");
}

void yaml_print_errors(const struct yaml_document *document, FILE *to) {
    const struct diagnostics *diagnostics = &document->diagnostics;
    int kept = min(diagnostics->count, YAML_MAX_ERRORS);
    struct diagnostic sorted[YAML_MAX_ERRORS];
    memcpy(sorted, diagnostics->items, sizeof *sorted * (size_t)kept);
    qsort(sorted, (size_t)kept, sizeof *sorted, compare_errors);
    for (int i = 0; i < kept; i++) {
        const struct diagnostic *diagnostic = &sorted[i];
        const char *name = diagnostic->source->name, *text = diagnostic->source->text;
        if (diagnostic->line > 0)
            fprintf(to, "%s:%d:%d: ", name, diagnostic->line, diagnostic->column);
        else
            fprintf(to, "%s: ", name);
        size_t remaining = strlen(diagnostic->text);
        for (const char *c = diagnostic->text; remaining > 0;) {
            int size = print_character(c, remaining, to);
            c += size, remaining -= (size_t)size;
        }
        fputc('\n', to);
        if (diagnostic->line > 0 && text)
            print_source(text, diagnostic->source->length, diagnostic->line, diagnostic->column, to);
    }
    if (diagnostics->count > kept)
        fprintf(to, "%d mistakes in %s; the first %d are shown\n", diagnostics->count, document->source->name, kept);
    else if (kept > 1 || (kept == 1 && sorted[0].line > 0))
        fprintf(to, "%d mistake%s in %s\n", kept, kept == 1 ? "" : "s", document->source->name);
}
