/* tables.c - writes the table of all runs: cells as `tilerun show` has them, swept parameters, verdicts if there are
 * two files, samples in the order in which they were taken. */
#include "../base/fail.h"
#include "../base/sort.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples in time ---- */

enum { BINS = 80, STRIP_WIDTH = 240, STRIP_HEIGHT = 28 }; /* bars of a drawing; its size in pixels */

/* Draws the samples of a run in time. If there are more than BINS, neighbours share a bar. Samples beyond `reach` are
 * drawn at the edge, in another colour. */
static void draw_samples(const struct report_run *run, double reach, FILE *to) {
    int bins = run->samples < BINS ? run->samples : BINS;
    char *bars[2];
    FILE *within_reach = must_stream(&bars[0]), *beyond = must_stream(&bars[1]);
    for (int bin = 0, i = 0; bin < bins; bin++) {
        double low = INFINITY, high = -INFINITY;
        for (; i < (int)((int64_t)run->samples * (bin + 1) / bins); i++) {
            low = fmin(low, run->deviation[i]);
            high = fmax(high, run->deviation[i]);
        }
        double bottom = fmax(fmin(low, reach), -reach) / reach, top = fmax(fmin(high, reach), -reach) / reach;
        fprintf(low < -reach || high > reach ? beyond : within_reach, "M%.1f %.1fV%.1f",
                STRIP_WIDTH * (bin + 0.5) / bins, STRIP_HEIGHT * (1 - bottom) / 2 + 1,
                STRIP_HEIGHT * (1 - top) / 2 - 1);
    }
    fclose(within_reach);
    fclose(beyond);
    fprintf(to,
            "<svg class=\"strip\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">"
            "<title>samples in their order</title><rect class=\"band\" width=\"%d\" height=\"%d\"/>",
            STRIP_WIDTH, STRIP_HEIGHT, STRIP_WIDTH, STRIP_HEIGHT, STRIP_WIDTH, STRIP_HEIGHT);
    for (int k = 0; k < 2; k++) {
        if (*bars[k]) fprintf(to, "<path class=\"s k%d\" d=\"%s\"/>", k, bars[k]);
        free(bars[k]);
    }
    fprintf(to, "<path class=\"middle\" d=\"M0.0 %.1fL%d.0 %.1f\"/></svg>", STRIP_HEIGHT / 2.0, STRIP_WIDTH,
            STRIP_HEIGHT / 2.0);
}

/* ---- columns ---- */

/* Writes a cell's text and returns the number by which the cell sorts; NaN: it sorts by its text. */
typedef double fill_run(const struct report_run *run, char text[VIEW_CELL]);

static fill_run fill_file, fill_spread, fill_drawing, fill_change, fill_verdict, fill_reason;

