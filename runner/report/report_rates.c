/* report_rates.c - the rate of each operation against each parameter that was swept, a line for each variant; where
 * nothing was swept, against the files, or side by side for its variants. */
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIGURES = 24, MOST_CATEGORIES = 40 };

/* What the horizontal axis shows: the number of a swept column, or one of these. */
enum { BY_FILE = -1, BY_VARIANT = -2 };

/* One line before it is known which lines are drawn. */
struct candidate {
    char *key; /* what tells it from the others */
    int variant;
    double best;
    struct plot_series series;
};

struct figure {
    const struct report *report;
    const char *operation;
    int by;
    int shown; /* lines in the plot */
    struct candidate *candidates;
    int count;
    const char *categories[MOST_CATEGORIES];
    int category_count;
    bool left_out_categories;
    double low, high; /* of numeric values */
    int best_row;
    bool intervals;
};

static const char *value_text(const struct figure *figure, int row, char letter[8]) {
    const struct report *report = figure->report;
    if (figure->by == BY_FILE) return file_letter(report->file[row], letter);
    if (figure->by == BY_VARIANT) return report->rows[row].variant;
    return report->swept.columns[figure->by].text[row];
}

static bool has_categories(const struct figure *figure) {
    return figure->by < 0 || figure->report->swept.columns[figure->by].kind == SWEPT_TEXT;
}

/* Is the row one of the operation's with a rate? */
static bool belongs(const struct report *report, const char *operation, int row) {
    return strcmp(report->rows[row].operation, operation) == 0 && isfinite(row_rate(&report->rows[row]));
}

/* Has a swept parameter several values among the rows of an operation? */
static bool varies(const struct report *report, const char *operation, int column) {
    const char *first = NULL;
    for (int row = 0; row < report->count; row++) {
        const char *text = report->swept.columns[column].text[row];
        if (!text[0] || !belongs(report, operation, row)) continue;
        if (!first) first = text;
        if (strcmp(first, text) != 0) return true;
    }
    return false;
}

/* "A tiled, n=512, float32": everything that tells a row's line from others, but for what the axis shows. */
static char *key_of(const struct figure *figure, int row, const bool *varying) {
    const struct report *report = figure->report;
    char letter[8];
    bool tell_file = report->file_count > 1 && figure->by != BY_FILE;
    char *key = must_printf("%s%s%s", tell_file ? file_letter(report->file[row], letter) : "", tell_file ? " " : "",
                            report->rows[row].variant);
    for (int i = 0; i < report->swept.count; i++) {
        const char *text = report->swept.columns[i].text[row];
        if (i == figure->by || !varying[i] || !text[0]) continue;
        bool speaks = report->swept.columns[i].kind == SWEPT_TEXT; /* a text tells what it is, "float32" */
        char *longer =
            must_printf("%s, %s%s%s", key, speaks ? "" : report->swept.columns[i].name, speaks ? "" : "=", text);
        free(key);
        key = longer;
    }
    return key;
}

static struct candidate *candidate_of(struct figure *figure, int row, const bool *varying) {
    char *key = key_of(figure, row, varying);
    for (int i = 0; i < figure->count; i++)
        if (strcmp(figure->candidates[i].key, key) == 0) {
            free(key);
            return &figure->candidates[i];
        }
    figure->candidates = must_realloc(figure->candidates, (size_t)(figure->count + 1) * sizeof *figure->candidates);
    struct candidate *new = &figure->candidates[figure->count++];
    *new = (struct candidate){.key = key, .variant = figure->report->variant[row]};
    return new;
}

/* The position of a row on an axis of categories; negative: there are too many. */
static int category_of(struct figure *figure, int row) {
    char letter[8];
    const char *text = value_text(figure, row, letter);
    for (int i = 0; i < figure->category_count; i++)
        if (strcmp(figure->categories[i], text) == 0) return i;
    if (figure->category_count == MOST_CATEGORIES) return -1;
    figure->categories[figure->category_count] = must_strdup(text);
    return figure->category_count++;
}

