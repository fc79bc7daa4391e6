/* result_view_columns.c - finds the columns of a view by name, and computes their numbers and cells. */
#include "result_view_columns.h"

#include "../base/fail.h"
#include "../base/spelling.h"
#include "../base/text.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the meaning of flags ---- */

static const struct flag_advice advices[] = {
    /* the flags of samples_flags (samples.h), and those of row.h */
    {"throttled", 't', "the GPU lowered its clock for heat or power; rates may be higher when it is cool"},
    {"outliers", 'o', "many samples lie far from the others; measure again when nothing else uses the machine"},
    {"drift", 'd', "times rose or fell steadily during the repeats; measure again, with a longer warmup"},
    {"unsteady", 'u', "times were not steady when the warmup ended; use a longer warmup"},
    {"below_resolution", 'r', "times are as short as the clock's resolution; use larger inputs"},
    {FLAG_BUSY, 'b', "other programs used the CPUs or their cores; measure again when nothing else uses the machine"},
    {"noisy", 'n', "the median is known to no better than a quarter; use more repeats, or `until: 5%`"},
    {"bimodal", 'm', "the times form two groups; look at the samples in the report"},
    {FLAG_COLD, 'c', "one launch without warmup: its time includes the loading of code; no ratio is shown"},
};

const struct flag_advice *flag_advice(const char *flag, size_t length) {
    static const struct flag_advice unknown = {"", '?', "a flag of another version of tilerun"};
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (strlen(advices[i].flag) == length && strncmp(advices[i].flag, flag, length) == 0) return &advices[i];
    return &unknown;
}

/* ---- formatting numbers ---- */

void view_seconds_text(double seconds, char text[VIEW_CELL]) {
    if (isnan(seconds)) return;
    if (seconds < 999.995e-6) /* 999.995 us would round to 1000 us */
        snprintf(text, VIEW_CELL, "%.2f us", seconds * 1e6);
    else if (seconds < 999.9995e-3)
        snprintf(text, VIEW_CELL, "%.3f ms", seconds * 1e3);
    else
        snprintf(text, VIEW_CELL, seconds < 1e6 ? "%.3f s" : "%.4g s", seconds);
}

/* Writes a share with its sign, "+-3.1%"; nothing if it is unknown. */
static void write_percent(const char *sign, double percent, char text[VIEW_CELL]) {
    if (isnan(percent)) return;
    if (percent < 9.95)
        snprintf(text, VIEW_CELL, "%s%.1f%%", sign, percent);
    else
        snprintf(text, VIEW_CELL, percent < 9999.5 ? "%s%.0f%%" : "%s%.1e%%", sign, percent);
}

/* ---- computed columns ---- */

/* The median of a run that has a result, or that lost its search; NaN: it has no time. */
static double median(const struct results_view *view, int row) {
    const struct result_row *result = &view->rows[row];
    return result_row_done(result) || result_row_lost(result) ? result->kernel_median_s : NAN;
}

/* Half the width of the confidence interval, in percent of the median. */
static double interval(const struct results_view *view, int row) {
    const struct result_row *result = &view->rows[row];
    return 50 * (result->kernel_ci_high_s - result->kernel_ci_low_s) / median(view, row);
}

/* Writes half the width of the interval, "±3.1%"; if one side is more than twice as long as the other, both sides,
 * "-5.0/+31%". An upper side of ten medians or more is ">10x". */
static void interval_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    const struct result_row *result = &view->rows[row];
    double middle = median(view, row), down = 100 * (1 - result->kernel_ci_low_s / middle);
    double up = 100 * (result->kernel_ci_high_s / middle - 1), half = interval(view, row);
    char above[VIEW_CELL] = ">10x";
    if (half < 1 || (up <= 2 * down && down <= 2 * up)) {
        write_percent(text_utf8() ? "±" : "+-", half, text);
        return;
    }
    if (isnan(half)) return;
    if (up < 1000) write_percent("+", up, above);
    snprintf(text, VIEW_CELL, down < 9.95 ? "-%.1f/%s" : "-%.0f/%s", down, above);
}

bool view_counts_flops(const struct result_row *row) {
    const struct operation *operation = operation_find(row->op);
    return operation && operation->rate == RATE_FLOPS;
}

