/* tables.c - what tables are made of, and the table of all runs: cells as `tilerun show` has them, swept parameters,
 * verdicts where two files are given, samples in the order in which they were taken. */
#include "../base/fail.h"
#include "../base/sort.h"
#include "plot.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of tables ---- */

void html_table(FILE *to, const char *class, const char *label, const char *caption) {
    html(to,
         "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"%s\"><table class=\"%s\">\n"
         "<caption>%s</caption>\n<thead><tr>",
         label, class, caption);
}

void html_heading(FILE *to, const char *class, const char *heading) {
    html(to, "<th scope=\"col\"%s%s>%s</th>", *class ? " class=" : "", class, heading);
}

void html_body(FILE *to) {
    fputs("</tr></thead>\n<tbody>\n", to);
}

void html_cell(FILE *to, const char *class, const char *heading, const char *text, double value) {
    html(to, "<td%s%s data-h=\"%s\"", *class ? " class=" : "", class, heading);
    if (isfinite(value)) fprintf(to, " data-v=\"%.9g\"", value);
    html(to, ">%s</td>", text);
}

void html_table_end(FILE *to) {
    fputs("</tbody>\n</table></div>\n", to);
}

/* ---- samples in time ---- */

enum { BINS = 80, STRIP_HEIGHT = 28 };

/* One run's samples in their order, relative to their median: 0 is the median, 0.1 is 10 % slower. */
struct sampled {
    double *deviation;
    int count;
    double spread; /* from the 5th to the 95th of a hundred; NaN: there are not two */
};

static double quantile(const double *sorted, int count, double part) {
    return sorted[(int)(part * (count - 1) + 0.5)];
}

static enum status read_samples(const struct report *report, int row, struct sampled *sampled, struct error *error) {
    const struct result_row *it = &report->rows[row];
    struct samples samples;
    if (!row_timed(it)) return STATUS_OK;
    TRY(results_file_samples(report->files[report->file[row]], it, &samples, error));
    sampled->deviation = must_malloc((size_t)samples.count * sizeof *sampled->deviation + 1);
    for (int i = 0; i < samples.count; i++) {
        double deviation = samples.seconds[i] / it->kernel_median_s - 1;
        if (isfinite(deviation)) sampled->deviation[sampled->count++] = deviation;
    }
    samples_free(&samples);
    if (sampled->count < 2) return STATUS_OK;
    double *sorted = sorted_doubles(sampled->deviation, sampled->count);
    sampled->spread = quantile(sorted, sampled->count, 0.95) - quantile(sorted, sampled->count, 0.05);
    free(sorted);
    return STATUS_OK;
}

/* Where samples are many, neighbours share a bar. What lies beyond `reach` stands at the edge, in another colour. */
static void draw_samples(const struct sampled *it, double reach, FILE *to) {
    int bins = it->count < BINS ? it->count : BINS;
    struct plot plot = {.title = "samples in their order",
                        .x = {.low = -0.5, .high = bins - 0.5},
                        .y = {.low = -reach, .high = reach},
                        .series = {{.colour = 0}, {.colour = 1}},
                        .series_count = 2};
    for (int bin = 0, i = 0; bin < bins; bin++) {
        struct plot_point point = {.x = bin, .low = INFINITY, .high = -INFINITY};
        for (; i < (int)((int64_t)it->count * (bin + 1) / bins); i++) {
            point.low = fmin(point.low, it->deviation[i]);
            point.high = fmax(point.high, it->deviation[i]);
        }
        struct plot_series *series = &plot.series[point.low < -reach || point.high > reach];
        point.low = fmax(fmin(point.low, reach), -reach);
        point.high = fmax(fmin(point.high, reach), -reach);
        plot_add(series, point);
    }
    plot_add_line(&plot, -0.5, 0, bins - 0.5, 0, NULL);
    plot_strip(&plot, STRIP_HEIGHT, to);
    plot_clear(&plot);
}

/* ---- columns ---- */

struct runs {
    const struct report *report;
    const struct run_pair **pair; /* by row of the second of two files: with its partner; else NULL */
    struct sampled *sampled;      /* by row */
    double reach;                 /* of the drawings, relative to the median */
};

/* Fills in a cell and returns its number. */
typedef double fill_run(const struct runs *runs, int row, char text[VIEW_CELL]);

static fill_run fill_file, fill_spread, fill_drawing, fill_change, fill_verdict;

