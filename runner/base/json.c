/* json.c - writes JSON strings (RFC 8259, section 7) and members. */
#include "json.h"

#include "text.h"
#include <math.h>
#include <string.h>

void json_write_string(FILE *to, const char *text, size_t length) {
    fputc('"', to);
    for (size_t i = 0; i < length;) {
        int size = utf8_length(text + i, length - i);
        if (size == 0)
            fputs("\xef\xbf\xbd", to);
        else if (text[i] == '"' || text[i] == '\\')
            fprintf(to, "\\%c", text[i]);
        else if (text_shown(text + i, length - i) == 0)
            fprintf(to, "\\u%04x", text_code(text + i, size));
        else
            fwrite(text + i, 1, (size_t)size, to);
        i += size ? (size_t)size : 1;
    }
    fputc('"', to);
}

void json_write_text(FILE *to, const char *before, const char *key, const char *text) {
    fprintf(to, "%s\"%s\": ", before, key);
    json_write_string(to, text, strlen(text));
}

void json_write_number(FILE *to, const char *key, double value, int digits) {
    if (isfinite(value))
        fprintf(to, ", \"%s\": %.*g", key, digits, value);
    else
        fprintf(to, ", \"%s\": null", key);
}
