/* report_table.c - the table of all runs, and what report tables are made of. */
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of tables ---- */

void table_begin(FILE *to, const char *class, const char *label, const char *caption) {
    fputs("<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"", to);
    html_text(to, label);
    fprintf(to, "\"><table class=\"%s\">\n<caption>", class);
    html_text(to, caption);
    fputs("</caption>\n", to);
}

void table_end(FILE *to) {
    fputs("</table></div>\n", to);
}

void heading_write(FILE *to, const char *text, bool right) {
    fputs(right ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">", to);
    html_text(to, text);
    fputs("</th>", to);
}

void text_cell(FILE *to, const char *text) {
    fputs("<td>", to);
    html_text(to, text);
    fputs("</td>", to);
}

void number_cell(FILE *to, const char *text, double value) {
    if (isfinite(value))
        fprintf(to, "<td class=\"n\" data-v=\"%.9g\">", value);
    else
        fputs("<td class=\"n\">", to);
    html_text(to, text);
    fputs("</td>", to);
}

/* ---- the columns of runs ---- */

/* A cell as text and, of numbers, the value that it is sorted by. */
struct cell {
    char text[512];
    double value;
};

typedef void fill_cell(const struct report *report, int row, struct cell *cell);

static void set(struct cell *cell, const char *text) {
    snprintf(cell->text, sizeof cell->text, "%s", text);
}

static void fill_file(const struct report *report, int row, struct cell *cell) {
    char letter[8];
    if (report->file_count > 1) set(cell, file_letter(report->file[row], letter));
}

#define FILL_TEXT(name)                                                                                                \
    static void fill_##name(const struct report *report, int row, struct cell *cell) {                                 \
        set(cell, report->rows[row].name);                                                                             \
    }
FILL_TEXT(operation)
FILL_TEXT(variant)
FILL_TEXT(parameters)
FILL_TEXT(shape)
FILL_TEXT(dtype)
FILL_TEXT(device)
FILL_TEXT(verify)
FILL_TEXT(flags)
FILL_TEXT(status)
FILL_TEXT(message)

static void fill_median(const struct report *report, int row, struct cell *cell) {
    const struct result_row *it = &report->rows[row];
    char text[NUMBER_BYTES];
    cell->value = it->kernel_median_s;
    set(cell, seconds_text(it->kernel_median_s, text));
}

/* How many decimals give three digits. */
static int decimals(double number) {
    return fabs(number) >= 99.95 ? 0 : fabs(number) >= 9.995 ? 1 : 2;
}

/* Half of the interval's width, in per cent of the median. */
static void fill_precision(const struct report *report, int row, struct cell *cell) {
    const struct result_row *it = &report->rows[row];
    cell->value = (it->kernel_ci_high_s - it->kernel_ci_low_s) / 2 / it->kernel_median_s * 100;
    if (isfinite(cell->value)) snprintf(cell->text, sizeof cell->text, "±%.*f %%", decimals(cell->value), cell->value);
}

static void fill_rate(const struct report *report, int row, struct cell *cell) {
    char text[NUMBER_BYTES];
    cell->value = row_rate(&report->rows[row]);
    set(cell, rate_text(cell->value, row_in_flops(&report->rows[row]), text));
}

static bool same_task(const struct report *report, int one, int other) {
    const struct result_row *a = &report->rows[one], *b = &report->rows[other];
    return report->file[one] == report->file[other] && strcmp(a->operation, b->operation) == 0 &&
           strcmp(a->parameters, b->parameters) == 0;
}

/* The speed beside that of the first variant of the same task that was timed; a task's rows are adjacent. */
static void fill_ratio(const struct report *report, int row, struct cell *cell) {
    int first = row;
    if (!row_timed(&report->rows[row])) return;
    for (int before = row - 1; before >= 0 && same_task(report, before, row); before--)
        if (row_timed(&report->rows[before])) first = before;
    cell->value = report->rows[first].kernel_median_s / report->rows[row].kernel_median_s;
    if (isfinite(cell->value)) snprintf(cell->text, sizeof cell->text, "%.*f×", decimals(cell->value), cell->value);
}

static void fill_of_bound(const struct report *report, int row, struct cell *cell) {
    const struct result_row *it = &report->rows[row];
    cell->value = it->percent_of_bound;
    if (isfinite(cell->value))
        snprintf(cell->text, sizeof cell->text, "%.*f %% of %s", cell->value < 9.95, cell->value, it->bound_by);
}

static void fill_intensity(const struct report *report, int row, struct cell *cell) {
    const struct result_row *it = &report->rows[row];
    char text[NUMBER_BYTES];
    if (!(it->flops > 0) || !(it->bytes > 0)) return;
    cell->value = it->flops / it->bytes;
    set(cell, plain_text(cell->value, text));
}

