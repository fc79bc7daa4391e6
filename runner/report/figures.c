/* figures.c - makes the figures of a page. A table says what each one shows; all are made from the rows in one way. */
#include "../base/fail.h"
#include "plot.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIGURES = 24 }; /* of rates */
#define CATEGORY_WIDTH 0.6 /* the part of a category over which the points of its series spread; the rest is a gap */
enum { BY_VARIANT = -1 };  /* else the horizontal axis shows the swept column of that number */

/* A figure while it is made. */
struct figure {
    const struct report *report;
    const struct figure_kind *kind;
    const char *operation;          /* for rates */
    int by;                         /* the swept column along the horizontal axis, or BY_VARIANT */
    bool *varying;                  /* for each swept column: has it several values among the operation's rows? */
    const char **categories;        /* the plot's */
    const struct report_run **runs; /* the runs that are drawn, in the report's order */
    int count;                      /* number of `runs` */
    struct plot_series *series;     /* all series; the plot gets the ones with the highest weights */
    int series_count;
    struct plot plot;
};

/* How a kind of figure is made of runs. */
struct figure_kind {
    const char *title, *about;
    struct plot_axis x, y;
    /* Which runs are drawn, and where. */
    bool (*place)(struct figure *figure, const struct report_run *run, struct plot_point *point);
    /* Returns the name of a run's series; the caller frees. */
    char *(*series)(const struct figure *figure, const struct report_run *run);
    /* Ends the plot, once its points are known. NULL: nothing is left to do. */
    void (*finish)(struct figure *figure);
    char *(*caption)(const struct figure *figure); /* NULL: `about` alone; the caller frees */
};

/* Can a rate, or an error, be drawn on a logarithmic scale? A damaged file may hold any value. */
static bool drawable(double value) {
    return value > 1e-30 && value < 1e30;
}

static bool drawable_error(double value) {
    return value > 1e-300 && value < 1e300;
}

/* ---- rates ---- */

/* A run's FLOP/s or B/s; NaN: it has no time, or the rate cannot be drawn. */
static double rate_of(const struct result_row *row) {
    double rate = row_timed(row) ? (view_counts_flops(row) ? row->flops : row->bytes) / row->kernel_median_s : NAN;
    return drawable(rate) ? rate : NAN;
}

/* Is the run one of the operation, with a rate? */
static bool has_rate(const struct report_run *run, const char *operation) {
    return strcmp(run->row->operation, operation) == 0 && isfinite(rate_of(run->row));
}

/* A run's value of a swept parameter; "": the run does not depend on the parameter. */
static const char *swept_text(const struct report *report, int column, const struct report_run *run) {
    return report->swept.columns[column].text[run - report->runs];
}

/* Computes the point of a run in a plot of rates: its rate with the 95 % interval, at its swept value or category.
 * false: the run has no place in the plot. */
static bool place_rate(struct figure *figure, const struct report_run *run, struct plot_point *point) {
    const struct report *report = figure->report;
    const struct result_row *row = run->row;
    bool swept = figure->by != BY_VARIANT;
    const char *text = swept ? swept_text(report, figure->by, run) : row->variant;
    if (!has_rate(run, figure->operation) || !*text) return false;
    point->y = rate_of(row);
    point->low = point->y * row->kernel_median_s / row->kernel_ci_high_s;
    point->high = point->y * row->kernel_median_s / row->kernel_ci_low_s;
    if (!(point->low > 0 && point->low <= point->y && point->high >= point->y && drawable(point->high)))
        point->low = point->high = NAN;
    if (swept && report->swept.columns[figure->by].kind != SWEPT_TEXT) {
        point->x = report->swept.columns[figure->by].number[run - report->runs];
        return isfinite(point->x);
    }
    point->x = report_find_or_add(text, figure->categories, &figure->plot.x.category_count);
    return true;
}

/* Names the rates by everything but what the axis shows: "A tiled, n=512, float32". */
static char *name_rates(const struct figure *figure, const struct report_run *run) {
    const struct swept *swept = &figure->report->swept;
    char *name = must_strdup(run->file->letter);
    if (figure->by != BY_VARIANT) must_append(&name, "%s%s", *name ? " " : "", run->row->variant);
    for (int i = 0; i < swept->count; i++) {
        const char *value = swept_text(figure->report, i, run);
        bool says_what = swept->columns[i].kind == SWEPT_TEXT; /* "float32" */
        if (i == figure->by || !figure->varying[i] || !*value) continue;
        must_append(&name, ", %s%s%s", says_what ? "" : swept->columns[i].name, says_what ? "" : "=", value);
    }
    return name;
}

