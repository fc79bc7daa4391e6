/* report_plot.c - a plot with two axes as inline SVG. Colours come from the style sheet, by class: "kN" is the colour
 * of look N. Names of series stand at the right, beside the ends of their lines where lines are drawn. */
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 580, HEIGHT = 344, LEFT = 58, RIGHT = 400, TOP = 16, BOTTOM = 290, NAMES = 414, NAME_GAP = 17 };
enum { DASHES = 4, MOST_TICKS = 24, NAME_CHARACTERS = 24, MOST_TITLES = 300 };

struct scale {
    const struct plot_axis *axis;
    double low, high; /* of the values, in the axis' own unit */
    double from, to;  /* in the drawing */
    double unit;      /* what ticks are told in */
    const char *unit_name;
};

void plot_add(struct plot_series *series, struct plot_point point) {
    bool full = (series->count & (series->count - 1)) == 0; /* the room is the next power of 2 */
    size_t room = series->count ? 2 * (size_t)series->count : 1;
    if (full) series->points = must_realloc(series->points, room * sizeof *series->points);
    series->points[series->count++] = point;
}

void plot_clear(struct plot *plot) {
    for (int i = 0; i < plot->series_count; i++) {
        free(plot->series[i].label);
        free(plot->series[i].points);
    }
    *plot = (struct plot){0};
}

/* ---- scales ---- */

static double at(const struct scale *scale, double value) {
    if (scale->axis->floor > 0 && value <= scale->axis->floor) value = scale->axis->floor;
    double part = scale->axis->log ? log(value / scale->low) / log(scale->high / scale->low)
                                   : (value - scale->low) / (scale->high - scale->low);
    if (!isfinite(part)) part = 0.5; /* a range beyond that of numbers */
    return scale->from + part * (scale->to - scale->from);
}

static void widen(struct scale *scale, double value) {
    if (!isfinite(value) || (scale->axis->log && value <= 0)) return;
    if (value < scale->low) scale->low = value;
    if (value > scale->high) scale->high = value;
}

/* Leaves room around the values. A linear axis of rates begins at 0. */
static void round_out(struct scale *scale, bool from_zero) {
    const struct plot_axis *axis = scale->axis;
    if (axis->categories) {
        scale->low = -0.5;
        scale->high = axis->category_count - 0.5;
        return;
    }
    if (scale->low > scale->high) scale->low = scale->high = 1;
    if (axis->log) {
        double room = fmax(pow(scale->high / scale->low, 0.06), 1.15);
        scale->low /= room;
        scale->high *= room;
        return;
    }
    double span = scale->high - scale->low;
    if (span <= 0) span = fmax(fabs(scale->high), 1) * 0.5;
    if (from_zero && scale->low >= 0) {
        scale->low = 0;
        scale->high *= 1.08;
        return;
    }
    scale->low -= 0.06 * span;
    scale->high += 0.06 * span;
}

