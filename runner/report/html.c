/* html.c - writes HTML: escaped and shortened texts, and parts of tables. */
#include "../base/fail.h"
#include "../base/text.h"
#include "report_parts.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Does HTML allow a character of `size` bytes of UTF-8? It forbids noncharacters (U+FDD0 to U+FDEF and the last two
 * code points of each plane), and C0 and C1 control characters except tab and newline. */
static bool is_allowed(const char *c, int size) {
    unsigned code = text_code(c, size);
    bool control = (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7f && code < 0xa0);
    return !control && !(code >= 0xfdd0 && code <= 0xfdef) && (code & 0xfffe) != 0xfffe;
}

/* Writes a text, escaped as html does it. */
static void html_text(FILE *to, const char *text) {
    static const char *const escapes[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    for (size_t remaining = strlen(text); remaining > 0;) {
        int size = utf8_length(text, remaining);
        if (size == 0 || !is_allowed(text, size))
            fputs("\xef\xbf\xbd", to);
        else if (size == 1 && escapes[(unsigned char)*text])
            fputs(escapes[(unsigned char)*text], to);
        else
            fwrite(text, 1, (size_t)size, to);
        if (size == 0) size = 1;
        text += size;
        remaining -= (size_t)size;
    }
}

/* Prints the conversions of the format one by one, because each text is escaped. */
void html(FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    while (*format) {
        size_t literal = strcspn(format, "%");
        char one[16];
        fwrite(format, 1, literal, to);
        format += literal;
        if (!*format) break;
        int length = (int)strcspn(format, "sdfg") + 1; /* the conversion's, after '%' */
        snprintf(one, sizeof one, "%.*s", length, format);
        format += length;
        switch (one[length - 1]) { // NOLINTBEGIN(clang-analyzer-valist.Uninitialized)
        case 's': html_text(to, va_arg(arguments, const char *)); break;
        case 'd': fprintf(to, one, va_arg(arguments, int)); break;
        default: fprintf(to, one, va_arg(arguments, double)); // NOLINTEND(clang-analyzer-valist.Uninitialized)
        }
    }
    va_end(arguments);
}

/* The bytes of the first `max_characters` characters of a text; a byte that is not UTF-8 counts as one. */
static size_t bytes_of(const char *text, int max_characters) {
    size_t length = strlen(text), kept = 0;
    for (int i = 0; i < max_characters && kept < length; i++) {
        int size = utf8_length(text + kept, length - kept);
        kept += size ? (size_t)size : 1;
    }
    return kept;
}

int characters_of(const char *text) {
    int characters = 0;
    for (; *text; characters++) text += bytes_of(text, 1);
    return characters;
}

const char *shortened(const char *from, int max_characters, char *text) {
    int characters = characters_of(from);
    if (characters <= max_characters) {
        memcpy(text, from, strlen(from) + 1);
        return text;
    }
    size_t head = bytes_of(from, (max_characters - 1) / 2), tail = bytes_of(from, characters - max_characters / 2);
    snprintf(text, 4 * (size_t)max_characters + 4, "%.*s…%s", (int)head, from, from + tail);
    return text;
}

/* ---- parts of tables ---- */

void html_table(FILE *to, const char *class, const char *label, const char *caption) {
    html(to,
         "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"%s\"><table class=\"%s\">\n"
         "<caption>%s</caption>\n<thead><tr>",
         label, class, caption);
}

void html_heading(FILE *to, const char *class, const char *heading) {
    html(to, "<th scope=\"col\"%s%s>%s</th>", *class ? " class=" : "", class, heading);
}

void html_body(FILE *to) {
    fputs("</tr></thead>\n<tbody>\n", to);
}

void html_cell(FILE *to, const char *class, const char *heading, const char *text, double value) {
    html(to, "<td%s%s data-h=\"%s\"", *class ? " class=" : "", class, heading);
    if (isfinite(value)) fprintf(to, " data-v=\"%.9g\"", value);
    html(to, ">%s</td>", text);
}

void html_table_end(FILE *to) {
    fputs("</tbody>\n</table></div>\n", to);
}