/* Sets how the series look. Along an axis of numbers their points are joined by lines. Along categories each series
 * gets a colour and shape, and its points are shifted sideways so that they do not cover those of others.
 * A grey series stays as it is. */
static void finish_rates(struct figure *figure) {
    struct plot *plot = &figure->plot;
    bool numbers = plot->x.category_count == 0;
    plot->ticks_at_points = true;
    plot->x.title = figure->by >= 0 ? figure->report->swept.columns[figure->by].name : "variant";
    plot->x.categories = numbers ? NULL : figure->categories;
    plot->y.unit = view_counts_flops(figure->runs[0]->row) ? UNIT_FLOPS : UNIT_BYTES;
    for (int s = 0; s < plot->series_count; s++) {
        struct plot_series *series = &plot->series[s];
        if (series->colour == PLOT_GREY) continue;
        if (numbers) {
            series->kind = PLOT_JOINED;
            continue;
        }
        series->colour = s % PLOT_COLOURS;
        series->shape = s % PLOT_SHAPES;
        series->dash = 0;
        double shift = CATEGORY_WIDTH * ((s + 0.5) / plot->series_count - 0.5);
        for (int i = 0; i < series->count; i++) series->points[i].x += shift;
    }
}

static bool same_case(const struct report_run *one, const struct report_run *other) {
    return one->file == other->file && strcmp(one->row->parameters, other->row->parameters) == 0;
}

/* Counts the cases (a file's runs with the same parameters, which are adjacent) and, by variant, those that it wins. A
 * case with a first launch has no winner. Returns the run with the highest rate. */
static const struct report_run *count_wins(const struct figure *figure, double *wins, int *cases) {
    const struct report_run *best = figure->runs[0];
    for (int first = 0, end; first < figure->count; first = end, ++*cases) {
        const struct report_run *winner = figure->runs[first];
        bool cold = false;
        for (end = first; end < figure->count && same_case(figure->runs[first], figure->runs[end]); end++) {
            cold |= result_row_is_cold(figure->runs[end]->row);
            if (rate_of(figure->runs[end]->row) > rate_of(winner->row)) winner = figure->runs[end];
        }
        wins[winner->variant] += !cold;
        if (rate_of(winner->row) > rate_of(best->row)) best = winner;
    }
    return best;
}

/* The caption "blocked is the fastest in 4 of 6 cases, cpu in 2. Highest rate: ..." A variant that wins all cases is
 * called the fastest without a number. The caller frees. */
static char *caption_rates(const struct figure *figure) {
    const struct report *report = figure->report;
    OWNED double *wins = must_zeroed((size_t)report->variant_count * sizeof *wins);
    char *caption = must_strdup(""), rate[VIEW_CELL];
    int cases = 0, busy = 0;
    bool intervals = false;
    const struct result_row *best = count_wins(figure, wins, &cases)->row;
    for (int i = 0; i < 3; i++) { /* the three variants with the most wins */
        int v = report_largest(wins, report->variant_count);
        if (wins[v] <= 0) break;
        must_append(&caption, i ? ", %s" : "%s is the fastest", report->variants[v]);
        if (wins[v] < cases) must_append(&caption, i ? " in %.0f" : " in %.0f of %d cases", wins[v], cases);
        wins[v] = 0;
    }
    if (!*caption)
        must_append(&caption, "First launches include the loading of code, so no variant counts as the fastest");
    must_append(&caption, ". Highest rate: %s, %s%s%s.", best->variant,
                view_rate_text(rate_of(best), view_counts_flops(best), rate), best->parameters[0] ? " at " : "",
                best->parameters);
    for (int i = 0; i < figure->count; i++) {
        intervals |= isfinite(figure->runs[i]->row->kernel_ci_low_s);
        busy += strstr(figure->runs[i]->row->flags, FLAG_BUSY) != NULL;
    }
    if (intervals) must_append(&caption, " Bars are 95 %% intervals of the median.");
    if (busy)
        must_append(&caption, " Other programs used the CPUs during %d of the %d runs, so their order may be another.",
                    busy, figure->count);
    return caption;
}

/* ---- the roofline ---- */

