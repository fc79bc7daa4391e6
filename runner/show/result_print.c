/* result_print.c - prints rows as CSV and JSON. */
#include "../base/fail.h"
#include "../base/json.h"
#include "../base/text.h"
#include "../record/columns.h"
#include "result_view.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Prints a number with the fewest digits that read back as the same number. */
static void print_real(double value, FILE *to) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) != value)) break;
    }
    fputs(text, to);
}

static void print_csv_text(const char *text, size_t length, FILE *to) {
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

static void print_csv_cell(const struct cell *cell, FILE *to) {
    if (cell->absent) return;
    switch (cell->kind) {
    case COLUMN_TEXT: print_csv_text(cell->text, cell->length, to); break;
    case COLUMN_INT32:
    case COLUMN_INT64: fprintf(to, "%" PRId64, cell->integer); break;
    case COLUMN_REAL:
        if (!isnan(cell->real)) print_real(cell->real, to);
        break;
    }
}

void result_print_csv(const struct result_row *rows, int count, FILE *to) {
    struct columns columns = columns_of(rows, count);
    for (int i = 0; i < columns.count; i++) fprintf(to, "%s%s", i ? "," : "", columns.of[i].name);
    putc('\n', to);
    for (int r = 0; r < count; r++) {
        for (int i = 0; i < columns.count; i++) {
            struct cell cell = column_cell(&columns.of[i], &rows[r], r);
            if (i) putc(',', to);
            print_csv_cell(&cell, to);
        }
        putc('\n', to);
    }
    columns_free(&columns);
}

static void print_json_cell(const struct cell *cell, FILE *to) {
    bool null = cell->absent || (cell->kind == COLUMN_REAL && !isfinite(cell->real)); /* JSON has no NaN, no infinity */
    if (null) {
        fputs("null", to);
        return;
    }
    switch (cell->kind) {
    case COLUMN_TEXT: json_write_string(to, cell->text, cell->length); break;
    case COLUMN_INT32:
    case COLUMN_INT64: fprintf(to, "%" PRId64, cell->integer); break;
    case COLUMN_REAL: print_real(cell->real, to); break;
    }
}

void result_print_json(const struct result_row *rows, int count, FILE *to) {
    struct columns columns = columns_of(rows, count);
    putc('[', to);
    for (int r = 0; r < count; r++) {
        fprintf(to, "%s\n  {", r ? "," : "");
        for (int i = 0; i < columns.count; i++) {
            struct cell cell = column_cell(&columns.of[i], &rows[r], r);
            fprintf(to, "%s\"%s\": ", i ? ", " : "", columns.of[i].name);
            print_json_cell(&cell, to);
        }
        putc('}', to);
    }
    fputs(count ? "\n]\n" : "]\n", to);
    columns_free(&columns);
}
