/* report_clouds.c - plots with a point for each run: the roofline, and error against speed. */
#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where a row's point is; false: it has none. */
typedef bool locate_run(const struct result_row *row, double *x, double *y);

/* Puts a point for each row that has one into the plot: a series for each variant, the rarest together as "others".
 * Returns how many points there are. */
static int fill(const struct report *report, locate_run *locate, struct plot *plot) {
    double *points_of = must_malloc((size_t)report->variant_count * sizeof *points_of + 1);
    int *order = must_malloc((size_t)report->variant_count * sizeof *order + 1);
    int *series_of = must_malloc((size_t)report->variant_count * sizeof *series_of + 1);
    int points = 0, variants = 0;
    for (int i = 0; i < report->variant_count; i++) {
        points_of[i] = 0;
        series_of[i] = -1;
    }
    struct plot_point point = {.low = NAN, .high = NAN, .mark = NAN};
    for (int row = 0; row < report->count; row++)
        if (locate(&report->rows[row], &point.x, &point.y)) points_of[report->variant[row]]++;
    for (int i = 0; i < report->variant_count; i++) variants += points_of[i] > 0;
    order_by(points_of, report->variant_count, true, order);
    int own = variants > PLOT_SERIES ? PLOT_SERIES - 1 : variants; /* variants with a series of their own */
    bool *chosen = must_malloc((size_t)report->variant_count + 1);
    memset(chosen, 0, (size_t)report->variant_count + 1);
    for (int i = 0; i < own; i++) chosen[order[i]] = true;
    for (int i = 0; i < report->variant_count; i++) {
        if (!chosen[i]) continue;
        plot->series[plot->series_count] =
            (struct plot_series){.label = must_strdup(report->variants[i]), .look = report->looks[i]};
        series_of[i] = plot->series_count++;
    }
    if (variants > own)
        plot->series[plot->series_count++] =
            (struct plot_series){.label = must_printf("%d other variants", variants - own), .look = {-1, 0}};
    for (point.row = 0; point.row < report->count; point.row++) {
        if (!locate(&report->rows[point.row], &point.x, &point.y)) continue;
        int series = series_of[report->variant[point.row]];
        plot_add(&plot->series[series >= 0 ? series : plot->series_count - 1], point);
        points++;
    }
    free(chosen);
    free(series_of);
    free(order);
    free(points_of);
    return points;
}

static void write_cloud(struct plot *plot, const struct report *report, const char *title, const char *caption,
                        int *number, FILE *to) {
    plot->number = (*number)++;
    plot->title = title;
    plot->description = caption;
    figure_begin(to, title, caption);
    plot_write(plot, report, to);
    figure_end(to);
}

/* ---- the roofline ---- */

static bool locate_in_roofline(const struct result_row *row, double *x, double *y) {
    *x = row->flops / row->bytes;
    *y = row->flops / row->kernel_median_s;
    bool work = row->flops > 0 && row->bytes > 0 && row_timed(row);
    return work && *x > 1e-30 && *x < 1e30 && *y > 1e-30 && *y < 1e30;
}

/* A roof: the bytes or operations in a second that a device's measured limits allow. */
struct roof {
    const struct result_row *row; /* that tells it */
    bool memory;
    double value;
};

enum { MOST_ROOFS = PLOT_LINES };

/* Adds what a row says of a roof, unless a row of the same device (and, for operations, type) said much the same. */
static int add_roof(const struct result_row *row, struct roof roofs[MOST_ROOFS], int count, int *left_out) {
    struct roof roof = {row, strcmp(row->bound_by, "memory") == 0, 0};
    if (!roof.memory && strcmp(row->bound_by, "compute") != 0) return count;
    roof.value = (roof.memory ? row->bytes : row->flops) / row->bound_s;
    if (!(row->bound_s > 0) || !(roof.value > 1e-30) || !(roof.value < 1e30)) return count;
    for (int i = 0; i < count; i++) {
        const struct result_row *other = roofs[i].row;
        bool same = roofs[i].memory == roof.memory && strcmp(other->device, row->device) == 0 &&
                    strcmp(other->device_name, row->device_name) == 0 &&
                    (roof.memory || strcmp(other->dtype, row->dtype) == 0);
        if (same && fabs(roofs[i].value / roof.value - 1) < 0.02) return count;
    }
    if (count == MOST_ROOFS) {
        ++*left_out;
        return count;
    }
    roofs[count] = roof;
    return count + 1;
}

/* A memory roof rises to the highest operation roof of its device, which begins where the lowest memory roof meets. */
static void draw_roofs(const struct roof roofs[], int count, double low_x, double high_x, struct plot *plot) {
    double high_y = 0;
    for (int i = 0; i < count; i++)
        if (!roofs[i].memory) high_y = fmax(high_y, roofs[i].value);
    for (int i = 0; i < count; i++) {
        const struct roof *roof = &roofs[i];
        char rate[NUMBER_BYTES];
        double knee = roof->memory ? INFINITY : 0, meets = 0;
        for (int k = 0; k < count; k++) {
            const struct roof *other = &roofs[k];
            if (other->memory == roof->memory || strcmp(other->row->device, roof->row->device) != 0) continue;
            double x = roof->memory ? other->value / roof->value : roof->value / other->value;
            meets = fmax(meets, x);
            if (!roof->memory) knee = knee > 0 ? fmin(knee, x) : x;
        }
        struct plot_line *line = &plot->lines[plot->line_count++];
        if (roof->memory) {
            double end = meets > 0 ? meets : high_x;
            double begin = fmin(low_x, end / 4);
            *line = (struct plot_line){begin, begin * roof->value, end, end * roof->value, ""};
        } else {
            double begin = knee > 0 ? knee : low_x;
            *line = (struct plot_line){begin, roof->value, fmax(high_x, 4 * begin), roof->value, ""};
        }
        snprintf(line->label, sizeof line->label, "%s%s%s %s", roof->row->device, roof->memory ? "" : " ",
                 roof->memory ? "" : roof->row->dtype, rate_text(roof->value, !roof->memory, rate));
    }
}