/* The work for the roofline: flops or, for an operation that only moves data, the number of elements that it moves. */
static double work_of(const struct result_row *row) {
    const struct operation *operation = operation_find(row->op);
    if (row->flops > 0 || !operation || operation->rate == RATE_FLOPS) return row->flops;
    for (int type = 0; type < DTYPE_COUNT; type++)
        if (strcmp(dtype_name((enum dtype)type), row->dtype) == 0)
            return row->bytes / (2.0 * (double)dtype_size((enum dtype)type));
    return NAN;
}

/* Computes the point of a run in the roofline: work a second over work per byte. false: it has none. */
static bool place_in_roofline(struct figure *figure, const struct report_run *run, struct plot_point *point) {
    const struct result_row *row = run->row;
    (void)figure;
    double work = work_of(row);
    point->x = work / row->bytes;
    point->y = work / row->kernel_median_s;
    return work > 0 && row->bytes > 0 && row_timed(row) && drawable(point->x) && drawable(point->y);
}

/* The bytes or operations in a second that a device's measured limits allow. */
struct roof {
    const struct result_row *row; /* its bound_s gives the value */
    bool memory;                  /* bytes; else operations */
    double value;
};

static bool same_device(const struct roof *one, const struct roof *other) {
    return strcmp(one->row->device, other->row->device) == 0 &&
           strcmp(one->row->device_name, other->row->device_name) == 0;
}

/* Adds the roof that limits a row, unless the list has it: one of the same device and kind (and, for operations,
 * type) that differs by less than 2 %. Returns the new count. */
static int add_roof(const struct result_row *row, struct roof roofs[PLOT_LINES], int count) {
    struct roof roof = {row, strcmp(row->bound_by, "memory") == 0, 0};
    roof.value = (roof.memory ? row->bytes : row->flops) / row->bound_s;
    if (!roof.memory && strcmp(row->bound_by, "compute") != 0) return count;
    if (count == PLOT_LINES || !(row->bound_s > 0) || !drawable(roof.value)) return count;
    for (int i = 0; i < count; i++) {
        bool same_kind = roofs[i].memory == roof.memory && same_device(&roofs[i], &roof);
        bool same_type = roof.memory || strcmp(roofs[i].row->dtype, row->dtype) == 0;
        if (same_kind && same_type && fabs(roofs[i].value / roof.value - 1) < 0.02) return count;
    }
    roofs[count] = roof;
    return count + 1;
}

/* Draws a roof as a line: a memory roof up to the highest compute roof of its device, a compute roof from the highest
 * memory roof on. `low` and `high` are the smallest and largest intensities of the runs. */
static void draw_roof(struct plot *plot, const struct roof roofs[], int count, const struct roof *roof, double low,
                      double high) {
    double knee = 0; /* the intensity at which the two kinds of roofs meet; 0: there is only one kind */
    bool several_devices = false;
    char rate[VIEW_CELL];
    for (int i = 0; i < count; i++) {
        several_devices |= !same_device(&roofs[i], roof);
        if (roofs[i].memory == roof->memory || !same_device(&roofs[i], roof)) continue;
        double x = roof->memory ? roofs[i].value / roof->value : roof->value / roofs[i].value;
        knee = knee == 0 ? x : roof->memory ? fmax(knee, x) : fmin(knee, x);
    }
    double end = !roof->memory ? fmax(2 * high, 4 * knee) : knee > 0 ? knee : 2 * high;
    double begin = roof->memory ? fmin(low, end / 4) : knee > 0 ? knee : low / 2;
    plot_add_line(plot, begin, roof->value * (roof->memory ? begin : 1), end, roof->value * (roof->memory ? end : 1),
                  must_printf("%s%s%s%s%s", several_devices ? roof->row->device : "", several_devices ? " " : "",
                              roof->memory ? "" : roof->row->dtype, roof->memory ? "" : " ",
                              view_rate_text(roof->value, !roof->memory, rate)));
}

/* Draws the roofs that limit the runs. */
static void finish_roofline(struct figure *figure) {
    struct roof roofs[PLOT_LINES];
    int count = 0;
    double low = INFINITY, high = 0;
    for (int i = 0; i < figure->count; i++) {
        const struct result_row *row = figure->runs[i]->row;
        low = fmin(low, work_of(row) / row->bytes);
        high = fmax(high, work_of(row) / row->bytes);
        count = add_roof(row, roofs, count);
    }
    for (int i = 0; i < count; i++) draw_roof(&figure->plot, roofs, count, &roofs[i], low, high);
}

/* ---- error against speed ---- */

