/* yaml_errors.c - errors with their position: collects and sorts them, and prints them with the source line. */
#include "yaml_parts.h"

#include "../base/fail.h"
#include "../base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE 400 /* bytes of one message */
#define WINDOW      160 /* characters that are shown of a line... */
#define WINDOW_LINE 200 /* ...that is longer than this */
#define min(a, b)   ((a) < (b) ? (a) : (b))

/* ---- characters ------------------------------------------------------------------------------------------------ */

int line_break_length(const char *text, size_t length) {
    static const char *const breaks[] = {"\r\n", "\n", "\r", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        size_t size = strlen(breaks[i]);
        if (size <= length && memcmp(text, breaks[i], size) == 0) return (int)size;
    }
    return 0;
}

bool is_control(const char *text) {
    unsigned char c = (unsigned char)text[0];
    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

/* Prints one character of the source in one column. Returns its length in bytes. */
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

/* ---- collecting ------------------------------------------------------------------------------------------------ */

void diagnostics_add(struct diagnostics *diagnostics, int line, int column, const char *format, va_list arguments) {
    char text[MAX_MESSAGE];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= MAX_MESSAGE) memcpy(text + MAX_MESSAGE - 4, "...", 4);
    int kept = min(diagnostics->count, YAML_MAX_ERRORS);
    for (int i = 0; i < kept; i++) {
        const struct diagnostic *other = &diagnostics->items[i];
        if (other->line == line && other->column == column && strcmp(other->text, text) == 0) return;
    }
    if (kept < YAML_MAX_ERRORS) diagnostics->items[kept] = (struct diagnostic){line, column, kept, must_strdup(text)};
    diagnostics->count++;
}

void diagnostics_free(struct diagnostics *diagnostics) {
    for (int i = 0; i < min(diagnostics->count, YAML_MAX_ERRORS); i++) free(diagnostics->items[i].text);
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const struct diagnostic *x = a, *y = b;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->order - y->order;
}

static void print_source(const char *text, size_t length, int line, int column, FILE *to) {
    const char *end = text + length;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark has no column */
    for (int i = 1; i < line && text < end;) {
        int size = line_break_length(text, (size_t)(end - text));
        if (size) i++;
        text += size ? size : 1;
    }
    if (text == end) return; /* the error is at the end of the file: there is no such line */

    int characters = 0;
    for (const char *c = text; c < end && line_break_length(c, (size_t)(end - c)) == 0; characters++) {
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

void diagnostics_print(const struct diagnostics *diagnostics, const char *name, const char *text, size_t length,
                       FILE *to) {
    int kept = min(diagnostics->count, YAML_MAX_ERRORS);
    struct diagnostic sorted[YAML_MAX_ERRORS];
    memcpy(sorted, diagnostics->items, sizeof *sorted * (size_t)kept);
    qsort(sorted, (size_t)kept, sizeof *sorted, compare);
    for (int i = 0; i < kept; i++) {
        const struct diagnostic *diagnostic = &sorted[i];
        if (diagnostic->line > 0)
            fprintf(to, "%s:%d:%d: ", name, diagnostic->line, diagnostic->column);
        else
            fprintf(to, "%s: ", name);
        size_t left = strlen(diagnostic->text);
        for (const char *c = diagnostic->text; left > 0;) {
            int size = print_character(c, left, to);
            c += size, left -= (size_t)size;
        }
        fputc('\n', to);
        if (diagnostic->line > 0 && text) print_source(text, length, diagnostic->line, diagnostic->column, to);
    }
    if (diagnostics->count > kept) fprintf(to, "%s: and %d more\n", name, diagnostics->count - kept);
}