/* GFLOP/s, or GB/s of an operation whose rate is not counted in FLOP/s. */
static double rate(const struct results_view *view, int row) {
    const struct result_row *result = &view->rows[row];
    return result_row_done(result) ? view_counts_flops(result) ? result->gflops : result->gbytes_per_s : NAN;
}

const char *view_rate_text(double per_second, bool flops, char text[VIEW_CELL]) {
    bool tera = flops && per_second >= 999.95e9;
    double number = per_second / (tera ? 1e12 : 1e9);
    int digits = number >= 9.995 ? 1 : number >= 0.9995 ? 2 : 3;
    const char *unit = tera ? "TFLOP/s" : flops ? "GFLOP/s" : "GB/s";
    if (number < 1e7 && (number >= 1e-3 || number == 0))
        snprintf(text, VIEW_CELL, "%.*f %s", digits, number, unit);
    else
        snprintf(text, VIEW_CELL, "%.3g %s", number, unit);
    return text;
}

static void rate_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    double giga = rate(view, row);
    if (!isnan(giga)) view_rate_text(1e9 * giga, view_counts_flops(&view->rows[row]), text);
}

static double roof(const struct results_view *view, int row) {
    return view->rows[row].percent_of_bound;
}

static void roof_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    write_percent("", roof(view, row), text);
}

/* The speed-up over the baseline; NaN: one of the times is unknown or that of a first launch. */
static double ratio_number(const struct results_view *view, int row) {
    const struct result_row *base = view->base[row];
    if (!base || !result_row_done(base) || result_row_is_cold(base) || result_row_is_cold(&view->rows[row])) return NAN;
    return base->kernel_median_s / median(view, row);
}

/* Writes the ratio; `-` means that the run has a time but its baseline has none. */
static void ratio_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    double times = ratio_number(view, row);
    if (isnan(median(view, row)) || (!view->base[row] && !view->baseline_chosen)) return;
    if (result_row_is_cold(&view->rows[row])) return;
    if (isnan(times))
        snprintf(text, VIEW_CELL, "-");
    else
        snprintf(text, VIEW_CELL, times < 1e6 ? "%.*fx" : "%.*gx", times >= 999.5 ? 0 : times >= 0.0995 ? 2 : 4, times);
}

static double total(const struct results_view *view, int row) {
    return view->rows[row].total_s;
}

static void error_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    if (!isnan(view->rows[row].error)) snprintf(text, VIEW_CELL, "%.1e", view->rows[row].error);
}

/* Writes the letter of each flag: "t", "to". */
static void flags_cell(const struct results_view *view, int row, char text[VIEW_CELL]) {
    size_t length = 0;
    for (const char *flag = view->rows[row].flags; *flag; flag += strcspn(flag, ","), flag += *flag == ',')
        if (length < VIEW_CELL - 1) text[length++] = flag_advice(flag, strcspn(flag, ","))->letter;
    text[length] = '\0';
}

static const struct measure measures[] = {
    {"median", false, NULL, median, true},
    {"ci", true, interval_cell, interval, false},
    {"rate", false, rate_cell, rate, false},
    {"roof", false, roof_cell, roof, false},
    {"ratio", false, ratio_cell, ratio_number, false},
    {"total", false, NULL, total, true},
    {"error", false, error_cell, NULL, false},
    {"flags", false, flags_cell, NULL, false},
};
enum { MEASURES = sizeof measures / sizeof *measures };

/* ---- by name ---- */

static const struct column *find_in(const struct columns *columns, const char *name) {
    for (int i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i].name, name) == 0) return &columns->items[i];
    return NULL;
}

static const struct column *find_without_prefix(const struct columns *columns, const char *name) {
    for (int i = 0; i < columns->count; i++)
        if (columns->items[i].swept && strcmp(columns->items[i].swept->name, name) == 0) return &columns->items[i];
    return NULL;
}

/* The column of this name; NULL: there is none. A name without its prefix is a parameter of the job before it is one of
 * a variant. */
static const struct column *find_in_runs(const struct results_view *view, const char *name) {
    const struct column *found = find_in(&view->tags, name);
    if (!found) found = find_in(&view->columns, name);
    if (!found) found = find_in(&view->variants, name);
    if (!found) found = find_without_prefix(&view->columns, name);
    return found ? found : find_without_prefix(&view->variants, name);
}

