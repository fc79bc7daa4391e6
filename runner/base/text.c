/* text.c - edit distance, sizes and durations with units, UTF-8, display widths and line breaks. */
#include "text.h"

#include "fail.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define MAX_WORD  64 /* longer words have no nearest name */

int text_name_length(const char *text) {
    int length = 0;
    while (text[length] == '_' || (length ? isalnum((unsigned char)text[length]) : isalpha((unsigned char)*text)))
        length++;
    return length;
}

bool text_is_name(const char *text) {
    return *text && !text[text_name_length(text)];
}

bool text_is_one_of(const char *text, const char *const words[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) return true;
    return false;
}

int text_compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

void texts_free(char **texts, int count) {
    for (int i = 0; texts && i < count; i++) free(texts[i]);
    free(texts);
}

void texts_add(struct texts *texts, char *text) {
    *APPEND(texts->items, texts->count) = text;
}

void texts_clear(struct texts *texts) {
    texts_free(texts->items, texts->count);
    *texts = (struct texts){0};
}

char *text_read(int descriptor, size_t max, size_t *length) {
    size_t capacity = 1 << 16, count = 0;
    char *text = must_malloc(capacity);
    if (length) *length = 0;
    for (ssize_t more; count <= max && (more = read(descriptor, text + count, capacity - count - 1)) != 0;) {
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return free(text), NULL;
        count += (size_t)more;
        if (capacity - count < 2) text = must_realloc(text, capacity *= 2);
    }
    text[count] = '\0';
    if (length) *length = count;
    return text;
}

ssize_t bytes_read_at(int descriptor, void *data, size_t bytes, off_t at) {
    size_t done = 0;
    for (ssize_t got = 1; done < bytes && got != 0; done += got > 0 ? (size_t)got : 0) {
        got = pread(descriptor, (char *)data + done, bytes - done, at + (off_t)done);
        if (got < 0 && errno != EINTR) return -1;
    }
    return (ssize_t)done;
}

int bytes_write_at(int descriptor, const void *data, size_t bytes, off_t at) {
    for (size_t done = 0; done < bytes;) {
        errno = 0;
        ssize_t written = pwrite(descriptor, (const char *)data + done, bytes - done, at + (off_t)done);
        if (written <= 0 && errno != EINTR) return errno ? errno : EIO;
        if (written > 0) done += (size_t)written;
    }
    return 0;
}

/* The number of edits (insert, delete, replace, swap neighbours) that turn one word into the other, ignoring case. */
static int edit_distance(const char *a, const char *b) {
    int rows[3][MAX_WORD + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    int length = (int)strlen(b);
    for (int j = 0; j <= length; j++) above[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = min(above[j - 1] + (x != y), min(above[j], row[j - 1]) + 1);
            bool swapped =
                i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]);
            if (swapped) row[j] = min(row[j], before[j - 2] + 1);
        }
        int *oldest = before;
        before = above, above = row, row = oldest;
    }
    return above[length];
}

const char *nearest_name(const char *word, const char *const names[], int count) {
    size_t length = strlen(word);
    if (length == 0 || length > MAX_WORD) return NULL;
    const char *nearest = NULL;
    int limit = length < 4 ? 2 : (int)length / 3 + 2; /* short words: two edits would change too much */
    for (int i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > MAX_WORD) continue;
        int distance = edit_distance(word, names[i]);
        bool all_replaced = distance >= (int)(length > other ? length : other);
        if (distance < limit && !all_replaced) limit = distance, nearest = names[i];
    }
    for (int i = 0; i < count && !nearest && length >= 3; i++)
        if (strncmp(word, names[i], length) == 0) nearest = names[i];
    return nearest;
}

const char *name_hint(const char *word, const char *const names[], int count, const char *otherwise,
                      char text[HINT_TEXT]) {
    const char *nearest = nearest_name(word, names, count);
    if (!nearest) return otherwise;
    snprintf(text, HINT_TEXT, " (did you mean '%s'?)", nearest);
    return text;
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
    while (seconds < units[u].min * 0.9995 && units[u].min > 0) u++;
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
    const unsigned char *c = (const unsigned char *)text;
    int bytes = utf8_length(text, length);
    if (bytes == 1) return c[0] < 0x20 || c[0] == 0x7f ? 0 : 1;
    if (bytes == 2) return (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c) ? 0 : 2;
    if (bytes != 3 || c[0] != 0xe2) return bytes;
    bool bidirectional = (c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
                         (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
    return bidirectional ? 0 : 3;
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
