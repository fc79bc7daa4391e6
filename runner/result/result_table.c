/* result_table.c - the table that `run` ends with, for people: columns are aligned, each number has its unit. */
#include "result.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATION, PARAMETERS, VARIANT, SHAPE, MEDIAN, RATE, RATIO, ERROR, STATUS, COLUMNS, CELL = 176 };

typedef char table_line[COLUMNS][CELL];

static const struct heading {
    const char *text;
    bool right; /* aligned to the right, as numbers are */
} headings[COLUMNS] = {
    {"operation", false}, {"parameters", false}, {"variant", false}, {"shape", false},  {"median", true},
    {"rate", true},       {"ratio", true},       {"error", true},    {"status", false},
};

static void format_seconds(double seconds, char cell[CELL]) {
    if (seconds < 1e-3)
        snprintf(cell, CELL, "%.2f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(cell, CELL, "%.3f ms", seconds * 1e3);
    else
        snprintf(cell, CELL, "%.3f s", seconds);
}

static bool same_task(const struct result_row *a, const struct result_row *b) {
    return strcmp(a->operation, b->operation) == 0 && strcmp(a->parameters, b->parameters) == 0;
}

/* The row that ratios refer to: the first variant of the same task that made a result. A task's rows are adjacent;
 * `row` made one. */
static const struct result_row *baseline(const struct result_row *rows, const struct result_row *row) {
    const struct result_row *first = row;
    for (const struct result_row *before = row; before > rows && same_task(before - 1, row);)
        if (result_row_done(--before)) first = before;
    return first;
}

static void fill_line(const struct result_row *rows, const struct result_row *row, table_line line) {
    memset(line, 0, sizeof(table_line));
    snprintf(line[OPERATION], CELL, "%s", row->operation);
    snprintf(line[PARAMETERS], CELL, "%s", row->parameters);
    snprintf(line[VARIANT], CELL, "%s", row->variant);
    snprintf(line[SHAPE], CELL, "%s", row->shape);
    snprintf(line[STATUS], CELL, "%s", row->status);
    if (!isnan(row->error)) snprintf(line[ERROR], CELL, "%.1e", row->error);
    if (!result_row_done(row) || isnan(row->kernel_median_s)) return;
    format_seconds(row->kernel_median_s, line[MEDIAN]);
    const struct operation *operation = operation_find(row->op);
    if (operation && operation->rate == RATE_FLOPS)
        snprintf(line[RATE], CELL, "%.1f GFLOP/s", row->gflops);
    else
        snprintf(line[RATE], CELL, "%.1f GB/s", row->gbytes_per_s);
    double ratio = baseline(rows, row)->kernel_median_s / row->kernel_median_s;
    if (!isnan(ratio)) snprintf(line[RATIO], CELL, "%.2fx", ratio);
}

/* `message` follows the last column, the status. */
static void print_line(table_line line, const int width[COLUMNS], const char *message, FILE *to) {
    int gap = 0; /* spaces before the next text, so that no line ends in spaces */
    for (int i = 0; i < COLUMNS; i++) {
        if (width[i] == 0) continue;
        int length = (int)strlen(line[i]), room = width[i] - length;
        if (length) fprintf(to, "%*s%s", gap + (headings[i].right ? room : 0), "", line[i]);
        gap = (length ? 0 : gap + width[i]) + (length && !headings[i].right ? room : 0) + 2;
    }
    fprintf(to, "%s%s\n", message[0] ? ": " : "", message);
}

void result_print_table(const struct result_row *rows, int count, FILE *to) {
    table_line *lines = must_malloc((unsigned long)(count + 1) * sizeof *lines);
    int width[COLUMNS] = {0};
    for (int i = 0; i < COLUMNS; i++) snprintf(lines[0][i], CELL, "%s", headings[i].text);
    for (int r = 0; r < count; r++) {
        fill_line(rows, &rows[r], lines[r + 1]);
        for (int i = 0; i < COLUMNS; i++)
            if ((int)strlen(lines[r + 1][i]) > width[i]) width[i] = (int)strlen(lines[r + 1][i]);
    }
    for (int i = 0; i < COLUMNS; i++) /* a column without texts is left out */
        if (width[i] > 0 && width[i] < (int)strlen(headings[i].text)) width[i] = (int)strlen(headings[i].text);
    for (int r = 0; r <= count; r++) print_line(lines[r], width, r > 0 ? rows[r - 1].message : "", to);
    free(lines);
}
