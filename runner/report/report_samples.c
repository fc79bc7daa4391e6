/* report_samples.c - tables with a small drawing in each row: how a run's samples spread, and how long each stage of
 * its one pass was busy. */
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 60 };

/* ---- samples ---- */

enum { BINS = 120, BIN_WIDTH = 2, STRIP_HEIGHT = 24 };

/* One run's samples, relative to their median: 0 is the median, 0.1 is 10 % slower. */
struct strip {
    int row, count;
    double *deviation; /* in ascending order */
    double low, high;  /* the interval of the median */
    double spread;     /* from the 5th to the 95th of a hundred; NaN: no samples */
};

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double quantile(const struct strip *strip, double part) {
    return strip->deviation[(int)(part * (strip->count - 1) + 0.5)];
}

/* Takes the finite ones of a row's samples. */
static enum status read_strip(const struct report *report, int row, struct strip *strip, struct error *error) {
    const struct result_row *it = &report->rows[row];
    struct samples samples;
    *strip = (struct strip){.row = row, .spread = NAN};
    if (!row_timed(it)) return STATUS_OK;
    TRY(results_file_samples(report->files[report->file[row]], it, &samples, error));
    strip->deviation = must_malloc((size_t)samples.count * sizeof *strip->deviation + 1);
    for (int i = 0; i < samples.count; i++) {
        double deviation = samples.seconds[i] / it->kernel_median_s - 1;
        if (isfinite(deviation)) strip->deviation[strip->count++] = deviation;
    }
    samples_free(&samples);
    qsort(strip->deviation, (size_t)strip->count, sizeof *strip->deviation, ascending);
    strip->low = it->kernel_ci_low_s / it->kernel_median_s - 1;
    strip->high = it->kernel_ci_high_s / it->kernel_median_s - 1;
    if (strip->count > 1) strip->spread = quantile(strip, 0.95) - quantile(strip, 0.05);
    return STATUS_OK;
}

/* What all strips show: nearly all samples of three runs of four, but not more than a factor of two. */
struct window {
    double low, high;
};

static double three_quarters(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[(int)(0.75 * (count - 1) + 0.5)];
}

static struct window find_window(const struct strip *strips, const int *order, int count) {
    double low[MOST_ROWS], high[MOST_ROWS];
    for (int i = 0; i < count; i++) {
        low[i] = -quantile(&strips[order[i]], 0.02);
        high[i] = quantile(&strips[order[i]], 0.97);
    }
    double below = 1.1 * three_quarters(low, count), beyond = 1.1 * three_quarters(high, count);
    return (struct window){-fmin(fmax(below, 0.005), 0.5), fmin(fmax(beyond, 0.005), 1)};
}

/* A run's samples as bars, as high as the root of their number; those beyond the window stand at its edges. */
static void write_strip(const struct strip *strip, const struct window *window, FILE *to) {
    int bins[BINS] = {0}, most = 1, below = 0, beyond = 0;
    double width = (window->high - window->low) / BINS;
    for (int i = 0; i < strip->count; i++) {
        double bin = floor((strip->deviation[i] - window->low) / width);
        below += bin < 0;
        beyond += bin >= BINS;
        int place = bin < 0 ? 0 : bin >= BINS ? BINS - 1 : (int)bin;
        if (++bins[place] > most) most = bins[place];
    }
    fprintf(to,
            "<td><svg class=\"strip\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\"><title>%d samples, "
            "from %+.1f %% to %+.1f %% of the median",
            BINS * BIN_WIDTH, STRIP_HEIGHT, BINS * BIN_WIDTH, STRIP_HEIGHT, strip->count, 100 * strip->deviation[0],
            100 * strip->deviation[strip->count - 1]);
    if (below + beyond > 0) fprintf(to, "; %d beyond the edges", below + beyond);
    fputs("</title>", to);
    double unit = BIN_WIDTH / width, most_x = BINS * BIN_WIDTH;
    double left = fmax(0, (strip->low - window->low) * unit), right = fmin((strip->high - window->low) * unit, most_x);
    if (isfinite(strip->low) && isfinite(strip->high) && left < most_x && left <= right)
        fprintf(to, "<rect class=\"band\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>", left,
                fmax(1, right - left), STRIP_HEIGHT);
    for (int edge = 0; edge <= 1; edge++) { /* first the samples, then those beyond the edges in another colour */
        bool any = false;
        for (int i = 0; i < BINS; i++) {
            bool outside = (i == 0 && below > 0) || (i == BINS - 1 && beyond > 0);
            if (bins[i] == 0 || outside != edge) continue;
            if (!any) fprintf(to, "<path class=\"%s\" d=\"", edge ? "far" : "bar");
            any = true;
            fprintf(to, "M%d %dv-%.1f", i * BIN_WIDTH + BIN_WIDTH / 2, STRIP_HEIGHT, 20 * sqrt((double)bins[i] / most));
        }
        if (any) fputs("\"/>", to);
    }
    fprintf(to, "<path class=\"middle\" d=\"M%.1f 0V%d\"/></svg></td>", -window->low * unit, STRIP_HEIGHT);
}

