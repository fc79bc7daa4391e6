/* json.c - strings of JSON (RFC 8259, section 7). */
#include "json.h"

#include "text.h"

/* The number of a character of up to three bytes, which all that are not shown have. */
static unsigned code_of(const char *text, int size) {
    const unsigned char *c = (const unsigned char *)text;
    if (size == 1) return c[0];
    return size == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                     : (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

void json_write_string(FILE *to, const char *text, size_t length) {
    fputc('"', to);
    for (size_t i = 0; i < length;) {
        int size = utf8_length(text + i, length - i);
        if (size == 0)
            fputs("\xef\xbf\xbd", to);
        else if (text[i] == '"' || text[i] == '\\')
            fprintf(to, "\\%c", text[i]);
        else if (text_shown(text + i, length - i) == 0)
            fprintf(to, "\\u%04x", code_of(text + i, size));
        else
            fwrite(text + i, 1, (size_t)size, to);
        i += size ? (size_t)size : 1;
    }
    fputc('"', to);
}