/* Adds a name that the list does not have yet. */
static void add_name(const char **names, int *count, const char *name) {
    for (int i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) return;
    names[(*count)++] = name;
}

enum status view_column_find(const struct results_view *view, const char *written, struct view_column *found,
                             struct error *error) {
    OWNED char *name = must_strdup(written + strspn(written, " "));
    for (size_t end = strlen(name); end > 0 && name[end - 1] == ' ';) name[--end] = '\0';
    *found = (struct view_column){.column = find_in_runs(view, name)};
    for (int i = 0; i < MEASURES; i++)
        if (strcmp(measures[i].name, name) == 0) found->measure = &measures[i];
    if (found->measure || found->column) return STATUS_OK;

    const struct columns *all[] = {&view->columns, &view->variants, &view->tags};
    int max_names = MEASURES + 2 * (view->columns.count + view->variants.count) + view->tags.count, count = 0;
    OWNED const char **names = must_malloc((size_t)max_names * sizeof *names);
    for (int i = 0; i < MEASURES; i++) add_name(names, &count, measures[i].name);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < all[a]->count; i++) {
            add_name(names, &count, all[a]->items[i].name);
            if (all[a]->items[i].swept && all[a] != &view->tags) add_name(names, &count, all[a]->items[i].swept->name);
        }
    const char *near = nearest_name(name, names, count);
    if (near) return fail(error, STATUS_USAGE, "no column '%s' (did you mean '%s'?)", name, near);
    OWNED char *list = must_strdup(names[0]);
    for (int i = 1; i < count; i++) must_append(&list, ", %s", names[i]);
    return fail(error, STATUS_USAGE, "no column '%s'; the columns are %s", name, list);
}

const char *view_column_name(const struct view_column *column) {
    return column->measure ? column->measure->name : column->column->name;
}

bool view_column_is_text(const struct view_column *column) {
    if (column->measure && column->measure->number) return false;
    return column->column->kind == COLUMN_TEXT;
}

bool view_column_is_time(const struct view_column *column) {
    if (column->measure) return column->measure->seconds;
    const char *name = column->column->name;
    size_t length = strlen(name);
    return !column->column->swept && length > 2 && strcmp(name + length - 2, "_s") == 0 && !strstr(name, "_per_s");
}

double view_column_number(const struct results_view *view, const struct view_column *column, int row) {
    if (column->measure && column->measure->number) return column->measure->number(view, row);
    struct column_value cell = column_cell(column->column, &view->rows[row], row);
    return cell.kind == COLUMN_REAL ? cell.real : (double)cell.integer;
}

bool view_column_integer(const struct results_view *view, const struct view_column *column, int row, int64_t *integer) {
    if (column->measure && column->measure->number) return false;
    struct column_value cell = column_cell(column->column, &view->rows[row], row);
    *integer = cell.integer;
    return !cell.absent && (cell.kind == COLUMN_INT32 || cell.kind == COLUMN_INT64);
}

void view_column_text(const struct results_view *view, const struct view_column *column, int row,
                      char text[VIEW_CELL]) {
    text[0] = '\0';
    if (!view_column_is_text(column)) return;
    struct column_value cell = column_cell(column->column, &view->rows[row], row);
    if (!cell.absent) snprintf(text, VIEW_CELL, "%.*s", (int)cell.length, cell.text);
}

void view_column_cell(const struct results_view *view, const struct view_column *column, int row,
                      char text[VIEW_CELL]) {
    text[0] = '\0';
    if (column->measure && column->measure->cell) {
        column->measure->cell(view, row, text);
    } else if (view_column_is_time(column)) {
        view_seconds_text(view_column_number(view, column, row), text);
    } else if (view_column_is_text(column)) {
        view_column_text(view, column, row, text);
    } else {
        struct column_value cell = column_cell(column->column, &view->rows[row], row);
        if (cell.absent || (cell.kind == COLUMN_REAL && isnan(cell.real))) return;
        if (cell.kind == COLUMN_REAL)
            snprintf(text, VIEW_CELL, "%.6g", cell.real);
        else
            snprintf(text, VIEW_CELL, "%" PRId64, cell.integer);
    }
}

bool view_variant_is(const char *label, const char *name) {
    size_t length = strlen(name);
    return strncmp(label, name, length) == 0 && (label[length] == '\0' || label[length] == ',');
}