static void write_samples_row(const struct report *report, const struct strip *strip, const struct window *window,
                              FILE *to) {
    const struct result_row *row = &report->rows[strip->row];
    char text[NUMBER_BYTES], *name = run_name(report, strip->row);
    fputs("<tr><th scope=\"row\">", to);
    html_text(to, name);
    fputs("</th>", to);
    free(name);
    snprintf(text, sizeof text, "%d", strip->count);
    number_cell(to, text, strip->count);
    number_cell(to, seconds_text(row->kernel_median_s, text), row->kernel_median_s);
    number_cell(to, seconds_text(row->kernel_min_s, text), row->kernel_min_s);
    number_cell(to, seconds_text(row->kernel_max_s, text), row->kernel_max_s);
    snprintf(text, sizeof text, "%.*f %%", strip->spread < 0.0995, 100 * strip->spread);
    number_cell(to, text, strip->spread);
    write_strip(strip, window, to);
    fputs("</tr>\n", to);
}

static void write_samples(const struct report *report, const struct strip *strips, int count, const int *order,
                          FILE *to) {
    int shown = count < MOST_ROWS ? count : MOST_ROWS;
    struct window window = find_window(strips, order, shown);
    char *some = count > shown ? must_printf(" The %d runs of %d whose samples spread most are shown.", shown, count)
                               : must_strdup("");
    char *caption = must_printf(
        "Times of one launch. The drawings go from %+.1f %% to %+.1f %% of each run's median, the thin line; higher "
        "bars "
        "are more samples, the shaded band is the 95 %% interval of the median, bars of another colour at the edges "
        "are samples beyond. Spread: between the 5th and the 95th of a hundred samples, to the median.%s",
        100 * window.low, 100 * window.high, some);
    table_begin(to, "sortable drawings", "Samples of runs", caption);
    fputs("<thead><tr>", to);
    heading_write(to, "Run", false);
    heading_write(to, "Samples", true);
    heading_write(to, "Median", true);
    heading_write(to, "Least", true);
    heading_write(to, "Most", true);
    heading_write(to, "Spread", true);
    fputs("<th scope=\"col\" class=\"drawn\">Distribution</th></tr></thead>\n<tbody>\n", to);
    for (int i = 0; i < shown; i++) write_samples_row(report, &strips[order[i]], &window, to);
    fputs("</tbody>\n", to);
    table_end(to);
    free(caption);
    free(some);
}

enum status report_samples(const struct report *report, FILE *to, struct error *error) {
    struct strip *strips = must_malloc((size_t)report->count * sizeof *strips + 1);
    double *spread = must_malloc((size_t)report->count * sizeof *spread + 1);
    int *order = must_malloc((size_t)report->count * sizeof *order + 1);
    int read = 0, count = 0;
    enum status status = STATUS_OK;
    for (; read < report->count && !status; read++) {
        status = read_strip(report, read, &strips[read], error);
        spread[read] = strips[read].spread;
        count += !isnan(spread[read]);
    }
    if (!status && count > 0) {
        order_by(spread, read, true, order);
        write_samples(report, strips, count, order, to);
    }
    for (int i = 0; i < read; i++) free(strips[i].deviation);
    free(order);
    free(spread);
    free(strips);
    return status;
}

/* ---- stages ---- */

enum { PASS_STAGES = 5, LANE = 5, BARS_WIDTH = 240 };

static const char *const stage_names[PASS_STAGES] = {"Read", "To device", "Kernel", "From device", "Write"};

