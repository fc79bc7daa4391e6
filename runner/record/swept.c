/* swept.c - the swept parameters of some rows, as columns of their own. */
#include "swept.h"
#include "../base/fail.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct swept_column *column_of(struct swept *swept, const char *name, int length, int rows) {
    for (int i = 0; i < swept->count; i++) {
        const char *known = swept->columns[i].name;
        if (strncmp(known, name, (size_t)length) == 0 && !known[length]) return &swept->columns[i];
    }
    swept->columns = must_realloc(swept->columns, (size_t)(swept->count + 1) * sizeof *swept->columns);
    struct swept_column *column = &swept->columns[swept->count++];
    *column = (struct swept_column){.kind = SWEPT_INTEGER};
    snprintf(column->name, sizeof column->name, "%.*s", length, name);
    column->text = must_malloc((size_t)rows * sizeof *column->text);
    column->number = must_malloc((size_t)rows * sizeof *column->number);
    for (int i = 0; i < rows; i++) {
        column->text[i][0] = '\0';
        column->number[i] = NAN;
    }
    return column;
}

/* What a value is: digits with a sign that 64 bits can hold, another decimal number, or a text. Hexadecimal, inf and
 * nan are texts. */
static enum swept_kind kind_of(const char *text, double *number) {
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

/* A label is NAME=VALUE,NAME=VALUE; values have no commas (job_parameters.h). */
static void take_label(struct swept *swept, const char *label, int row, int rows) {
    for (const char *at = label; *at;) {
        int whole = (int)strcspn(at, ","), name = (int)strcspn(at, "=");
        if (name >= whole || name >= JOB_NAME_BYTES) return;
        struct swept_column *column = column_of(swept, at, name, rows);
        snprintf(column->text[row], sizeof column->text[row], "%.*s", whole - name - 1, at + name + 1);
        enum swept_kind kind = kind_of(column->text[row], &column->number[row]);
        if (kind > column->kind) column->kind = kind;
        at += whole + (at[whole] == ',');
    }
}

struct swept swept_of(const struct result_row *rows, int count) {
    struct swept swept = {0};
    for (int i = 0; i < count; i++) take_label(&swept, rows[i].parameters, i, count);
    for (int i = 0; i < swept.count; i++)
        for (int r = 0; r < count && swept.columns[i].kind == SWEPT_TEXT; r++) swept.columns[i].number[r] = NAN;
    return swept;
}

void swept_free(struct swept *swept) {
    for (int i = 0; i < swept->count; i++) {
        free(swept->columns[i].text);
        free(swept->columns[i].number);
    }
    free(swept->columns);
    *swept = (struct swept){0};
}
