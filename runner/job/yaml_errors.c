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

bool yaml_has_error(const struct yaml_document *document, const struct yaml_node *where) {
    const struct yaml_source *source = where->source ? where->source : document->source;
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

static int compare_errors(const void *a, const void *b) {
    const struct diagnostic *x = a, *y = b;
    if (x->source != y->source) return x->source->number < y->source->number ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->order - y->order;
}

/* The beginning of line number `line`; `end`: the end of the text. */
static const char *find_line(const char *text, const char *end, int line) {
    if (end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark has no column */
    for (int i = 1; i < line && text < end;) {
        int size = line_break_length(text, (size_t)(end - text));
        if (size) i++;
        text += size ? size : 1;
    }
    return text;
}

/* Skips a key at the beginning of a text. NULL: the text begins with none. */
static const char *skip_key(const char *text) {
    text += strspn(text, " -");
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return word > 0 ? text + word : NULL;
}

bool yaml_lacks_space(const char *text) {
    const char *behind = skip_key(text);
    return behind && behind[0] == ':' && behind[1] > ' ';
}

bool yaml_has_wide_colon(const char *text) {
    const char *behind = skip_key(text);
    return behind && strncmp(behind, "\uff1a", 3) == 0;
}

/* Where a comment begins in this line; NULL: nowhere. Ignores quotes: ' #' in a quoted text counts too. */
static const char *find_comment(const char *text, const char *end) {
    for (const char *c = text; c + 1 < end && line_break_length(c, (size_t)(end - c)) == 0; c++)
        if ((*c == ' ' || *c == '\t') && c[1] == '#') return c;
    return NULL;
}

/* Where a scalar begins in its file, behind a quote; NULL: it is not from a file. `end`: of the file's text. */
static const char *begin_of(const struct yaml_document *document, const struct yaml_node *scalar, const char **end) {
    const struct yaml_source *source = scalar->source ? scalar->source : document->source;
    if (!scalar->text || scalar->replaced || scalar->line == 0 || !source->text) return NULL;
    *end = source->text + source->length;
    const char *at = find_line(source->text, *end, scalar->line);
    for (int i = 1; i < scalar->column && at < *end; i++) at += utf8_length(at, (size_t)(*end - at));
    return at + (scalar->quoted && at < *end);
}

/* Like begin_of, but NULL also if the file does not hold the scalar's text letter for letter. */
static const char *source_of(const struct yaml_document *document, const struct yaml_node *scalar, const char **end) {
    const char *at = begin_of(document, scalar, end);
    size_t length = at ? strlen(scalar->text) : 0;
    return at && (size_t)(*end - at) >= length && memcmp(at, scalar->text, length) == 0 ? at : NULL;
}

/* Finds the line and column of a byte of a scalar that has escapes or several lines: its letters stand in
 * the file in the same order, with others (escapes, indentation) between them. */
static void find_byte(const struct yaml_document *document, const struct yaml_node *scalar, int offset, int *line,
                      int *column) {
    const char *end, *at = begin_of(document, scalar, &end);
    if (!at) return;
    int byte_line = scalar->line, byte_column = scalar->column + scalar->quoted;
    bool header = scalar->quoted && (at[-1] == '|' || at[-1] == '>');
    for (int i = 0; i <= offset && scalar->text[i]; i++) {
        if (isspace((unsigned char)scalar->text[i]) || ((unsigned char)scalar->text[i] & 0xc0) == 0x80) continue;
        for (bool found = false; !found && at < end;) {
            int size = line_break_length(at, (size_t)(end - at));
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

bool yaml_error_inside(struct yaml_document *document, const struct yaml_node *where, int offset, const char *format,
                       ...) {
    int line = where->line, column = where->column + where->quoted;
    for (int i = 0; i < offset; i++) column += ((unsigned char)where->text[i] & 0xc0) != 0x80;
    if (!yaml_is_verbatim(document, where)) find_byte(document, where, offset, &line, &column);
    va_list arguments;
    va_start(arguments, format);
    const struct yaml_source *source = where->source ? where->source : document->source;
    diagnostics_add(&document->diagnostics, source, line, where->column ? column : 0, format, arguments);
    va_end(arguments);
    return false;
}

bool yaml_is_verbatim(const struct yaml_document *document, const struct yaml_node *scalar) {
    const char *end;
    return source_of(document, scalar, &end) != NULL;
}

const char *yaml_comment_hint(const struct yaml_document *document, const struct yaml_node *scalar) {
    const char *end, *at = scalar->quoted ? NULL : source_of(document, scalar, &end);
    if (!at) return "";
    at += strlen(scalar->text);
    return find_comment(at, end) == at + strspn(at, " \t") - 1 ? "; text after ' #' is a comment: use quotes to keep it"
                                                               : "";
}

char *yaml_place(const struct yaml_document *document, const struct yaml_node *node) {
    const struct yaml_source *source = node->source ? node->source : document->source;
    return must_printf("%s:%d:%d", source->name, node->line, node->column);
}

const char *yaml_hint(const struct yaml_source *source, int line, int column, const char *problem, const char *context,
                      int from, const char *indent) {
    const char *end = source->text + source->length, *text = find_line(source->text, end, line), *at = text;
    for (int i = 1; i < column && at < end; i++) { /* the text is valid UTF-8 */
        at += utf8_length(at, (size_t)(end - at));
    }
    for (int i = line > 1 ? line - 1 : 1; i <= line; i++)
        if (yaml_has_wide_colon(find_line(source->text, end, i)))
            return i < line ? "on the line before, the colon is the full-width '\uff1a'; write ': '"
                            : "the colon is the full-width '\uff1a'; write ': '";
    if (context && strcmp(context, "while scanning an alias") == 0)
        return "text that begins with '*' needs quotes: \"*.h5\"";
    if (at > text && at[-1] == '$' && *at == '{')
        return "a parameter in braces needs quotes inside { } and [ ]: \"${name}\", or write $name";
    if (strstr(problem, "cannot start any token")) return "text that begins with this character needs quotes";
    if (strcmp(problem, "found unexpected ':'") == 0) return "a space must follow a key's colon: 'key: value'";
    bool begins = at == text + strspn(text, " ") || at == end;
    if (strcmp(problem, "mapping values are not allowed in this context") == 0) {
        const char *before = line > 1 ? find_line(source->text, end, line - 1) : "";
        if (yaml_lacks_space(before)) return "on the line before, a space must follow the key's colon: 'key: value'";
        before += strspn(before, " ");
        if (before[0] == '-' && isalpha((unsigned char)before[1]))
            return "on the line before, a space must follow the '-': '- key: value'";
        size_t word = strspn(text, " ");
        bool is_key = line > 1 && strcspn(text + word, " :\"'") == (size_t)(at - text) - word;
        return is_key ? "this line is indented further than the key before it" : "text with ': ' in it needs quotes";
    }
    if (context && strncmp(context, "while parsing a flow", 20) == 0) {
        for (int i = from; i <= line; i++)
            if (find_comment(find_line(source->text, end, i), end))
                return "' #' begins a comment: text with it needs quotes";
        return line > from ? "close the bracket, or end the entry before this with ','"
                           : "close the bracket, end the entry before this with ',', or put its text in quotes";
    }
    const struct {
        const char *problem, *at_start, *later;
    } hints[] = {
        {"did not find expected key", indent,
         "the value ends before this: delete the rest, or put all of it in quotes"},
        {"did not find expected '-' indicator", indent, indent},
        {"could not find expected ':'", "': ' must follow the key", NULL},
        {"did not find expected <document start>", "the keys of the top level must begin in one column", NULL},
        {"found unexpected end of stream", "the closing quote is missing", NULL},
        {"found unknown escape character", "in \"...\" a backslash is written \\\\, in '...' \\", NULL},
        {"did not find expected comment or line break", "text that begins with '|' or '>' needs quotes", NULL},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(problem, hints[i].problem) == 0)
            return begins || !hints[i].later ? hints[i].at_start : hints[i].later;
    return NULL;
}

/* Prints the line with a mistake and a caret under its column; of a long line only a window around the column. */
static void print_source(const char *text, size_t length, int line, int column, FILE *to) {
    const char *end = text + length;
    text = find_line(text, end, line);
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