struct run_column {
    const char *heading, *name; /* of `tilerun show` */
    const char *class;          /* "n": numbers, at the right; "drawn": drawings, which do not sort */
    fill_run *fill;             /* NULL: by the name */
    const struct swept_column *swept;
};
/* Flags stand where a screen of 1280 pixels shows them. */
static const struct run_column run_columns[] = {
    {"File", "", "", fill_file, NULL},
    {"Operation", "operation", "", NULL, NULL},
    {"Parameters", "parameters", "", NULL, NULL}, /* stands for a column each */
    {"Variant", "variant", "", NULL, NULL},
    {"Status", "status", "", NULL, NULL},
    {"Flags", "flags", "", NULL, NULL},
    {"B to A", "", "n", fill_change, NULL},
    {"Verdict", "", "", fill_verdict, NULL},
    {"Median", "median", "n", NULL, NULL},
    {"95 %", "ci", "n", NULL, NULL},
    {"Rate", "rate", "n", NULL, NULL},
    {"Ratio", "ratio", "n", NULL, NULL},
    {"Of roof", "roof", "n", NULL, NULL},
    {"Samples in time", "", "drawn", fill_drawing, NULL},
    {"Spread", "", "n", fill_spread, NULL},
    {"Samples", "repeats", "n", NULL, NULL},
    {"Error", "error", "n", NULL, NULL},
    {"Tolerance", "tolerance", "n", NULL, NULL},
    {"Verified", "verify", "", NULL, NULL},
    {"Total", "total", "n", NULL, NULL},
    {"Read", "read_s", "n", NULL, NULL},
    {"To device", "h2d_s", "n", NULL, NULL},
    {"From device", "d2h_s", "n", NULL, NULL},
    {"Write", "write_s", "n", NULL, NULL},
    {"Bound by", "bound_by", "", NULL, NULL},
    {"Shape", "shape", "", NULL, NULL},
    {"Type", "dtype", "", NULL, NULL},
    {"Device", "device", "", NULL, NULL},
    {"Registers", "registers", "n", NULL, NULL},
    {"Spilled bytes", "spill_bytes", "n", NULL, NULL},
    {"Shared bytes", "shared_bytes", "n", NULL, NULL},
    {"Occupancy", "occupancy", "n", NULL, NULL},
    {"Message", "message", "", NULL, NULL},
};
enum { RUN_COLUMNS = sizeof run_columns / sizeof *run_columns, MOST_SWEPT = 8 };

static double fill_file(const struct runs *runs, int row, char text[VIEW_CELL]) {
    char letter[8];
    if (runs->report->file_count > 1) snprintf(text, VIEW_CELL, "%s", file_letter(runs->report->file[row], letter));
    return NAN;
}

static double fill_spread(const struct runs *runs, int row, char text[VIEW_CELL]) {
    double spread = 100 * runs->sampled[row].spread;
    if (!isnan(spread)) snprintf(text, VIEW_CELL, "%.*f%%", spread < 9.95, spread);
    return spread;
}

static double fill_drawing(const struct runs *runs, int row, char text[VIEW_CELL]) {
    if (runs->sampled[row].count > 1) snprintf(text, VIEW_CELL, "drawn");
    return NAN;
}

static double fill_change(const struct runs *runs, int row, char text[VIEW_CELL]) {
    const struct run_pair *pair = runs->pair[row];
    if (!pair || isnan(pair->ratio.value)) return NAN;
    int length = snprintf(text, VIEW_CELL, "%.3f", pair->ratio.value);
    if (pair->ratio.low > 0 && isfinite(pair->ratio.high))
        snprintf(text + length, VIEW_CELL - (size_t)length,
                 pair->ratio.high < 10 ? " (%.3f to %.3f)" : " (%.3f to >10)", pair->ratio.low, pair->ratio.high);
    return pair->ratio.value;
}

static double fill_verdict(const struct runs *runs, int row, char text[VIEW_CELL]) {
    const struct run_pair *pair = runs->pair[row];
    if (pair && pair->worse)
        snprintf(text, VIEW_CELL, "WORSE: %.300s", pair->note);
    else if (pair)
        snprintf(text, VIEW_CELL, "%s", ratio_verdict_names[pair->ratio.verdict]);
    return NAN;
}

/* ---- the table of runs ---- */

static double fill(const struct runs *runs, const struct run_column *column, int row, char text[VIEW_CELL]) {
    text[0] = '\0';
    if (column->swept) {
        snprintf(text, VIEW_CELL, "%s", column->swept->text[row]);
        return column->swept->number[row];
    }
    return column->fill ? column->fill(runs, row, text) : run_cell(runs->report, row, column->name, text);
}

static void add_column(const struct runs *runs, struct run_column column, struct run_column *columns, int *count) {
    char text[VIEW_CELL] = "";
    for (int row = 0; row < runs->report->count && !*text; row++) fill(runs, &column, row, text);
    if (*text) columns[(*count)++] = column;
}

