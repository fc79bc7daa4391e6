/* runs.c - what the sections of the report know of a run: its name, cells and samples; and lists of such facts. */
#include "../base/fail.h"
#include "../base/sort.h"
#include "report_parts.h"

#include <math.h>
#include <string.h>

/* ---- names ---- */

const char *file_letter(int number, char text[8]) {
    int at = 7;
    for (text[at] = '\0'; number >= 0 && at > 0; number = number / 26 - 1) text[--at] = (char)('A' + number % 26);
    return memmove(text, text + at, (size_t)(8 - at));
}

char *report_run_name(const struct report_run *run) {
    const char *letter = run->file->letter;
    return must_printf("%s%s%s%s%s %s", letter, *letter ? " " : "", run->row->operation,
                       run->row->parameters[0] ? " " : "", run->row->parameters, run->row->variant);
}

/* ---- cells ---- */

double run_cell(const struct report_run *run, const char *column, char text[VIEW_CELL]) {
    const struct results_view *view = run->file->view;
    int row = (int)(run->row - run->file->results->rows);
    struct view_column found;
    struct error error;
    text[0] = '\0';
    if (view_column_find(view, column, &found, &error)) return NAN;
    if (view_column_is_text(&found)) {
        view_column_text(view, &found, row, text);
        return NAN;
    }
    view_column_cell(view, &found, row, text);
    return view_column_number(view, &found, row);
}

bool row_timed(const struct result_row *row) {
    return result_row_done(row) && isfinite(row->kernel_median_s) && row->kernel_median_s > 0;
}

/* ---- samples ---- */

double report_quantile(const double *sorted, int count, double part) {
    return sorted[(int)(part * (count - 1) + 0.5)];
}

enum status report_read_samples(struct report_run *run, struct error *error) {
    FREED_BY(samples_free) struct samples samples = {0};
    if (!row_timed(run->row)) return STATUS_OK;
    TRY(results_file_samples(run->file->results, run->row, &samples, error));
    run->deviation = must_malloc((size_t)samples.count * sizeof *run->deviation + 1);
    for (int i = 0; i < samples.count; i++) {
        double deviation = samples.seconds[i] / run->row->kernel_median_s - 1;
        if (isfinite(deviation)) run->deviation[run->samples++] = deviation;
    }
    if (run->samples < 2) return STATUS_OK;
    OWNED double *sorted = sorted_doubles(run->deviation, run->samples);
    run->spread = report_quantile(sorted, run->samples, 0.95) - report_quantile(sorted, run->samples, 0.05);
    return STATUS_OK;
}

/* ---- lists ---- */

int report_find_or_add(const char *text, const char **known, int *count) {
    int number = 0;
    while (number < *count && strcmp(known[number], text) != 0) number++;
    if (number == *count) known[(*count)++] = text;
    return number;
}

int report_largest(const double *values, int count) {
    int largest = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[largest]) largest = i;
    return largest;
}