/* Computes the point of a run in a plot of errors: its error over its rate, in the plot's unit. false: it has none. */
static bool place_error(struct figure *figure, const struct report_run *run, struct plot_point *point) {
    const struct result_row *row = run->row;
    point->x = rate_of(row);
    point->y = row->error;
    if (drawable_error(row->tolerance)) point->mark = row->tolerance;
    return view_counts_flops(row) == (figure->kind->x.unit == UNIT_FLOPS) && isfinite(point->x) &&
           (row->error == 0 || drawable_error(row->error));
}

/* Names a series by the variant alone. */
static char *name_variant(const struct figure *figure, const struct report_run *run) {
    (void)figure;
    return must_strdup(run->row->variant);
}

/* ---- the table of figures ---- */

#define ABOUT_ROOFS                                                                                                    \
    "A point is a run; a transpose counts each element moved as an operation. Lines are the measured limits, where "   \
    "the "                                                                                                             \
    "results hold them."
#define ABOUT_ERRORS                                                                                                   \
    "The best runs are at the lower right. A dash is a run's tolerance; an error above it is wrong. Runs without any " \
    "error stand on the line marked 0."
// clang-format off
static const struct figure_kind rates =
    {"", "", {0}, {.title = "rate"},
     place_rate, name_rates, finish_rates, caption_rates};
static const struct figure_kind limits[] = {
    {"Roofline: rate against arithmetic intensity", ABOUT_ROOFS,
     {.title = "operations per byte", .scale = SCALE_LOG}, {.title = "rate", .scale = SCALE_LOG, .unit = UNIT_FLOPS},
     place_in_roofline, name_variant, finish_roofline, NULL},
    {"Error against speed, in FLOP/s", ABOUT_ERRORS,
     {.title = "rate", .unit = UNIT_FLOPS}, {.title = "error", .scale = SCALE_LOG_ZERO},
     place_error, name_variant, NULL, NULL},
    {"Error against speed, in B/s", ABOUT_ERRORS,
     {.title = "rate", .unit = UNIT_BYTES}, {.title = "error", .scale = SCALE_LOG_ZERO},
     place_error, name_variant, NULL, NULL},
};
// clang-format on

/* ---- from runs to a plot ---- */

/* The series that a run belongs to, which is added if it is new. */
static struct plot_series *series_of(struct figure *figure, const struct report_run *run) {
    char *name = figure->kind->series(figure, run);
    for (int i = 0; i < figure->series_count; i++)
        if (strcmp(figure->series[i].label, name) == 0) return free(name), &figure->series[i];
    struct plot_series *series = APPEND(figure->series, figure->series_count);
    *series =
        (struct plot_series){.label = name, .colour = run->variant % PLOT_COLOURS, .shape = run->variant % PLOT_SHAPES};
    return series;
}

/* Adds a run's point to its series. Plots of rates prefer series with high rates, others those with many points. */
static void add_point(struct figure *figure, const struct report_run *run, struct plot_point point) {
    struct plot_series *series = series_of(figure, run);
    OWNED char *name = report_run_name(run);
    char rate[VIEW_CELL];
    run_cell(run, "rate", rate);
    point.about = must_printf("%s: %s", name, rate);
    series->weight = figure->operation ? fmax(series->weight, point.y) : series->weight + 1;
    plot_add(series, point);
    figure->runs[figure->count++] = run;
}

static int by_x(const void *first, const void *second) {
    const struct plot_point *a = first, *b = second;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* Moves the series of the highest weights into the plot, in their order, and the points of the others as one grey
 * series. */
static void choose_series(struct figure *figure) {
    struct plot *plot = &figure->plot;
    int count = figure->series_count, shown = count > PLOT_SERIES ? PLOT_SERIES - 1 : count;
    OWNED double *weight = must_malloc((size_t)count * sizeof *weight);
    struct plot_series others = {.label = must_printf("%d others", count - shown), .colour = PLOT_GREY};
    for (int i = 0; i < count; i++) weight[i] = figure->series[i].weight;
    for (int i = 0; i < shown; i++) weight[report_largest(weight, count)] = -1; /* the series is shown */
    for (int i = 0; i < count; i++) {
        struct plot_series *from = &figure->series[i];
        bool is_shown = !(weight[i] >= 0);
        if (!is_shown) {
            for (int k = 0; k < from->count; k++) plot_add(&others, from->points[k]);
            free(from->points);
            free(from->label);
            continue;
        }
        for (int s = 0; s < plot->series_count; s++)
            from->dash += plot->series[s].colour == from->colour && plot->series[s].shape == from->shape;
        qsort(from->points, (size_t)from->count, sizeof *from->points, by_x);
        plot->series[plot->series_count++] = *from;
    }
    if (others.count > 0)
        plot->series[plot->series_count++] = others;
    else
        free(others.label);
}

/* Is any y not 0? A plot of errors that are all 0 shows nothing. */
static bool has_height(const struct plot *plot) {
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++)
            if (plot->series[s].points[i].y != 0) return true;
    return false;
}

