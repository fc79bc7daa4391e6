/* text.c - formats sizes and durations, decodes UTF-8, measures display widths and breaks lines. */
#include "text.h"

#include "fail.h"
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int text_name_length(const char *text) {
    int length = 0;
    while (text[length] == '_' || (length ? isalnum((unsigned char)text[length]) : isalpha((unsigned char)*text)))
        length++;
    return length;
}

bool text_is_name(const char *text) {
    return *text && !text[text_name_length(text)];
}

const char *size_text(double bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) bytes /= 1024, unit++;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *value_text(double value, char text[32]) {
    snprintf(text, 32, "%.9g", isnan(value) ? fabs(value) : value);
    return text;
}

const char *duration_text(double seconds, char text[32]) {
    static const struct {
        double min, unit;
        const char *name;
    } units[] = {{86400 * 3, 86400, "days"}, {7200, 3600, "h"}, {600, 60, "min"}, {1, 1, "s"},
                 {1e-3, 1e-3, "ms"},         {0, 1e-6, "us"}};
    int u = 0;
    while (seconds < units[u].min * 0.9995 && units[u].min > 0) u++; /* 0.9996 s is printed as 1.00 s, not 1000 ms */
    double value = seconds / units[u].unit;
    snprintf(text, 32, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[u].name);
    return text;
}

int utf8_length(const char *text, size_t length) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80) return 1;
    int size = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || (size_t)size > length) return 0;
    for (int i = 1; i < size; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool surrogate = c[0] == 0xed && c[1] > 0x9f;
    bool beyond = c[0] == 0xf4 && c[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : size;
}

const char *text_not_utf8(const char *text) {
    for (int size; *text; text += size)
        if (!(size = utf8_length(text, strnlen(text, 4)))) return text;
    return NULL;
}

bool text_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

int text_shown(const char *text, size_t length) {
    int bytes = utf8_length(text, length);
    if (bytes == 0) return 0;
    unsigned code = text_code(text, bytes);
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool bidirectional = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
                         (code >= 0x2066 && code <= 0x2069);
    return control || bidirectional ? 0 : bytes;
}

unsigned text_code(const char *text, int size) {
    static const unsigned char value_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07}; /* the first byte's, by size */
    unsigned code = (unsigned char)text[0] & value_bits[size];
    for (int i = 1; i < size; i++) code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    return code;
}

/* Copies a text and replaces the characters that are unsafe to print. `breaks`: keeps newlines. */
static char *clean_copy(const char *text, bool breaks) {
    size_t length = strlen(text);
    char *clean = must_malloc(length + 1), *to = clean;
    for (size_t i = 0; i < length;) {
        int shown = text_shown(text + i, length - i), bytes = utf8_length(text + i, length - i);
        if (shown > 0) {
            memcpy(to, text + i, (size_t)shown);
            to += shown;
        } else {
            *to++ = breaks && text[i] == '\n' ? '\n' : text[i] == '\n' || text[i] == '\t' ? ' ' : '?';
        }
        i += (size_t)(bytes > 0 ? bytes : 1);
    }
    *to = '\0';
    return clean;
}

char *text_clean(const char *text) {
    return clean_copy(text, false);
}

void text_print(FILE *to, const char *format, ...) {
    OWNED char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    bool ends = length > 0 && text[length - 1] == '\n' && format[strlen(format) - 1] == '\n';
    if (ends) text[length - 1] = '\0';
    OWNED char *clean = clean_copy(text, false);
    fprintf(to, ends ? "%s\n" : "%s", clean);
}

void text_print_message(const char *text) {
    OWNED char *clean = clean_copy(text, true);
    fprintf(stderr, "tilerun: %s\n", clean);
}

/* ---- widths ---- */

struct range {
    uint32_t first, last;
};

static const struct range combining[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0xe34, 0xe3a},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x202a, 0x202e},
    {0x2060, 0x2064}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
};
/* Some characters in these ranges are narrow: a line may come out too short, but never too long. */
static const struct range wide[] = {
    {0x1100, 0x115f}, {0x231a, 0x231b},   {0x23e9, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
    {0x2648, 0x2653}, {0x267f, 0x27bf},   {0x2b1b, 0x2b55},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
    {0xa960, 0xa97f}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6}, {0x16fe0, 0x1b2ff}, {0x1f004, 0x1faff}, {0x20000, 0x3fffd},
};
#define IN(ranges, character) in_ranges(ranges, (int)(sizeof(ranges) / sizeof *(ranges)), character)