void report_roofline(const struct report *report, int *number, FILE *to) {
    struct plot plot = {.x = {.title = "arithmetic intensity (FLOP per byte)", .log = true},
                        .y = {.title = "rate", .log = true, .flops = true}};
    struct roof roofs[MOST_ROOFS];
    int roof_count = 0, left_out = 0;
    double low = INFINITY, high = 0;
    if (fill(report, locate_in_roofline, &plot) == 0) return;
    for (int s = 0; s < plot.series_count; s++)
        for (int i = 0; i < plot.series[s].count; i++) {
            low = fmin(low, plot.series[s].points[i].x);
            high = fmax(high, plot.series[s].points[i].x);
        }
    for (int row = 0; row < report->count; row++)
        roof_count = add_roof(&report->rows[row], roofs, roof_count, &left_out);
    draw_roofs(roofs, roof_count, low / 2, high * 2, &plot);
    char *caption = must_printf(
        "Each point is a run: the operation's own work over its own traffic, and the rate at which it was done.%s%s",
        roof_count ? " The lines are what the measured limits of each device allow."
                   : " The results hold no measured limits, so no roofs are drawn.",
        left_out ? " More limits were measured than are drawn." : "");
    write_cloud(&plot, report, roof_count ? "How near each run comes to its roof" : "Rate against intensity", caption,
                number, to);
    free(caption);
    plot_clear(&plot);
}

/* ---- error against speed ---- */

static bool locate_error(const struct result_row *row, bool flops, double *x, double *y) {
    *x = row_rate(row);
    *y = row->error;
    return row_in_flops(row) == flops && isfinite(*x) && isfinite(*y) && (*y == 0 || (*y > 1e-300 && *y < 1e300));
}

static bool locate_error_flops(const struct result_row *row, double *x, double *y) {
    return locate_error(row, true, x, y);
}

static bool locate_error_bytes(const struct result_row *row, double *x, double *y) {
    return locate_error(row, false, x, y);
}

static bool has_tolerance(const struct result_row *row) {
    return row->tolerance > 1e-300 && row->tolerance < 1e300;
}

/* Draws tolerances: a line for each if they are few, else a mark for each run. Returns whether there are any. */
static bool draw_tolerances(const struct report *report, double low_x, double high_x, struct plot *plot) {
    enum { FEW = 3 };
    double known[FEW];
    int count = 0;
    bool few = true, any = false;
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            struct plot_point *point = &plot->series[s].points[i];
            const struct result_row *row = &report->rows[point->row];
            if (!has_tolerance(row)) continue;
            any = true;
            point->mark = row->tolerance;
            int place = 0;
            while (place < count && known[place] != row->tolerance) place++;
            if (place < count) continue;
            if (count == FEW)
                few = false;
            else
                known[count++] = row->tolerance;
        }
    if (!few) return any;
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++) plot->series[s].points[i].mark = NAN;
    for (int i = 0; i < count; i++) {
        struct plot_line *line = &plot->lines[plot->line_count++];
        *line = (struct plot_line){low_x, known[i], high_x, known[i], ""};
        snprintf(line->label, sizeof line->label, "tolerance %.2g", known[i]);
    }
    return any;
}

static void write_errors(const struct report *report, bool flops, int *number, FILE *to) {
    struct plot plot = {.x = {.title = "rate", .flops = flops, .bytes = !flops}, .y = {.title = "error", .log = true}};
    locate_run *locate = flops ? locate_error_flops : locate_error_bytes;
    double low_x = INFINITY, high_x = 0, least = INFINITY;
    bool zero = false;
    if (fill(report, locate, &plot) == 0) return;
    for (int s = 0; s < plot.series_count; s++)
        for (int i = 0; i < plot.series[s].count; i++) {
            const struct plot_point *point = &plot.series[s].points[i];
            low_x = fmin(low_x, point->x);
            high_x = fmax(high_x, point->x);
            if (point->y > 0) least = fmin(least, point->y);
            zero |= point->y == 0;
        }
    if (!isfinite(least)) { /* nothing but exact results: there is nothing to be seen */
        plot_clear(&plot);
        return;
    }
    plot.x.log = high_x > 10 * low_x;
    bool tolerances = draw_tolerances(report, low_x, high_x, &plot);
    for (int i = 0; i < plot.line_count; i++) least = fmin(least, plot.lines[i].y0);
    if (zero) plot.y.floor = pow(10, floor(log10(least)) - 1);
    char *title = must_printf("Error against speed, in %s", flops ? "FLOP/s" : "B/s");
    const char *about = !tolerances       ? ""
                        : plot.line_count ? " An error above its tolerance would make a run wrong."
                                          : " The dash above each run is its tolerance; an error above that would make "
                                            "the run wrong.";
    char *caption = must_printf("The best runs are at the lower right: fast, with little error.%s%s",
                                zero ? " Runs without any error stand on the line marked 0." : "", about);
    write_cloud(&plot, report, title, caption, number, to);
    free(caption);
    free(title);
    plot_clear(&plot);
}

void report_errors(const struct report *report, int *number, FILE *to) {
    write_errors(report, true, number, to);
    write_errors(report, false, number, to);
}