static void choose_unit(struct scale *scale) {
    static const char *const flops[] = {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    static const char *const bytes[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    scale->unit = 1;
    if (!scale->axis->flops && !scale->axis->bytes) return;
    int power = 0;
    for (; power < 5 && scale->high >= 1000 * scale->unit; power++) scale->unit *= 1000;
    scale->unit_name = scale->axis->flops ? flops[power] : bytes[power];
}

/* ---- ticks ---- */

static double nice_step(double span, int wanted) {
    double step = pow(10, floor(log10(span / wanted))), left = span / wanted / step;
    return step * (left > 5 ? 10 : left > 2 ? 5 : left > 1 ? 2 : 1);
}

/* Where the ticks are, in the unit of the values; how many. */
static int find_ticks(const struct scale *scale, double ticks[MOST_TICKS]) {
    int count = 0;
    double low = scale->low / scale->unit, high = scale->high / scale->unit;
    if (scale->axis->log) {
        double decades = log10(high / low);
        int stride = decades > 24 ? 6 : decades > 12 ? 3 : decades > 7 ? 2 : 1;
        static const double within[] = {1, 2, 5};
        int kinds = decades < 2.2 ? 3 : 1;
        int first = (int)floor(log10(low));
        for (int power = first - (first % stride + stride) % stride; count < MOST_TICKS; power += stride) {
            if (pow(10, power) > high) break;
            for (int i = 0; i < kinds && count < MOST_TICKS; i++) {
                double value = within[i] * pow(10, power);
                if (value >= low && value <= high) ticks[count++] = value * scale->unit;
            }
        }
        if (count > 0) return count;
    }
    double step = nice_step(high - low, 6);
    for (double i = ceil(low / step); i * step <= high && count < MOST_TICKS; i++)
        ticks[count++] = (i == 0 ? 0 : i * step) * scale->unit;
    return count;
}

/* 10^-7 as people write it, if it is a power of ten beyond those that are read at a glance. */
static const char *tick_text(double value, char text[NUMBER_BYTES]) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    double power = value > 0 ? log10(value) : 0;
    if (value <= 0 || (power > -3.5 && power < 5.5) || fabs(power - rint(power)) > 1e-9) {
        snprintf(text, NUMBER_BYTES, "%.6g", value);
        return text;
    }
    char digits[16];
    snprintf(digits, sizeof digits, "%d", abs((int)rint(power)));
    snprintf(text, NUMBER_BYTES, "10%s", power < 0 ? "⁻" : "");
    for (const char *digit = digits; *digit; digit++)
        snprintf(text + strlen(text), NUMBER_BYTES - strlen(text), "%s", raised[*digit - '0']);
    return text;
}

static void write_y_axis(const struct scale *y, FILE *to) {
    double ticks[MOST_TICKS];
    char text[NUMBER_BYTES];
    int count = find_ticks(y, ticks);
    for (int i = 0; i < count; i++) {
        double height = at(y, ticks[i]);
        fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick end\" x=\"%d\" y=\"%.1f\">%s</text>\n",
                LEFT, height, RIGHT, LEFT - 7, height + 4, tick_text(ticks[i] / y->unit, text));
    }
    if (y->axis->floor > 0)
        fprintf(to, "<path class=\"floor\" d=\"M%d %.1fH%d\"/><text class=\"tick end\" x=\"%d\" y=\"%.1f\">0</text>\n",
                LEFT, at(y, 0), RIGHT, LEFT - 7, at(y, 0) + 4);
    fprintf(to, "<text class=\"name\" transform=\"translate(13 %d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + BOTTOM) / 2);
    html_text(to, y->axis->title);
    if (y->unit_name) fprintf(to, " (%s)", y->unit_name);
    fputs("</text>\n", to);
}

/* A tick is left out where its text would meet the last one's. */
static void write_x_tick(const struct scale *x, double value, const char *label, double *free_from, FILE *to) {
    char text[4 * 14 + 4];
    shortened(label, 12, text);
    double place = at(x, value), half = 3.4 * (double)strlen(text) + 4;
    if (place - half < *free_from) return;
    *free_from = place + half;
    fprintf(to, "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"tick mid\" x=\"%.1f\" y=\"%d\">", place, BOTTOM,
            place, BOTTOM + 19);
    html_text(to, text);
    fputs("</text>\n", to);
}

/* The values of x at which there are points, in order, if they are few; else 0. */
static int distinct_x(const struct plot *plot, double values[MOST_TICKS]) {
    int count = 0;
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            double x = plot->series[s].points[i].x;
            int place = 0;
            while (place < count && values[place] < x) place++;
            if (place < count && values[place] == x) continue;
            if (count == MOST_TICKS) return 0;
            memmove(values + place + 1, values + place, (size_t)(count - place) * sizeof *values);
            values[place] = x;
            count++;
        }
    return count;
}