static void collect(struct figure *figure) {
    const struct report *report = figure->report;
    bool *varying = must_malloc((size_t)report->swept.count + 1);
    for (int i = 0; i < report->swept.count; i++) varying[i] = varies(report, figure->operation, i);
    figure->low = INFINITY;
    figure->high = -INFINITY;
    figure->best_row = -1;
    for (int row = 0; row < report->count; row++) {
        if (!belongs(report, figure->operation, row)) continue;
        struct plot_point point = {.y = row_rate(&report->rows[row]), .low = NAN, .high = NAN, .mark = NAN, .row = row};
        double low, high;
        if (figure->by >= 0 && !report->swept.columns[figure->by].text[row][0]) continue;
        if (has_categories(figure)) {
            int place = category_of(figure, row);
            figure->left_out_categories |= place < 0;
            if (place < 0) continue;
            point.x = place;
        } else {
            point.x = report->swept.columns[figure->by].number[row];
        }
        if (row_rate_interval(&report->rows[row], &low, &high)) {
            point.low = low;
            point.high = high;
            figure->intervals = true;
        }
        struct candidate *candidate = candidate_of(figure, row, varying);
        plot_add(&candidate->series, point);
        candidate->best = fmax(candidate->best, point.y);
        figure->low = fmin(figure->low, point.x);
        figure->high = fmax(figure->high, point.x);
        if (figure->best_row < 0 || point.y > row_rate(&report->rows[figure->best_row])) figure->best_row = row;
    }
    free(varying);
}