struct run_column {
    const char *heading, *name; /* `name`: the column of `tilerun show`, or "" */
    const char *class;          /* "n": numbers, at the right; "drawn": drawings, which do not sort */
    fill_run *fill;             /* makes the cell; NULL: the column `name` of `tilerun show` has it */
    const struct swept_column *swept;
};
/* Flags come early, so that a screen 1280 pixels wide shows them. */
static const struct run_column run_columns[] = {
    {"File", "", "", fill_file, NULL},
    {"Operation", "operation", "", NULL, NULL},
    {"Parameters", "parameters", "", NULL, NULL}, /* becomes a column for each parameter */
    {"Variant", "variant", "", NULL, NULL},
    {"Status", "status", "", NULL, NULL},
    {"Flags", "flags", "", NULL, NULL},
    {"B to A", "", "n", fill_change, NULL},
    {"Verdict", "", "", fill_verdict, NULL},
    {"Reason", "", "", fill_reason, NULL},
    {"Median", "median", "n", NULL, NULL},
    {"95 %", "ci", "n", NULL, NULL},
    {"Rate", "rate", "n", NULL, NULL},
    {"Ratio", "ratio", "n", NULL, NULL},
    {"Of roof", "roof", "n", NULL, NULL},
    {"Samples in time", "", "drawn", fill_drawing, NULL},
    {"Spread", "", "n", fill_spread, NULL},
    {"Samples", "repeats", "n", NULL, NULL},
    {"Busy samples", "busy_samples", "n", NULL, NULL},
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
enum { RUN_COLUMNS = sizeof run_columns / sizeof *run_columns, MAX_SWEPT = 8 };

static double fill_file(const struct report_run *run, char text[VIEW_CELL]) {
    snprintf(text, VIEW_CELL, "%s", run->file->letter);
    return NAN;
}

static double fill_spread(const struct report_run *run, char text[VIEW_CELL]) {
    double spread = 100 * run->spread;
    if (!isnan(spread)) snprintf(text, VIEW_CELL, "%.*f%%", spread < 9.95, spread);
    return spread;
}

static double fill_drawing(const struct report_run *run, char text[VIEW_CELL]) {
    if (run->samples > 1) snprintf(text, VIEW_CELL, "drawn"); /* any text: write_run draws the samples instead */
    return NAN;
}

/* Writes the ratio of the run's time in B to that in A, with its interval. */
static double fill_change(const struct report_run *run, char text[VIEW_CELL]) {
    if (!run->pair || isnan(run->pair->ratio.value)) return NAN;
    const struct ratio *ratio = &run->pair->ratio;
    int length = snprintf(text, VIEW_CELL, "%.3f", ratio->value);
    if (ratio->low > 0 && isfinite(ratio->high))
        snprintf(text + length, VIEW_CELL - (size_t)length, ratio->high < 10 ? " (%.3f to %.3f)" : " (%.3f to >10)",
                 ratio->low, ratio->high);
    return ratio->value;
}

static double fill_verdict(const struct report_run *run, char text[VIEW_CELL]) {
    if (run->pair && run->pair->worse)
        snprintf(text, VIEW_CELL, "WORSE: %.300s", run->pair->note);
    else if (run->pair)
        snprintf(text, VIEW_CELL, "%s", ratio_verdict_names[run->pair->ratio.verdict]);
    return NAN;
}

static double fill_reason(const struct report_run *run, char text[VIEW_CELL]) {
    if (run->pair) snprintf(text, VIEW_CELL, "%s", comparison_reason(run->pair));
    return NAN;
}

/* ---- the table of runs ---- */

/* Like fill_run, for run number `number` in any column. */
static double fill_cell(const struct report *report, const struct run_column *column, int number,
                        char text[VIEW_CELL]) {
    const struct report_run *run = &report->runs[number];
    text[0] = '\0';
    if (column->swept) {
        snprintf(text, VIEW_CELL, "%s", column->swept->text[number]);
        return column->swept->number[number];
    }
    return column->fill ? column->fill(run, text) : run_cell(run, column->name, text);
}

/* Adds a column if it has a text in some row. */
static void add_column(const struct report *report, struct run_column column, struct run_column *columns, int *count) {
    char text[VIEW_CELL] = "";
    for (int i = 0; i < report->count && !*text; i++) fill_cell(report, &column, i, text);
    if (*text) columns[(*count)++] = column;
}

/* Lists the columns that some row fills; each swept parameter has a column. The caller frees. */
static struct run_column *columns_of_runs(const struct report *report, int *count) {
    const struct swept *swept = &report->swept;
    struct run_column *columns = must_malloc((size_t)(RUN_COLUMNS + swept->count) * sizeof *columns);
    *count = 0;
    for (int c = 0; c < RUN_COLUMNS; c++) {
        /* One column for each swept parameter replaces the column "parameters". */
        bool is_replaced = strcmp(run_columns[c].name, "parameters") == 0 && swept->count <= MAX_SWEPT;
        for (int i = 0; is_replaced && i < swept->count; i++) {
            const struct swept_column *parameter = &swept->columns[i];
            const char *class = parameter->kind == SWEPT_TEXT ? "" : "n";
            add_column(report, (struct run_column){parameter->name, "", class, NULL, parameter}, columns, count);
        }
        if (!is_replaced) add_column(report, run_columns[c], columns, count);
    }
    return columns;
}

/* Writes a run's row; marks bad statuses and verdicts. `reach`: of the drawings of samples. */
static void write_run(const struct report *report, const struct run_column *columns, int count, int number,
                      double reach, FILE *to) {
    static const char *const bad[] = {"wrong", "failed", "timeout", "SLOWER", "WORSE"};
    char text[VIEW_CELL];
    fputs("<tr>", to);
    for (int c = 0; c < count; c++) {
        const char *class = columns[c].class;
        double value = fill_cell(report, &columns[c], number, text);
        for (size_t i = 0; i < sizeof bad / sizeof *bad && !*class; i++)
            if (strncmp(text, bad[i], strlen(bad[i])) == 0) class = "bad";
        if (columns[c].fill != fill_drawing || !*text) {
            html_cell(to, class, columns[c].heading, text, value);
        } else {
            fprintf(to, "<td class=drawn data-h=\"%s\">", columns[c].heading);
            draw_samples(&report->runs[number], reach, to);
            fputs("</td>", to);
        }
    }
    fputs("</tr>\n", to);
}

/* Chooses the range of the drawings of samples, relative to the median: 1.2 times the third quartile of the runs'
 * spreads, at least 0.5 % and at most 100 %. */
static double find_reach(const struct report *report) {
    OWNED double *spread = must_malloc((size_t)report->count * sizeof *spread + 1);
    int count = 0;
    for (int i = 0; i < report->count; i++)
        if (!isnan(report->runs[i].spread)) spread[count++] = report->runs[i].spread;
    sort_doubles(spread, count);
    return count ? fmin(fmax(1.2 * report_quantile(spread, count, 0.75), 0.005), 1) : 1;
}

void report_runs(const struct report *report, FILE *to) {
    if (report->count == 0) return;
    int count;
    double reach = find_reach(report);
    OWNED struct run_column *columns = columns_of_runs(report, &count);
    OWNED char *caption = must_printf(
        "Median: time of the kernel alone. 95 %%: how far its interval reaches. Ratio: speed-up over the first variant "
        "of the operation. Of roof: share of the rate that the measured limits allow. Samples in time: in the order in "
        "which they were taken, the median in the middle, %.1f%% more at the top; what lies beyond has another colour. "
        "Spread: from the 5th to the 95th of a hundred samples. Total: from reading to writing, in which each stage "
        "was busy for the times beside it. Busy samples: taken while other programs used the CPUs.",
        100 * reach);
    html_table(to, "sortable", "Table of runs", caption);
    for (int c = 0; c < count; c++) html_heading(to, columns[c].class, columns[c].heading);
    html_body(to);
    for (int i = 0; i < report->count; i++) write_run(report, columns, count, i, reach, to);
    html_table_end(to);
}