static void fill_error(const struct report *report, int row, struct cell *cell) {
    cell->value = report->rows[row].error;
    if (!isnan(cell->value)) snprintf(cell->text, sizeof cell->text, cell->value == 0 ? "0" : "%.1e", cell->value);
}

static void fill_tolerance(const struct report *report, int row, struct cell *cell) {
    cell->value = report->rows[row].tolerance;
    if (!isnan(cell->value)) snprintf(cell->text, sizeof cell->text, cell->value == 0 ? "0" : "%.1e", cell->value);
}

static void fill_repeats(const struct report *report, int row, struct cell *cell) {
    int repeats = report->rows[row].repeats;
    if (repeats <= 0) return;
    cell->value = repeats;
    snprintf(cell->text, sizeof cell->text, "%d", repeats);
}

static void fill_total(const struct report *report, int row, struct cell *cell) {
    char text[NUMBER_BYTES];
    cell->value = report->rows[row].total_s;
    set(cell, seconds_text(cell->value, text));
}

static const struct column {
    const char *heading;
    fill_cell *fill;
    bool number;
} columns[] = {
    {"File", fill_file, false},
    {"Operation", fill_operation, false},
    {"Parameters", fill_parameters, false}, /* stands for a column each */
    {"Variant", fill_variant, false},
    {"Status", fill_status, false},
    {"Median", fill_median, true},
    {"95 %", fill_precision, true},
    {"Rate", fill_rate, true},
    {"Ratio", fill_ratio, true},
    {"Of limit", fill_of_bound, true},
    {"Error", fill_error, true},
    {"Tolerance", fill_tolerance, true},
    {"Verified", fill_verify, false},
    {"Samples", fill_repeats, true},
    {"Total", fill_total, true},
    {"Shape", fill_shape, false},
    {"Type", fill_dtype, false},
    {"Device", fill_device, false},
    {"FLOP/B", fill_intensity, true},
    {"Flags", fill_flags, false},
    {"Message", fill_message, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns, PARAMETERS = 2, STATUS = 4, MOST_SWEPT = 8 };

static struct cell cell_of(const struct report *report, int row, fill_cell *fill) {
    struct cell cell;
    cell.text[0] = '\0';
    cell.value = NAN;
    fill(report, row, &cell);
    return cell;
}

/* Is there a text in a column? */
static bool is_used(const struct report *report, fill_cell *fill) {
    for (int row = 0; row < report->count; row++)
        if (cell_of(report, row, fill).text[0]) return true;
    return false;
}

static void write_swept_cells(const struct report *report, int row, FILE *to) {
    for (int i = 0; i < report->swept.count; i++) {
        const struct swept_column *column = &report->swept.columns[i];
        if (column->kind == SWEPT_TEXT)
            text_cell(to, column->text[row]);
        else
            number_cell(to, column->text[row], column->number[row]);
    }
}

static void write_status(const char *status, FILE *to) {
    bool good = strcmp(status, "ok") == 0, bad = strcmp(status, "wrong") == 0 || strcmp(status, "failed") == 0;
    fputs(good ? "<td>" : bad ? "<td class=\"bad\">" : "<td class=\"dim\">", to);
    html_text(to, status);
    fputs("</td>", to);
}

static void write_row(const struct report *report, int row, const bool used[COLUMNS], bool apart, FILE *to) {
    fputs("<tr>", to);
    for (int i = 0; i < COLUMNS; i++) {
        if (!used[i]) continue;
        struct cell cell = cell_of(report, row, columns[i].fill);
        if (i == PARAMETERS && apart)
            write_swept_cells(report, row, to);
        else if (i == STATUS)
            write_status(cell.text, to);
        else if (columns[i].number)
            number_cell(to, cell.text, cell.value);
        else
            text_cell(to, cell.text);
    }
    fputs("</tr>\n", to);
}

void report_table(const struct report *report, FILE *to) {
    bool used[COLUMNS], apart = report->swept.count <= MOST_SWEPT; /* each parameter in a column of its own */
    if (report->count == 0) return;
    for (int i = 0; i < COLUMNS; i++) used[i] = is_used(report, columns[i].fill);
    table_begin(to, "sortable", "Table of runs",
                "Median: time of the kernel alone. 95 %: half the width of the interval of that median. Ratio: speed "
                "beside the first variant of the same operation. Total: from reading to writing.");
    fputs("<thead><tr>", to);
    for (int i = 0; i < COLUMNS; i++) {
        if (!used[i]) continue;
        if (i == PARAMETERS && apart)
            for (int k = 0; k < report->swept.count; k++)
                heading_write(to, report->swept.columns[k].name, report->swept.columns[k].kind != SWEPT_TEXT);
        else
            heading_write(to, columns[i].heading, columns[i].number);
    }
    fputs("</tr></thead>\n<tbody>\n", to);
    for (int row = 0; row < report->count; row++) write_row(report, row, used, apart, to);
    fputs("</tbody>\n", to);
    table_end(to);
}