static int by_x(const void *left, const void *right) {
    const struct plot_point *a = left, *b = right;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* Moves the lines that reach the highest rates into the plot, in the order of the rows. */
static void choose(struct figure *figure, struct plot *plot) {
    double *best = must_malloc((size_t)figure->count * sizeof *best + 1);
    int *order = must_malloc((size_t)figure->count * sizeof *order + 1);
    bool *chosen = must_malloc((size_t)figure->count + 1);
    for (int i = 0; i < figure->count; i++) {
        best[i] = figure->candidates[i].best;
        chosen[i] = false;
    }
    order_by(best, figure->count, true, order);
    for (int i = 0; i < figure->count && i < PLOT_SERIES; i++) chosen[order[i]] = true;
    for (int i = 0; i < figure->count; i++) {
        struct candidate *candidate = &figure->candidates[i];
        if (!chosen[i]) continue;
        struct plot_series *series = &plot->series[plot->series_count++];
        *series = candidate->series;
        series->label = candidate->key;
        series->look = figure->report->looks[candidate->variant];
        for (struct plot_series *before = plot->series; before < series; before++)
            series->dash += before->look.colour == series->look.colour && before->look.shape == series->look.shape;
        qsort(series->points, (size_t)series->count, sizeof *series->points, by_x);
        candidate->key = NULL;
        candidate->series.points = NULL;
    }
    figure->shown = plot->series_count;
    free(chosen);
    free(order);
    free(best);
}

/* Which is the fastest, and what the reader must know of the drawing. The caller frees. */
static char *caption_of(const struct figure *figure, const char *parameter) {
    char rate[NUMBER_BYTES], letter[8];
    const struct result_row *best = &figure->report->rows[figure->best_row];
    rate_text(row_rate(best), row_in_flops(best), rate);
    const char *value = figure->by == BY_VARIANT ? "" : value_text(figure, figure->best_row, letter);
    char *at = figure->by == BY_VARIANT ? must_strdup("")
               : figure->by == BY_FILE  ? must_printf(" in file %s", value)
                                        : must_printf(" at %s = %s", parameter, value);
    char *some = figure->count > figure->shown
                     ? must_printf(" %d of %d lines are drawn, those that reach the highest rates; the table of runs "
                                   "has all.",
                                   figure->shown, figure->count)
                     : must_strdup("");
    char *caption = must_printf(
        "%s is the fastest: %s%s.%s%s%s", best->variant, rate, at,
        figure->intervals ? " Bars are 95 % intervals of the median." : "", some,
        figure->left_out_categories ? " Only the first 40 values are drawn; the table of runs has all." : "");
    free(some);
    free(at);
    return caption;
}

static void write_figure(const struct report *report, const char *operation, int by, int *number, FILE *to) {
    struct figure figure = {.report = report, .operation = operation, .by = by};
    struct plot plot = {.number = *number};
    collect(&figure);
    choose(&figure, &plot);
    const char *parameter = by == BY_FILE ? "file" : by == BY_VARIANT ? "variant" : report->swept.columns[by].name;
    bool flops = row_in_flops(&report->rows[figure.best_row]);
    double slowest = INFINITY, fastest = row_rate(&report->rows[figure.best_row]);
    for (int s = 0; s < plot.series_count; s++)
        for (int i = 0; i < plot.series[s].count; i++) slowest = fmin(slowest, plot.series[s].points[i].y);
    plot.x = (struct plot_axis){.title = parameter, .log = figure.low > 0 && figure.high > 10 * figure.low};
    if (has_categories(&figure)) {
        plot.x.log = false;
        plot.x.categories = figure.categories;
        plot.x.category_count = figure.category_count;
    }
    plot.y = (struct plot_axis){.title = "rate", .log = fastest > 10 * slowest, .flops = flops, .bytes = !flops};
    plot.joined = true;
    char *title = must_printf("%s: rate %s %s", operation, by >= 0 ? "against" : "by", parameter);
    char *caption = caption_of(&figure, parameter);
    plot.title = title;
    plot.description = caption;
    ++*number;
    if (!report->plot_alone) figure_begin(to, title, caption);
    plot_write(&plot, report, to);
    if (!report->plot_alone) figure_end(to);
    free(title);
    free(caption);
    plot_clear(&plot);
    for (int i = 0; i < figure.count; i++) {
        free(figure.candidates[i].key);
        free(figure.candidates[i].series.points);
    }
    for (int i = 0; i < figure.category_count; i++) free((char *)figure.categories[i]);
    free(figure.candidates);
}

/* Are there two rows with rates of the operation that differ in file, or in variant? */
static bool several(const struct report *report, const char *operation, int by) {
    int first = -1;
    for (int row = 0; row < report->count; row++) {
        if (!belongs(report, operation, row)) continue;
        if (first < 0) first = row;
        const int *what = by == BY_FILE ? report->file : report->variant;
        if (what[row] != what[first]) return true;
    }
    return false;
}

static int most_figures(const struct report *report) {
    return report->plot_alone ? 1 : MOST_FIGURES;
}

/* Writes an operation's figures while fewer than the most are there; counts all. */
static void write_operation(const struct report *report, const char *operation, int *number, int *wanted, FILE *to) {
    bool swept = false;
    for (int column = 0; column < report->swept.count; column++) {
        if (!varies(report, operation, column)) continue;
        swept = true;
        if (++*wanted <= most_figures(report)) write_figure(report, operation, column, number, to);
    }
    if (swept) return;
    int by = several(report, operation, BY_FILE) ? BY_FILE : BY_VARIANT;
    if (!several(report, operation, by)) return;
    if (++*wanted <= most_figures(report)) write_figure(report, operation, by, number, to);
}

void report_rates(const struct report *report, int *number, FILE *to) {
    const char **known = must_malloc((size_t)report->count * sizeof *known + 1);
    int known_count = 0, wanted = 0;
    for (int row = 0; row < report->count; row++) {
        const char *operation = report->rows[row].operation;
        int i = 0;
        while (i < known_count && strcmp(known[i], operation) != 0) i++;
        if (i < known_count) continue;
        known[known_count++] = operation;
        write_operation(report, operation, number, &wanted, to);
    }
    if (wanted > MOST_FIGURES && !report->plot_alone)
        fprintf(to,
                "<p class=\"wide\">%d of %d plots are shown, those of the first operations; the table of runs has "
                "all.</p>\n",
                (int)MOST_FIGURES, wanted);
    free(known);
}
