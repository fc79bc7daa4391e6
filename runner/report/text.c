/* text.c - a report's texts, escaped and shortened, and what its rows are called. */
#include "../base/text.h"
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* May a character stand in HTML? Neither C0 and C1 control characters but tab and newline, nor noncharacters may. */
static bool is_allowed(const unsigned char *c, int size) {
    if (size == 1) return c[0] >= 0x20 ? c[0] != 0x7f : c[0] == '\t' || c[0] == '\n';
    if (size == 2) return c[0] != 0xc2 || c[1] >= 0xa0;
    bool ends_a_plane = c[size - 2] == 0xbf && c[size - 1] >= 0xbe && (c[size - 3] & 0x0f) == 0x0f;
    bool last_of_three = size == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe;
    bool in_the_middle = size == 3 && c[0] == 0xef && c[1] == 0xb7 && c[2] >= 0x90 && c[2] <= 0xaf;
    return !last_of_three && !in_the_middle && !(size == 4 && ends_a_plane);
}

static void html_text(FILE *to, const char *text) {
    static const char *const escapes[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    for (size_t left = strlen(text); left > 0;) {
        int size = utf8_length(text, left);
        if (size == 0 || !is_allowed((const unsigned char *)text, size))
            fputs("\xef\xbf\xbd", to);
        else if (size == 1 && escapes[(unsigned char)*text])
            fputs(escapes[(unsigned char)*text], to);
        else
            fwrite(text, 1, (size_t)size, to);
        if (size == 0) size = 1;
        text += size;
        left -= (size_t)size;
    }
}

void html(FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    while (*format) {
        size_t literal = strcspn(format, "%");
        char one[16];
        fwrite(format, 1, literal, to);
        format += literal;
        if (!*format) break;
        int length = (int)strcspn(format, "sdfg") + 1; /* of a conversion */
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

/* The bytes of the first `most` characters of a text. */
static size_t bytes_of(const char *text, int most) {
    size_t length = strlen(text), kept = 0;
    for (int i = 0; i < most && kept < length; i++) {
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

const char *shortened(const char *from, int most, char *text) {
    int characters = characters_of(from);
    if (characters <= most) {
        memcpy(text, from, strlen(from) + 1);
        return text;
    }
    size_t head = bytes_of(from, (most - 1) / 2), tail = bytes_of(from, characters - most / 2);
    snprintf(text, 4 * (size_t)most + 4, "%.*s…%s", (int)head, from, from + tail);
    return text;
}

/* ---- numbers and names ---- */

const char *rate_text(double per_second, bool flops, char text[VIEW_CELL]) {
    bool tera = flops && per_second >= 999.95e9;
    double number = per_second / (tera ? 1e12 : 1e9);
    int digits = number >= 9.995 ? 1 : number >= 0.9995 ? 2 : 3;
    const char *unit = tera ? "TFLOP/s" : flops ? "GFLOP/s" : "GB/s";
    if (number < 1e7 && number >= 1e-3)
        snprintf(text, VIEW_CELL, "%.*f %s", digits, number, unit);
    else
        snprintf(text, VIEW_CELL, "%.3g %s", number, unit);
    return text;
}

const char *file_letter(int number, char text[8]) {
    int at = 7;
    text[at] = '\0';
    for (int rest = number; rest >= 0 && at > 0; rest = rest / 26 - 1) text[--at] = (char)('A' + rest % 26);
    memmove(text, text + at, (size_t)(8 - at));
    return text;
}

char *run_name(const struct report *report, int row) {
    const struct result_row *it = &report->rows[row];
    const char *letter = report->letter[report->file[row]];
    return must_printf("%s%s%s%s%s %s", letter, *letter ? " " : "", it->operation, it->parameters[0] ? " " : "",
                       it->parameters, it->variant);
}

double run_cell(const struct report *report, int row, const char *column, char text[VIEW_CELL]) {
    const struct view *view = report->views[report->file[row]];
    int own = row - report->first[report->file[row]];
    struct view_column found;
    struct error error;
    text[0] = '\0';
    for (int i = 0; i < REPORT_EXTRAS; i++) {
        if (strcmp(report_extras[i], column) != 0) continue;
        if (isfinite(report->extra[i][row])) snprintf(text, VIEW_CELL, "%.6g", report->extra[i][row]);
        return report->extra[i][row];
    }
    if (view_column_find(view, column, &found, &error)) return NAN;
    if (view_column_is_text(&found)) return view_column_text(view, &found, own, text), NAN;
    view_column_cell(view, &found, own, text);
    return view_column_number(view, &found, own);
}

/* ---- rows ---- */

bool row_timed(const struct result_row *row) {
    return result_row_done(row) && isfinite(row->kernel_median_s) && row->kernel_median_s > 0;
}

bool row_in_flops(const struct result_row *row) {
    const struct operation *operation = operation_find(row->op);
    return operation && operation->rate == RATE_FLOPS;
}

int number_of(const char *text, const char **known, int *count) {
    int number = 0;
    while (number < *count && strcmp(known[number], text) != 0) number++;
    if (number == *count) known[(*count)++] = text;
    return number;
}

int largest(const double *values, int count) {
    int place = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[place]) place = i;
    return place;
}