static void write_x_axis(const struct plot *plot, const struct scale *x, FILE *to) {
    double ticks[MOST_TICKS], free_from = 0;
    char text[NUMBER_BYTES];
    int count = plot->joined ? distinct_x(plot, ticks) : 0; /* a swept parameter's own values */
    if (count == 0) count = find_ticks(x, ticks);
    fprintf(to, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < (x->axis->categories ? x->axis->category_count : count); i++) {
        if (x->axis->categories)
            write_x_tick(x, i, x->axis->categories[i], &free_from, to);
        else
            write_x_tick(x, ticks[i], plot->joined ? plain_text(ticks[i], text) : tick_text(ticks[i] / x->unit, text),
                         &free_from, to);
    }
    fprintf(to, "<text class=\"name\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">", (LEFT + RIGHT) / 2, HEIGHT - 12);
    html_text(to, x->axis->title);
    if (x->unit_name) fprintf(to, " (%s)", x->unit_name);
    fputs("</text>\n", to);
}

/* ---- markers, lines, names ---- */

static void write_colour(FILE *to, struct look look) {
    fprintf(to, look.colour < 0 ? "kx" : "k%d", look.colour);
}

static void write_marker(FILE *to, struct look look, bool hollow, double x, double y) {
    static const char *const shapes[SHAPES] = {
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", /* circle */
        "m-3.6 -3.6h7.2v7.2h-7.2z",            /* square */
        "m0 -4.9l4.6 8h-9.2z",                 /* triangle */
        "m0 -5.2l4.4 5.2l-4.4 5.2l-4.4 -5.2z", /* diamond */
        "m0 4.9l4.6 -8h-9.2z",                 /* triangle, point down */
        "m-4 -4l8 8m-8 0l8 -8",                /* cross */
        "m-4.9 0l8 -4.6v9.2z",                 /* triangle, point left */
        "m0 -5v10m-5 -5h10",                   /* plus */
    };
    fputs("<path class=\"", to);
    write_colour(to, look);
    fprintf(to, " %s\" d=\"M%.1f %.1f%s\"/>",
            look.shape == 5 || look.shape == 7 ? "ms"
            : hollow                           ? "mh"
                                               : "m",
            x, y, shapes[look.shape]);
}

static void write_points(const struct plot *plot, const struct report *report, const struct scale *x,
                         const struct scale *y, FILE *to) {
    int points = 0;
    for (int s = 0; s < plot->series_count; s++) points += plot->series[s].count;
    for (int s = 0; s < plot->series_count; s++) {
        const struct plot_series *series = &plot->series[s];
        for (int i = 0; i < series->count; i++) {
            const struct plot_point *point = &series->points[i];
            double place = at(x, point->x);
            char rate[NUMBER_BYTES];
            const struct result_row *row = &report->rows[point->row];
            if (points <= MOST_TITLES) { /* shown where the pointer rests */
                char *name = run_name(report, point->row);
                fputs("<g><title>", to);
                html_text(to, name);
                fprintf(to, ": %s</title>", rate_text(row_rate(row), row_in_flops(row), rate));
                free(name);
            }
            if (isfinite(point->low) && isfinite(point->high)) {
                double low = at(y, point->low), high = at(y, point->high);
                fputs("<path class=\"l ", to);
                write_colour(to, series->look);
                fprintf(to, "\" d=\"M%.1f %.1fV%.1fm-3 0h6M%.1f %.1fh6\"/>", place, low, high, place - 3, low);
            }
            if (isfinite(point->mark))
                fprintf(to, "<path class=\"mark\" d=\"M%.1f %.1fh8\"/>", place - 4, at(y, point->mark));
            write_marker(to, series->look, series->dash % 2, place, at(y, point->y));
            fputs(points <= MOST_TITLES ? "</g>\n" : "\n", to);
        }
    }
}

static void write_joins(const struct plot *plot, const struct scale *x, const struct scale *y, FILE *to) {
    for (int s = 0; s < plot->series_count; s++) {
        const struct plot_series *series = &plot->series[s];
        if (series->count < 2) continue;
        fputs("<path class=\"l ", to);
        write_colour(to, series->look);
        fprintf(to, " d%d\" d=\"", series->dash % DASHES);
        for (int i = 0; i < series->count; i++)
            fprintf(to, "%c%.1f %.1f", i ? 'L' : 'M', at(x, series->points[i].x), at(y, series->points[i].y));
        fputs("\"/>\n", to);
    }
}

/* The names' heights: near what is named, in its order, none over another. */
static void place_names(const struct plot *plot, const struct scale *y, double height[PLOT_SERIES]) {
    double wanted[PLOT_SERIES];
    int order[PLOT_SERIES], count = plot->series_count;
    for (int s = 0; s < count; s++) {
        const struct plot_series *series = &plot->series[s];
        wanted[s] = plot->joined ? at(y, series->points[series->count - 1].y) : TOP + 6 + NAME_GAP * s;
    }
    order_by(wanted, count, false, order);
    double least = TOP + 4;
    for (int i = 0; i < count; i++) {
        height[order[i]] = fmax(wanted[order[i]], least);
        least = height[order[i]] + NAME_GAP;
    }
    double most = BOTTOM;
    for (int i = count - 1; i >= 0; i--) {
        height[order[i]] = fmin(height[order[i]], most);
        most = height[order[i]] - NAME_GAP;
    }
}

static void write_names(const struct plot *plot, const struct scale *x, const struct scale *y, FILE *to) {
    double height[PLOT_SERIES];
    place_names(plot, y, height);
    for (int s = 0; s < plot->series_count; s++) {
        const struct plot_series *series = &plot->series[s];
        char text[4 * NAME_CHARACTERS + 4];
        if (plot->joined) {
            const struct plot_point *last = &series->points[series->count - 1];
            fprintf(to, "<path class=\"lead\" d=\"M%.1f %.1fL%d %.1f\"/>", at(x, last->x) + 6, at(y, last->y),
                    NAMES - 9, height[s]);
        }
        write_marker(to, series->look, series->dash % 2, NAMES, height[s]);
        fprintf(to, "<text class=\"tick\" x=\"%d\" y=\"%.1f\">", NAMES + 10, height[s] + 4);
        html_text(to, shortened(series->label, NAME_CHARACTERS, text));
        fputs("</text>\n", to);
    }
}

/* A rising line is named along its beginning, a level one above its end, and above names that are there. */
static void write_line_name(const struct plot_line *line, double x0, double y0, double x1, double y1, double taken[],
                            int *count, FILE *to) {
    enum { HIGH = 12 };
    double height = y1 - 5;
    if (fabs(y1 - y0) > 1) {
        fprintf(to, "<text class=\"note\" transform=\"translate(%.1f %.1f) rotate(%.1f)\">", x0 + 5, y0 - 6,
                atan2(y1 - y0, x1 - x0) * 57.29578);
    } else {
        for (int i = 0; i < *count; i++)
            if (fabs(taken[i] - height) < HIGH) {
                height = taken[i] - HIGH;
                i = -1; /* look again from the first */
            }
        taken[(*count)++] = height;
        fprintf(to, "<text class=\"note end\" x=\"%.1f\" y=\"%.1f\">", x1 - 3, height);
    }
    html_text(to, line->label);
    fputs("</text>\n", to);
}

static void write_lines(const struct plot *plot, const struct scale *x, const struct scale *y, FILE *to) {
    double taken[PLOT_LINES];
    int count = 0;
    for (int i = 0; i < plot->line_count; i++) {
        const struct plot_line *line = &plot->lines[i];
        double x0 = at(x, line->x0), y0 = at(y, line->y0), x1 = at(x, line->x1), y1 = at(y, line->y1);
        fprintf(to, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x0, y0, x1, y1);
        write_line_name(line, x0, y0, x1, y1, taken, &count, to);
    }
}

void plot_write(const struct plot *plot, const struct report *report, FILE *to) {
    struct scale x = {.axis = &plot->x, .low = INFINITY, .high = -INFINITY, .from = LEFT, .to = RIGHT};
    struct scale y = {.axis = &plot->y, .low = INFINITY, .high = -INFINITY, .from = BOTTOM, .to = TOP};
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            const struct plot_point *point = &plot->series[s].points[i];
            widen(&x, point->x);
            widen(&y, point->y);
            widen(&y, point->low);
            widen(&y, point->high);
            widen(&y, point->mark);
        }
    for (int i = 0; i < plot->line_count; i++) {
        widen(&x, plot->lines[i].x0);
        widen(&x, plot->lines[i].x1);
        widen(&y, plot->lines[i].y0);
        widen(&y, plot->lines[i].y1);
    }
    if (y.axis->floor > 0) widen(&y, y.axis->floor);
    round_out(&x, x.axis->flops || x.axis->bytes);
    round_out(&y, true);
    choose_unit(&x);
    choose_unit(&y);
    if (report->plot_alone)
        fprintf(to, "%s width=\"%d\" height=\"%d\"", report_plot_beginning, WIDTH, HEIGHT);
    else
        fputs("<svg", to);
    fprintf(to, " viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"plot%d-title plot%d-about\">\n", WIDTH, HEIGHT,
            plot->number, plot->number);
    if (report->plot_alone) report_plot_style(to);
    fprintf(to, "<title id=\"plot%d-title\">", plot->number);
    html_text(to, plot->title);
    fprintf(to, "</title>\n<desc id=\"plot%d-about\">", plot->number);
    html_text(to, plot->description);
    fputs("</desc>\n", to);
    write_y_axis(&y, to);
    write_x_axis(plot, &x, to);
    write_lines(plot, &x, &y, to);
    if (plot->joined) write_joins(plot, &x, &y, to);
    write_points(plot, report, &x, &y, to);
    write_names(plot, &x, &y, to);
    fputs("</svg>\n", to);
}

/* ---- a figure ---- */

void figure_begin(FILE *to, const char *title, const char *caption) {
    fputs("<figure>\n<figcaption><h3>", to);
    html_text(to, title);
    fputs("</h3><p>", to);
    html_text(to, caption);
    fputs("</p></figcaption>\n<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"", to);
    html_text(to, title);
    fputs("\">\n", to);
}

void figure_end(FILE *to) {
    fputs("</div>\n</figure>\n", to);
}