static bool in_ranges(const struct range *ranges, int count, uint32_t character) {
    for (int i = 0; i < count && character >= ranges[i].first; i++)
        if (character <= ranges[i].last) return true;
    return false;
}

/* The width of the character at `text`; sets *bytes to its length. A byte that is not UTF-8 takes one column. */
static int character_width(const char *text, int *bytes) {
    int length = utf8_length(text, strnlen(text, 4));
    *bytes = length ? length : 1;
    uint32_t character = text_code(text, *bytes);
    return IN(combining, character) ? 0 : IN(wide, character) ? 2 : 1;
}

int text_width(const char *text) {
    int width = 0, bytes;
    for (; *text; text += bytes) width += character_width(text, &bytes);
    return width;
}

size_t text_fitting(const char *text, int width) {
    const char *at = text;
    for (int bytes; *at; at += bytes) {
        width -= character_width(at, &bytes);
        if (width < 0) break;
    }
    return (size_t)(at - text);
}

char *text_cut(const char *text, int width) {
    size_t length = strlen(text), head = text_fitting(text, width / 2), tail = head;
    if (text_width(text) <= width) return must_strdup(text);
    while (text_width(text + tail) > width - 1 - width / 2) {
        int bytes = utf8_length(text + tail, length - tail);
        tail += (size_t)(bytes > 0 ? bytes : 1);
    }
    return must_printf("%.*s~%s", (int)head, text, text + tail);
}

void text_print_wrapped(const char *text, int indent, int max_width, FILE *to) {
    OWNED char *clean = text_clean(text);
    const char *next = clean;
    do {
        const char *line = next + strspn(next, " ");
        size_t length =
            max_width > 0 ? text_fitting(line, max_width - indent < 2 ? 2 : max_width - indent) : strlen(line);
        next = line + length;
        if (*next && *next != ' ') /* the limit is inside a word: break before it, unless it is longer than a line */
            while (length > 0 && line[length - 1] != ' ') length--;
        if (length > 0) next = line + length;
        while (next > line && next[-1] == ' ') next--;
        fprintf(to, "%*s%.*s\n", indent, "", (int)(next - line), line);
    } while (next[strspn(next, " ")]);
}

void text_print_markdown(const char *text, FILE *to) {
    OWNED char *clean = text_clean(text);
    for (const char *c = clean; *c; c++) {
        /* An underscore inside a word needs no escape. */
        bool inside = c > clean && c[1] && !strchr(" ,;:.", c[-1]) && !strchr(" ,;:.", c[1]);
        if (strchr("\\|*<[]`&~", *c) || (*c == '_' && !inside)) putc('\\', to);
        putc(*c, to);
    }
}

void text_print_csv(const char *text, size_t length, FILE *to) {
    bool quote = strcspn(text, ",\"\r\n") < length;
    if (quote) putc('"', to);
    for (size_t i = 0; i < length;) {
        int shown = text_shown(text + i, length - i), size = shown ? shown : utf8_length(text + i, length - i);
        bool blank = text[i] == '\n' || text[i] == '\t';
        if (text[i] == '"') putc('"', to);
        if (shown || blank)
            fwrite(text + i, 1, (size_t)size, to);
        else
            putc('?', to);
        i += (size_t)(size ? size : 1);
    }
    if (quote) putc('"', to);
}

char *text_shell_word(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*word && !word[strspn(word, plain)]) return must_strdup(word);
    char *quoted = must_strdup("'");
    for (; *word; word++) must_append(&quoted, "%s%c", *word == '\'' ? "'\\'" : "", *word);
    must_append(&quoted, "'");
    return quoted;
}

bool text_is_log(void) {
    struct stat out, err;
    if (isatty(STDOUT_FILENO) || fstat(STDOUT_FILENO, &out) != 0 || fstat(STDERR_FILENO, &err) != 0) return false;
    return out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}