/* Those that have a text in some row; swept parameters have columns of their own. The caller frees. */
static struct run_column *columns_of_runs(const struct runs *runs, int *count) {
    const struct swept *swept = &runs->report->swept;
    struct run_column *columns = must_malloc((size_t)(RUN_COLUMNS + swept->count) * sizeof *columns);
    *count = 0;
    for (int c = 0; c < RUN_COLUMNS; c++) {
        bool apart = strcmp(run_columns[c].name, "parameters") == 0 && swept->count <= MOST_SWEPT;
        for (int i = 0; apart && i < swept->count; i++) {
            const struct swept_column *of = &swept->columns[i];
            add_column(runs, (struct run_column){of->name, "", of->kind == SWEPT_TEXT ? "" : "n", NULL, of}, columns,
                       count);
        }
        if (!apart) add_column(runs, run_columns[c], columns, count);
    }
    return columns;
}

static void write_run(const struct runs *runs, const struct run_column *columns, int count, int row, FILE *to) {
    static const char *const bad[] = {"wrong", "failed", "SLOWER", "WORSE"};
    char text[VIEW_CELL];
    fputs("<tr>", to);
    for (int c = 0; c < count; c++) {
        const char *class = columns[c].class;
        double number = fill(runs, &columns[c], row, text);
        for (int i = 0; i < 4 && !*class; i++)
            if (strncmp(text, bad[i], strlen(bad[i])) == 0) class = "bad";
        if (columns[c].fill != fill_drawing || !*text) {
            html_cell(to, class, columns[c].heading, text, number);
        } else {
            fprintf(to, "<td class=drawn data-h=\"%s\">", columns[c].heading);
            draw_samples(&runs->sampled[row], runs->reach, to);
            fputs("</td>", to);
        }
    }
    fputs("</tr>\n", to);
}

static void write_runs(const struct runs *runs, FILE *to) {
    int count;
    struct run_column *columns = columns_of_runs(runs, &count);
    char *caption = must_printf(
        "Median: time of the kernel alone. 95 %%: half the width of its interval. Ratio: speed-up over the first "
        "variant "
        "of the operation. Of roof: share of the rate that the measured limits allow. Samples in time: in the order in "
        "which they were taken, the median in the middle, %.1f%% more at the top; what lies beyond has another colour. "
        "Spread: from the 5th to the 95th of a hundred samples. Total: from reading to writing, in which each stage "
        "was "
        "busy for the times beside it.",
        100 * runs->reach);
    html_table(to, "sortable", "Table of runs", caption);
    for (int c = 0; c < count; c++) html_heading(to, columns[c].class, columns[c].heading);
    html_body(to);
    for (int row = 0; row < runs->report->count; row++) write_run(runs, columns, count, row, to);
    html_table_end(to);
    free(caption);
    free(columns);
}

/* The drawings reach as far as nine samples of ten of three runs of four, at most to twice the median. */
static double find_reach(const struct runs *runs) {
    double *spread = must_malloc((size_t)runs->report->count * sizeof *spread + 1);
    int count = 0;
    for (int row = 0; row < runs->report->count; row++)
        if (!isnan(runs->sampled[row].spread)) spread[count++] = runs->sampled[row].spread;
    sort_doubles(spread, count);
    double reach = count ? fmin(fmax(1.2 * quantile(spread, count, 0.75), 0.005), 1) : 1;
    free(spread);
    return reach;
}

enum status report_runs(const struct report *report, FILE *to, struct error *error) {
    size_t count = (size_t)report->count;
    struct runs runs = {.report = report, .pair = must_malloc(count * sizeof *runs.pair + 1)};
    enum status status = STATUS_OK;
    runs.sampled = must_malloc(count * sizeof *runs.sampled + 1);
    for (int row = 0; row < report->count; row++) {
        runs.pair[row] = NULL;
        runs.sampled[row] = (struct sampled){.spread = NAN};
        if (!status) status = read_samples(report, row, &runs.sampled[row], error);
    }
    for (int i = 0; i < report->comparison.count; i++) {
        const struct run_pair *pair = &report->comparison.pairs[i];
        runs.pair[report->first[1] + (pair->new - report->comparison.new->rows)] = pair;
    }
    runs.reach = find_reach(&runs);
    if (!status && report->count > 0) write_runs(&runs, to);
    for (int row = 0; row < report->count; row++) free(runs.sampled[row].deviation);
    free(runs.sampled);
    free(runs.pair);
    return status;
}
