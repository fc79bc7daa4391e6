/* report_text.c - a report's texts, escaped, and its numbers, with their units. */
#include "../base/fail.h"
#include "../base/text.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

/* May a character stand in HTML? Neither C0 and C1 control characters but tab and newline, nor noncharacters may. */
static bool is_allowed(const unsigned char *c, int size) {
    if (size == 1) return c[0] >= 0x20 ? c[0] != 0x7f : c[0] == '\t' || c[0] == '\n';
    if (size == 2) return c[0] != 0xc2 || c[1] >= 0xa0;
    bool ends_a_plane = c[size - 2] == 0xbf && c[size - 1] >= 0xbe && (c[size - 3] & 0x0f) == 0x0f;
    bool last_of_three = size == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe;
    bool in_the_middle = size == 3 && c[0] == 0xef && c[1] == 0xb7 && c[2] >= 0x90 && c[2] <= 0xaf;
    return !last_of_three && !in_the_middle && !(size == 4 && ends_a_plane);
}

void html_text(FILE *to, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        int size = utf8_length(text, left);
        if (size == 0 || !is_allowed((const unsigned char *)text, size))
            fputs("\xef\xbf\xbd", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else if (*text == '\'')
            fputs("&#39;", to);
        else
            fwrite(text, 1, (size_t)size, to);
        if (size == 0) size = 1;
        text += size;
        left -= (size_t)size;
    }
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

const char *shortened(const char *from, int most, char *text) {
    int characters = 0;
    for (const char *rest = from; *rest; characters++) rest += bytes_of(rest, 1);
    if (characters <= most) {
        memcpy(text, from, strlen(from) + 1);
        return text;
    }
    size_t head = bytes_of(from, (most - 1) / 2), tail = bytes_of(from, characters - most / 2);
    snprintf(text, 4 * (size_t)most + 4, "%.*s…%s", (int)head, from, from + tail);
    return text;
}

/* ---- numbers ---- */

static const char *scaled(double number, const char *const units[], const double sizes[], int count,
                          char text[NUMBER_BYTES]) {
    char digits[NUMBER_BYTES / 2];
    int unit = count - 1;
    text[0] = '\0';
    if (!isfinite(number)) return text;
    while (unit > 0 && fabs(number) < 0.9995 * sizes[unit]) unit--;
    double in_unit = number / sizes[unit], size = fabs(in_unit);
    if (number != 0 && (size < 0.005 || size >= 1e6))
        snprintf(digits, sizeof digits, "%.2g", in_unit);
    else
        snprintf(digits, sizeof digits, "%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, in_unit);
    snprintf(text, NUMBER_BYTES, "%s %s", number == 0 ? "0" : digits, units[unit]);
    return text;
}

const char *seconds_text(double seconds, char text[NUMBER_BYTES]) {
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    static const double sizes[] = {1e-9, 1e-6, 1e-3, 1};
    return scaled(seconds, units, sizes, 4, text);
}

const char *rate_text(double per_second, bool flops, char text[NUMBER_BYTES]) {
    static const char *const flop_units[] = {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    static const char *const byte_units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    static const double sizes[] = {1, 1e3, 1e6, 1e9, 1e12, 1e15};
    return scaled(per_second, flops ? flop_units : byte_units, sizes, 6, text);
}

const char *plain_text(double number, char text[NUMBER_BYTES]) {
    text[0] = '\0';
    if (!isfinite(number)) return text;
    if (number == rint(number) && fabs(number) < 1e6)
        snprintf(text, NUMBER_BYTES, "%.0f", number);
    else
        snprintf(text, NUMBER_BYTES, "%.3g", number);
    return text;
}

/* ---- names ---- */

const char *file_letter(int number, char text[8]) {
    int at = 7;
    text[at] = '\0';
    for (int rest = number; rest >= 0 && at > 0; rest = rest / 26 - 1) text[--at] = (char)('A' + rest % 26);
    memmove(text, text + at, (size_t)(8 - at));
    return text;
}

char *run_name(const struct report *report, int row) {
    const struct result_row *it = &report->rows[row];
    char letter[8];
    bool several = report->file_count > 1;
    return must_printf("%s%s%s%s%s %s", several ? file_letter(report->file[row], letter) : "", several ? " " : "",
                       it->operation, it->parameters[0] ? " " : "", it->parameters, it->variant);
}

/* ---- what a row says ---- */

bool row_timed(const struct result_row *row) {
    return result_row_done(row) && isfinite(row->kernel_median_s) && row->kernel_median_s > 0;
}

bool row_in_flops(const struct result_row *row) {
    const struct operation *operation = operation_find(row->op);
    return operation && operation->rate == RATE_FLOPS;
}

double row_rate(const struct result_row *row) {
    double work = row_in_flops(row) ? row->flops : row->bytes;
    double rate = row_timed(row) && isfinite(work) && work > 0 ? work / row->kernel_median_s : NAN;
    return rate > 1e-30 && rate < 1e30 ? rate : NAN; /* what a damaged file may say is not drawn */
}

bool row_rate_interval(const struct result_row *row, double *low, double *high) {
    double rate = row_rate(row), fast = row->kernel_ci_low_s, slow = row->kernel_ci_high_s;
    *low = rate * row->kernel_median_s / slow;
    *high = rate * row->kernel_median_s / fast;
    return isfinite(*low) && isfinite(*high) && *low > 0 && *low <= rate && *high >= rate;
}

/* ---- order ---- */

struct ordered {
    double value;
    int place;
};

static int compare(const void *left, const void *right) {
    const struct ordered *a = left, *b = right;
    if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? 1 : -1;
    if (a->value < b->value) return -1;
    if (a->value > b->value) return 1;
    return a->place - b->place;
}

void order_by(const double *value, int count, bool largest_first, int *order) {
    struct ordered *all = must_malloc((size_t)count * sizeof *all + 1);
    for (int i = 0; i < count; i++) all[i] = (struct ordered){largest_first ? -value[i] : value[i], i};
    qsort(all, (size_t)count, sizeof *all, compare);
    for (int i = 0; i < count; i++) order[i] = all[i].place;
    free(all);
}