/* Writes a figure, unless it has nothing to show. */
static void write_figure(struct figure figure, FILE *to) {
    const struct report *report = figure.report;
    figure.plot = (struct plot){.x = figure.kind->x, .y = figure.kind->y};
    figure.runs = must_malloc((size_t)report->count * sizeof *figure.runs + 1);
    figure.categories = must_malloc((size_t)report->count * sizeof *figure.categories + 1);
    for (int i = 0; i < report->count; i++) {
        struct plot_point point = {.low = NAN, .high = NAN, .mark = NAN};
        if (figure.kind->place(&figure, &report->runs[i], &point)) add_point(&figure, &report->runs[i], point);
    }
    if (figure.count > 0) choose_series(&figure);
    if (has_height(&figure.plot)) {
        if (figure.kind->finish) figure.kind->finish(&figure);
        OWNED char *caption = figure.kind->caption ? figure.kind->caption(&figure) : must_strdup(figure.kind->about);
        OWNED char *title = figure.operation ? must_printf("%s: rate %s %s", figure.operation,
                                                           figure.by >= 0 ? "against" : "by", figure.plot.x.title)
                                             : must_strdup(figure.kind->title);
        figure.plot.title = title;
        if (!report->alone) html(to, "<figure>\n<figcaption><h3>%s</h3><p>%s</p></figcaption>\n", title, caption);
        plot_write(&figure.plot, report->alone, to);
        if (!report->alone) fputs("</figure>\n", to);
    }
    plot_clear(&figure.plot);
    free(figure.series);
    free(figure.runs);
    free(figure.categories);
}

/* ---- which figures there are ---- */

/* Have the operation's runs with rates several values of a swept parameter? BY_VARIANT: are there several runs? */
static bool varies(const struct report *report, const char *operation, int by) {
    const struct report_run *first = NULL;
    for (int i = 0; i < report->count; i++) {
        const struct report_run *run = &report->runs[i];
        const char *value = by == BY_VARIANT ? "" : swept_text(report, by, run);
        if (!has_rate(run, operation) || (by != BY_VARIANT && !*value)) continue;
        if (first && (by == BY_VARIANT || strcmp(value, swept_text(report, by, first)) != 0)) return true;
        if (!first) first = run;
    }
    return false;
}

/* Writes an operation's figures, until the page has its maximum. `before`: the number of figures so far. Returns the
 * number that the operation would have without the limit. */
static int write_operation(const struct report *report, const char *operation, int before, FILE *to) {
    int columns = report->swept.count, max_figures = report->alone ? 1 : MAX_FIGURES, wanted = 0;
    OWNED bool *varying = must_malloc((size_t)columns + 1);
    struct figure figure = {.report = report, .kind = &rates, .operation = operation, .varying = varying};
    for (int i = 0; i < columns; i++) varying[i] = varies(report, operation, i);
    for (figure.by = 0; figure.by < columns; figure.by++)
        if (varying[figure.by] && before + ++wanted <= max_figures) write_figure(figure, to);
    figure.by = BY_VARIANT;
    if (wanted == 0 && varies(report, operation, BY_VARIANT) && before + ++wanted <= max_figures)
        write_figure(figure, to);
    return wanted;
}

void report_speed(const struct report *report, FILE *to) {
    OWNED const char **known = must_malloc((size_t)report->count * sizeof *known + 1);
    int count = 0, wanted = 0;
    for (int row = 0; row < report->count; row++) {
        const char *operation = report->runs[row].row->operation;
        int known_before = count;
        bool is_new = report_find_or_add(operation, known, &count) == known_before;
        if (is_new) wanted += write_operation(report, operation, wanted, to);
    }
    if (wanted > MAX_FIGURES && !report->alone)
        fprintf(to, "<p class=\"wide\">%d of %d plots are shown; the table of runs has all.</p>\n", (int)MAX_FIGURES,
                wanted);
}

void report_limits(const struct report *report, FILE *to) {
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        write_figure((struct figure){.report = report, .kind = &limits[i]}, to);
}
