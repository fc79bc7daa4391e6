/* swept.c - splits labels of swept parameters into columns and determines the columns' types. */
#include "swept.h"
#include "../base/fail.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Finds the column of a parameter, or adds one without a value in any row. */
static struct swept_column *find_column(struct swept *swept, const char *name, int length, int rows) {
    for (int i = 0; i < swept->count; i++) {
        const char *known = swept->columns[i].name;
        if (strncmp(known, name, (size_t)length) == 0 && !known[length]) return &swept->columns[i];
    }
    struct swept_column *column = APPEND(swept->columns, swept->count); /* its kind is SWEPT_INTEGER, the narrowest */
    snprintf(column->name, sizeof column->name, "%.*s", length, name);
    column->text = must_malloc((size_t)rows * sizeof *column->text);
    column->number = must_malloc((size_t)rows * sizeof *column->number);
    for (int i = 0; i < rows; i++) {
        column->text[i][0] = '\0';
        column->number[i] = NAN;
    }
    return column;
}

/* The kind of a value: an integer that fits into 64 bits, another decimal number, or a text. Hexadecimal, inf and nan
 * are texts. Sets *number; NaN for a text. */
static enum swept_kind value_kind(const char *text, double *number) {
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    *number = NAN;
    if (!*digits || digits[strspn(digits, "0123456789.eE+-")]) return SWEPT_TEXT;
    double value = strtod(text, &end);
    if (*end || !isfinite(value)) return SWEPT_TEXT;
    *number = value;
    errno = 0;
    strtoll(text, NULL, 10);
    return digits[strspn(digits, "0123456789")] || errno ? SWEPT_REAL : SWEPT_INTEGER;
}

/* Is the text an integer that float64 cannot represent exactly? */
static bool is_rounded(const char *text, double number) {
    char again[320];
    text += *text == '-' || *text == '+';
    if (isnan(number) || text[strspn(text, "0123456789")]) return false;
    while (*text == '0' && text[1]) text++;
    snprintf(again, sizeof again, "%.0f", fabs(number));
    return strcmp(text, again) != 0;
}

/* Would a column of numbers lose an integer? It needs float64 if it has fractions or rows without the parameter (NaN),
 * and float64 may round integers. Such a column keeps its texts. */
static bool loses_integers(const struct swept_column *column, int rows) {
    bool real = column->kind == SWEPT_REAL, rounds = false;
    for (int r = 0; r < rows; r++) {
        real = real || !column->text[r][0];
        rounds = rounds || is_rounded(column->text[r], column->number[r]);
    }
    return real && rounds;
}

/* Adds a row's label, NAME=VALUE,NAME=VALUE, to the columns. Values contain no commas (job_parameters.h). */
static void add_label(struct swept *swept, const char *label, int row, int rows) {
    for (const char *at = label; *at;) {
        int length = (int)strcspn(at, ","), name_length = (int)strcspn(at, "=");
        if (name_length >= length || name_length >= JOB_NAME_BYTES) return;
        struct swept_column *column = find_column(swept, at, name_length, rows);
        snprintf(column->text[row], sizeof column->text[row], "%.*s", length - name_length - 1, at + name_length + 1);
        enum swept_kind kind = value_kind(column->text[row], &column->number[row]);
        if (kind > column->kind) column->kind = kind;
        at += length + (at[length] == ',');
    }
}

/* Splits the labels of parameters, or with `of_variants` those of variants, into columns. */
static struct swept split_labels(const struct result_row *rows, int count, bool of_variants) {
    struct swept swept = {0};
    for (int i = 0; i < count; i++) {
        const char *variant = rows[i].variant + strcspn(rows[i].variant, ",");
        add_label(&swept, of_variants ? variant + (*variant == ',') : rows[i].parameters, i, count);
    }
    for (int i = 0; i < swept.count; i++) {
        struct swept_column *column = &swept.columns[i];
        if (loses_integers(column, count)) column->kind = SWEPT_TEXT;
        for (int r = 0; r < count && column->kind == SWEPT_TEXT; r++) column->number[r] = NAN;
    }
    return swept;
}

struct swept swept_of(const struct result_row *rows, int count) {
    return split_labels(rows, count, false);
}

struct swept swept_of_variants(const struct result_row *rows, int count) {
    return split_labels(rows, count, true);
}

void swept_add(struct swept *swept, const char *name, const char *text, int rows) {
    struct swept_column *column = find_column(swept, name, (int)strlen(name), rows);
    for (int i = 0; i < rows; i++) {
        snprintf(column->text[i], sizeof column->text[i], "%s", text);
        column->kind = value_kind(column->text[i], &column->number[i]);
    }
}

void swept_free(struct swept *swept) {
    for (int i = 0; i < swept->count; i++) {
        free(swept->columns[i].text);
        free(swept->columns[i].number);
    }
    free(swept->columns);
    *swept = (struct swept){0};
}
