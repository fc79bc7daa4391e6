/* columns.c - lists the fixed columns, adds those of swept parameters, and reads the value of a row in a column. */
#include "columns.h"

#include "../base/fail.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct column fixed_columns[] = {
#define COLUMN(name, kind)                                                                                             \
    { #name, kind, sizeof((struct result_row *)0)->name, offsetof(struct result_row, name), NULL }
    COLUMN(run, COLUMN_INT32),
    COLUMN(operation, COLUMN_TEXT),
    COLUMN(op, COLUMN_TEXT),
    COLUMN(variant, COLUMN_TEXT),
    COLUMN(parameters, COLUMN_TEXT),
    COLUMN(device, COLUMN_TEXT),
    COLUMN(dtype, COLUMN_TEXT),
    COLUMN(shape, COLUMN_TEXT),
    COLUMN(status, COLUMN_TEXT),
    COLUMN(repeats, COLUMN_INT32),
    COLUMN(kernel_median_s, COLUMN_REAL),
    COLUMN(kernel_min_s, COLUMN_REAL),
    COLUMN(kernel_max_s, COLUMN_REAL),
    COLUMN(kernel_mad_s, COLUMN_REAL),
    COLUMN(kernel_ci_low_s, COLUMN_REAL),
    COLUMN(kernel_ci_high_s, COLUMN_REAL),
    COLUMN(read_s, COLUMN_REAL),
    COLUMN(h2d_s, COLUMN_REAL),
    COLUMN(d2h_s, COLUMN_REAL),
    COLUMN(write_s, COLUMN_REAL),
    COLUMN(total_s, COLUMN_REAL),
    COLUMN(file_bytes, COLUMN_REAL),
    COLUMN(overflowed, COLUMN_REAL),
    COLUMN(wrapped, COLUMN_REAL),
    COLUMN(truncated, COLUMN_REAL),
    COLUMN(flops, COLUMN_REAL),
    COLUMN(bytes, COLUMN_REAL),
    COLUMN(gflops, COLUMN_REAL),
    COLUMN(gbytes_per_s, COLUMN_REAL),
    COLUMN(bound_s, COLUMN_REAL),
    COLUMN(bound_by, COLUMN_TEXT),
    COLUMN(percent_of_bound, COLUMN_REAL),
    COLUMN(error, COLUMN_REAL),
    COLUMN(tolerance, COLUMN_REAL),
    COLUMN(verify, COLUMN_TEXT),
    COLUMN(flags, COLUMN_TEXT),
    COLUMN(busy_samples, COLUMN_INT32),
    COLUMN(device_name, COLUMN_TEXT),
    COLUMN(threads, COLUMN_INT32),
    COLUMN(sm_clock_mhz, COLUMN_REAL),
    COLUMN(probe_s, COLUMN_REAL),
    COLUMN(registers, COLUMN_REAL),
    COLUMN(spill_bytes, COLUMN_REAL),
    COLUMN(shared_bytes, COLUMN_REAL),
    COLUMN(occupancy, COLUMN_REAL),
    COLUMN(tries, COLUMN_INT32),
    COLUMN(timeout_s, COLUMN_REAL),
    COLUMN(message, COLUMN_TEXT),
#undef COLUMN
};
const int fixed_column_count = sizeof fixed_columns / sizeof *fixed_columns;

/* Makes the column of a swept parameter, with the prefix before its name. If a row does not depend on the parameter, a
 * column of integers holds reals, because only these have a value for "absent", NaN. */
static struct column swept_as_column(const struct swept_column *swept, const char *prefix, int rows) {
    struct column column = {.kind = COLUMN_TEXT, .size = 1, .swept = swept};
    snprintf(column.name, sizeof column.name, "%s%s", prefix, swept->name);
    bool everywhere = true;
    for (int i = 0; i < rows; i++) {
        size_t length = strlen(swept->text[i]);
        if (length + 1 > column.size) column.size = length + 1;
        everywhere = everywhere && length > 0;
    }
    if (swept->kind == SWEPT_TEXT) return column;
    column.kind = swept->kind == SWEPT_INTEGER && everywhere ? COLUMN_INT64 : COLUMN_REAL;
    column.size = sizeof(double);
    return column;
}

struct columns columns_of(const struct result_row *rows, int count) {
    struct columns columns = {.swept = swept_of(rows, count)};
    columns.items = must_malloc((size_t)(fixed_column_count + columns.swept.count) * sizeof *columns.items);
    for (int i = 0; i < fixed_column_count; i++) {
        columns.items[columns.count++] = fixed_columns[i];
        if (fixed_columns[i].offset != offsetof(struct result_row, parameters)) continue;
        for (int j = 0; j < columns.swept.count; j++)
            columns.items[columns.count++] = swept_as_column(&columns.swept.columns[j], "p_", count);
    }
    return columns;
}

/* Makes a column for each swept parameter, with the prefix before its name; the columns own `swept`. */
static struct columns columns_of_swept(struct swept swept, const char *prefix, int rows) {
    struct columns columns = {.count = swept.count, .swept = swept};
    columns.items = must_malloc((size_t)(swept.count + 1) * sizeof *columns.items);
    for (int i = 0; i < swept.count; i++) columns.items[i] = swept_as_column(&swept.columns[i], prefix, rows);
    return columns;
}

/* A tag has the same text in all rows; the code for swept parameters serves tags too. */
struct columns columns_of_tags(const struct tag *tags, int count, int rows) {
    struct swept swept = {0};
    for (int i = 0; i < count; i++) swept_add(&swept, tags[i].name, tags[i].text, rows);
    return columns_of_swept(swept, "tag.", rows);
}

struct columns columns_of_variants(const struct result_row *rows, int count) {
    return columns_of_swept(swept_of_variants(rows, count), "v_", count);
}

void columns_free(struct columns *columns) {
    swept_free(&columns->swept);
    free(columns->items);
    *columns = (struct columns){0};
}

/* The length of a text in a field of `size` bytes, without a truncated last UTF-8 character. */
static size_t whole_length(const char *text, size_t size) {
    size_t length = strnlen(text, size - 1), last = length;
    while (last > 0 && ((unsigned char)text[last - 1] & 0xC0) == 0x80) last--;
    if (last == 0) return length;
    unsigned char lead = (unsigned char)text[last - 1];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return length - last + 1 < wanted ? last - 1 : length;
}

/* The value of row number `number` in the column of a swept parameter. */
static struct column_value swept_cell(const struct column *column, int number) {
    const struct swept_column *swept = column->swept;
    struct column_value cell = {.kind = column->kind, .text = swept->text[number], .real = swept->number[number]};
    cell.absent = !cell.text[0];
    cell.length = whole_length(cell.text, column->size);
    /* Integers print as integers even in a column that holds reals because some rows lack the parameter. */
    if (swept->kind == SWEPT_INTEGER && !cell.absent) {
        cell.kind = COLUMN_INT64;
        cell.integer = strtoll(cell.text, NULL, 10);
    }
    return cell;
}

struct column_value column_cell(const struct column *column, const struct result_row *row, int number) {
    if (column->swept) return swept_cell(column, number);
    const void *at = (const char *)row + column->offset;
    struct column_value cell = {.kind = column->kind, .real = NAN};
    switch (column->kind) {
    case COLUMN_TEXT:
        cell.text = at;
        cell.length = whole_length(at, column->size);
        break;
    case COLUMN_INT32: cell.integer = *(const int32_t *)at; break;
    case COLUMN_INT64: cell.integer = *(const int64_t *)at; break;
    case COLUMN_REAL: cell.real = *(const double *)at; break;
    }
    return cell;
}