static void stages_of(const struct result_row *row, double seconds[PASS_STAGES]) {
    const double all[PASS_STAGES] = {row->read_s, row->h2d_s, row->kernel_median_s, row->d2h_s, row->write_s};
    for (int i = 0; i < PASS_STAGES; i++) seconds[i] = isfinite(all[i]) && all[i] > 0 ? all[i] : 0;
}

static bool has_stages(const struct result_row *row) {
    return result_row_done(row) && isfinite(row->total_s) && row->total_s > 0;
}

static void write_stage_bars(const double seconds[PASS_STAGES], double total, FILE *to) {
    enum { HEIGHT = PASS_STAGES * LANE + 2 };
    fprintf(
        to,
        "<td><svg class=\"strip\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\"><title>busy, in per "
        "cent of the total:",
        BARS_WIDTH, HEIGHT, BARS_WIDTH, HEIGHT);
    for (int i = 0; i < PASS_STAGES; i++)
        fprintf(to, "%s %s %.0f", i ? "," : "", stage_names[i], fmin(100 * seconds[i] / total, 1e6));
    fprintf(to, "</title><rect class=\"band\" width=\"%d\" height=\"%d\"/>", BARS_WIDTH, HEIGHT);
    for (int i = 0; i < PASS_STAGES; i++)
        if (seconds[i] > 0)
            fprintf(to, "<rect class=\"f k%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", i, 1 + i * LANE,
                    fmax(0.5, BARS_WIDTH * fmin(seconds[i] / total, 1)), LANE - 1);
    fputs("</svg></td>", to);
}

static void write_stage_row(const struct report *report, int row, FILE *to) {
    const struct result_row *it = &report->rows[row];
    double seconds[PASS_STAGES], busy = 0, longest = 0;
    char text[NUMBER_BYTES], *name = run_name(report, row);
    int bound = -1;
    stages_of(it, seconds);
    for (int i = 0; i < PASS_STAGES; i++) {
        busy += seconds[i];
        if (seconds[i] > longest) longest = seconds[i], bound = i;
    }
    fputs("<tr><th scope=\"row\">", to);
    html_text(to, name);
    fputs("</th>", to);
    free(name);
    number_cell(to, seconds_text(it->total_s, text), it->total_s);
    write_stage_bars(seconds, it->total_s, to);
    for (int i = 0; i < PASS_STAGES; i++)
        number_cell(to, seconds[i] > 0 ? seconds_text(seconds[i], text) : "–", seconds[i]);
    text_cell(to, bound >= 0 ? stage_names[bound] : "");
    snprintf(text, sizeof text, "%.2f", busy / it->total_s);
    number_cell(to, text, busy / it->total_s);
    fputs("</tr>\n", to);
}

void report_stages(const struct report *report, FILE *to) {
    double *total = must_malloc((size_t)report->count * sizeof *total + 1);
    int *order = must_malloc((size_t)report->count * sizeof *order + 1), count = 0;
    for (int i = 0; i < report->count; i++) {
        total[i] = has_stages(&report->rows[i]) ? report->rows[i].total_s : NAN;
        count += !isnan(total[i]);
    }
    order_by(total, report->count, true, order);
    int shown = count < MOST_ROWS ? count : MOST_ROWS;
    char *caption = must_printf(
        "The one pass that made each run's output: the seconds that it took, and those in which each stage was "
        "busy (of the kernel, the median of its timed launches). The drawings show the stages in the order of "
        "the columns; their whole width is the total. Overlap: the stages' sum to that total; above 1, they "
        "worked at the same time.%s",
        count > shown ? " Only the longest are shown." : "");
    if (count > 0) {
        table_begin(to, "sortable drawings", "Stages of runs", caption);
        fputs("<thead><tr>", to);
        heading_write(to, "Run", false);
        heading_write(to, "Total", true);
        fputs("<th scope=\"col\" class=\"drawn\">Share of the total</th>", to);
        for (int i = 0; i < PASS_STAGES; i++) /* the drawings' colours are told here */
            fprintf(to, "<th scope=\"col\" class=\"n key k%d\">%s</th>", i, stage_names[i]);
        heading_write(to, "Busiest", false);
        heading_write(to, "Overlap", true);
        fputs("</tr></thead>\n<tbody>\n", to);
        for (int i = 0; i < shown; i++) write_stage_row(report, order[i], to);
        fputs("</tbody>\n", to);
        table_end(to);
    }
    free(caption);
    free(order);
    free(total);
}
