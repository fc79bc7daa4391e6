/* figures.c - the figures of a page: one table of what each shows, and one way from rows to a plot. */
#include "../base/fail.h"
#include "plot.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIGURES = 24 };
enum { BY_VARIANT = -1 }; /* else the horizontal axis shows the swept column of that number */

struct figure {
    const struct report *report;
    const struct figure_kind *kind;
    const char *operation; /* of rates */
    int by;
    bool *varying;           /* by swept column: has it several values among the operation's rows? */
    const char **categories; /* the plot's */
    int *rows;               /* drawn, in their order */
    int count;
    struct plot_series *series; /* all; the plot has those of the highest weights */
    int series_count;
    struct plot plot;
};

struct figure_kind {
    const char *title, *about;
    struct plot_axis x, y;
    /* Which rows are drawn, and where. */
    bool (*place)(struct figure *figure, int row, struct plot_point *point);
    /* What tells a row's series from others; the caller frees. */
    char *(*series)(const struct figure *figure, int row);
    /* Ends the plot, once its points are known. NULL: nothing is left to do. */
    void (*finish)(struct figure *figure);
    char *(*caption)(const struct figure *figure); /* NULL: `about` alone; the caller frees */
};

static bool drawable(double value) { /* what a damaged file may hold is not drawn */
    return value > 1e-30 && value < 1e30;
}

/* ---- rates ---- */

static double rate_of(const struct result_row *row) {
    double rate = row_timed(row) ? (row_in_flops(row) ? row->flops : row->bytes) / row->kernel_median_s : NAN;
    return drawable(rate) ? rate : NAN;
}

static bool has_rate(const struct report *report, const char *operation, int row) {
    return strcmp(report->rows[row].operation, operation) == 0 && isfinite(rate_of(&report->rows[row]));
}

static bool place_rate(struct figure *figure, int row, struct plot_point *point) {
    const struct report *report = figure->report;
    const struct result_row *it = &report->rows[row];
    const struct swept_column *column = figure->by >= 0 ? &report->swept.columns[figure->by] : NULL;
    if (!has_rate(report, figure->operation, row) || (column && !column->text[row][0])) return false;
    point->y = rate_of(it);
    point->low = point->y * it->kernel_median_s / it->kernel_ci_high_s;
    point->high = point->y * it->kernel_median_s / it->kernel_ci_low_s;
    if (!(point->low > 0 && point->low <= point->y && point->high >= point->y && drawable(point->high)))
        point->low = point->high = NAN;
    if (column && column->kind != SWEPT_TEXT) return isfinite(point->x = column->number[row]);
    const char *text = column ? column->text[row] : report->variants[report->variant[row]];
    point->x = number_of(text, figure->categories, &figure->plot.x.category_count);
    return true;
}

/* Everything but what the axis shows: "A tiled, n=512, float32". */
static char *name_rates(const struct figure *figure, int row) {
    const struct report *report = figure->report;
    const char *letter = report->letter[report->file[row]];
    char *name;
    size_t length;
    FILE *to = must_stream(&name, &length);
    fputs(letter, to);
    if (figure->by != BY_VARIANT) fprintf(to, "%s%s", *letter ? " " : "", report->rows[row].variant);
    for (int i = 0; i < report->swept.count; i++) {
        const struct swept_column *column = &report->swept.columns[i];
        if (i == figure->by || !figure->varying[i] || !column->text[row][0]) continue;
        bool text = column->kind == SWEPT_TEXT; /* it says what it is, "float32" */
        fprintf(to, ", %s%s%s", text ? "" : column->name, text ? "" : "=", column->text[row]);
    }
    fclose(to);
    return name;
}

/* Series over numbers are joined; those over categories get points, side by side, and looks of their own. */
static void finish_rates(struct figure *figure) {
    struct plot *plot = &figure->plot;
    bool numbers = plot->x.category_count == 0;
    plot->own_ticks = true;
    plot->x.title = figure->by >= 0 ? figure->report->swept.columns[figure->by].name : "variant";
    plot->x.categories = numbers ? NULL : figure->categories;
    plot->y.unit = row_in_flops(&figure->report->rows[figure->rows[0]]) ? UNIT_FLOPS : UNIT_BYTES;
    for (int s = 0; s < plot->series_count; s++) {
        struct plot_series *series = &plot->series[s];
        if (series->colour == PLOT_GREY) continue;
        if (numbers) series->kind = PLOT_JOINED;
        if (numbers) continue;
        series->colour = s % PLOT_COLOURS;
        series->shape = s % PLOT_SHAPES;
        series->dash = 0;
        for (int i = 0; i < series->count; i++) series->points[i].x += 0.6 * ((s + 0.5) / plot->series_count - 0.5);
    }
}

static bool same_case(const struct report *report, int one, int other) {
    return report->file[one] == report->file[other] &&
           strcmp(report->rows[one].parameters, report->rows[other].parameters) == 0;
}

/* Counts the cases (a file's rows of the same parameters, which are adjacent) and, by variant, those that it wins. */
static int count_wins(const struct figure *figure, double *wins, int *best) {
    const struct report *report = figure->report;
    int cases = 0;
    *best = figure->rows[0];
    for (int first = 0, end; first < figure->count; first = end, cases++) {
        int winner = figure->rows[first];
        for (end = first; end < figure->count && same_case(report, figure->rows[first], figure->rows[end]); end++)
            if (rate_of(&report->rows[figure->rows[end]]) > rate_of(&report->rows[winner])) winner = figure->rows[end];
        wins[report->variant[winner]]++;
        if (rate_of(&report->rows[winner]) > rate_of(&report->rows[*best])) *best = winner;
    }
    return cases;
}

/* "blocked is the fastest in 4 of 6 cases, cpu in 2." A variant is called the fastest, with no number, only if it loses
 * none of the cases shown. */
static char *caption_rates(const struct figure *figure) {
    const struct report *report = figure->report;
    double *wins = must_malloc((size_t)report->variant_count * sizeof *wins);
    char *caption, rate[VIEW_CELL];
    size_t size;
    int best, cases = 0;
    bool intervals = false;
    for (int v = 0; v < report->variant_count; v++) wins[v] = 0;
    cases = count_wins(figure, wins, &best);
    FILE *to = must_stream(&caption, &size);
    for (int i = 0, v; i < 3 && wins[v = largest(wins, report->variant_count)] > 0; i++) {
        fprintf(to, i ? ", %s" : "%s is the fastest", report->variants[v]);
        if (wins[v] < cases) fprintf(to, i ? " in %.0f" : " in %.0f of %d cases", wins[v], cases);
        wins[v] = 0;
    }
    const struct result_row *row = &report->rows[best];
    fprintf(to, ". Highest rate: %s, %s%s%s.", row->variant, rate_text(rate_of(row), row_in_flops(row), rate),
            row->parameters[0] ? " at " : "", row->parameters);
    for (int i = 0; i < figure->count; i++) intervals |= isfinite(report->rows[figure->rows[i]].kernel_ci_low_s);
    if (intervals) fputs(" Bars are 95 % intervals of the median.", to);
    fclose(to);
    free(wins);
    return caption;
}

/* ---- the roofline ---- */

/* Of an operation that only moves data, each element moved counts as one. */
static double work_of(const struct result_row *row) {
    const struct operation *operation = operation_find(row->op);
    if (row->flops > 0 || !operation || operation->rate == RATE_FLOPS) return row->flops;
    for (int type = 0; type < DTYPE_COUNT; type++)
        if (strcmp(dtype_name((enum dtype)type), row->dtype) == 0)
            return row->bytes / (2.0 * (double)dtype_size((enum dtype)type));
    return NAN;
}

static bool place_in_roofline(struct figure *figure, int row, struct plot_point *point) {
    const struct result_row *it = &figure->report->rows[row];
    double work = work_of(it);
    point->x = work / it->bytes;
    point->y = work / it->kernel_median_s;
    return work > 0 && it->bytes > 0 && row_timed(it) && drawable(point->x) && drawable(point->y);
}

/* The bytes or operations in a second that a device's measured limits allow. */
struct roof {
    const struct result_row *row; /* that tells it */
    bool memory;
    double value;
};

static bool same_device(const struct roof *one, const struct roof *other) {
    return strcmp(one->row->device, other->row->device) == 0 &&
           strcmp(one->row->device_name, other->row->device_name) == 0;
}

/* Adds what a row says of a roof, unless one of the same device (and, for operations, type) says much the same. */
static int add_roof(const struct result_row *row, struct roof roofs[PLOT_LINES], int count) {
    struct roof roof = {row, strcmp(row->bound_by, "memory") == 0, 0};
    roof.value = (roof.memory ? row->bytes : row->flops) / row->bound_s;
    if (!roof.memory && strcmp(row->bound_by, "compute") != 0) return count;
    if (count == PLOT_LINES || !(row->bound_s > 0) || !drawable(roof.value)) return count;
    for (int i = 0; i < count; i++)
        if (roofs[i].memory == roof.memory && same_device(&roofs[i], &roof) &&
            (roof.memory || strcmp(roofs[i].row->dtype, row->dtype) == 0) &&
            fabs(roofs[i].value / roof.value - 1) < 0.02)
            return count;
    roofs[count] = roof;
    return count + 1;
}

/* A memory roof rises to the highest roof of operations on its device; these begin where the highest memory roof meets
 * them. */
static void draw_roof(struct plot *plot, const struct roof roofs[], int count, const struct roof *roof, double low,
                      double high) {
    double knee = 0;
    bool devices = false;
    char rate[VIEW_CELL];
    for (int i = 0; i < count; i++) {
        devices |= !same_device(&roofs[i], roof);
        if (roofs[i].memory == roof->memory || !same_device(&roofs[i], roof)) continue;
        double x = roof->memory ? roofs[i].value / roof->value : roof->value / roofs[i].value;
        knee = knee == 0 ? x : roof->memory ? fmax(knee, x) : fmin(knee, x);
    }
    double end = !roof->memory ? fmax(high, 4 * knee) : knee > 0 ? knee : high;
    double begin = roof->memory ? fmin(low, end / 4) : knee > 0 ? knee : low;
    plot_add_line(plot, begin, roof->value * (roof->memory ? begin : 1), end, roof->value * (roof->memory ? end : 1),
                  must_printf("%s%s%s%s%s", devices ? roof->row->device : "", devices ? " " : "",
                              roof->memory ? "" : roof->row->dtype, roof->memory ? "" : " ",
                              rate_text(roof->value, !roof->memory, rate)));
}

static void finish_roofline(struct figure *figure) {
    struct roof roofs[PLOT_LINES];
    int count = 0;
    double low = INFINITY, high = 0;
    for (int i = 0; i < figure->count; i++) {
        const struct result_row *row = &figure->report->rows[figure->rows[i]];
        low = fmin(low, work_of(row) / row->bytes);
        high = fmax(high, work_of(row) / row->bytes);
        count = add_roof(row, roofs, count);
    }
    for (int i = 0; i < count; i++) draw_roof(&figure->plot, roofs, count, &roofs[i], low, high);
}

/* ---- error against speed ---- */

static bool place_error(struct figure *figure, int row, struct plot_point *point) {
    const struct result_row *it = &figure->report->rows[row];
    point->x = rate_of(it);
    point->y = it->error;
    if (it->tolerance > 1e-300 && it->tolerance < 1e300) point->mark = it->tolerance;
    return row_in_flops(it) == (figure->kind->x.unit == UNIT_FLOPS) && isfinite(point->x) &&
           (it->error == 0 || (it->error > 1e-300 && it->error < 1e300));
}

static char *name_variant(const struct figure *figure, int row) {
    return must_strdup(figure->report->rows[row].variant);
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
    {"", "", {.scale = SCALE_BY_RANGE}, {.title = "rate", .scale = SCALE_BY_RANGE},
     place_rate, name_rates, finish_rates, caption_rates};
static const struct figure_kind limits[] = {
    {"Roofline: rate against arithmetic intensity", ABOUT_ROOFS,
     {.title = "operations per byte", .scale = SCALE_LOG}, {.title = "rate", .scale = SCALE_LOG, .unit = UNIT_FLOPS},
     place_in_roofline, name_variant, finish_roofline, NULL},
    {"Error against speed, in FLOP/s", ABOUT_ERRORS,
     {.title = "rate", .scale = SCALE_BY_RANGE, .unit = UNIT_FLOPS}, {.title = "error", .scale = SCALE_LOG_ZERO},
     place_error, name_variant, NULL, NULL},
    {"Error against speed, in B/s", ABOUT_ERRORS,
     {.title = "rate", .scale = SCALE_BY_RANGE, .unit = UNIT_BYTES}, {.title = "error", .scale = SCALE_LOG_ZERO},
     place_error, name_variant, NULL, NULL},
};
// clang-format on

/* ---- from rows to a plot ---- */

static void add_point(struct figure *figure, int row, struct plot_point point) {
    const struct report *report = figure->report;
    char *name = figure->kind->series(figure, row), *run = run_name(report, row), rate[VIEW_CELL];
    int i = 0;
    while (i < figure->series_count && strcmp(figure->series[i].label, name) != 0) i++;
    if (i == figure->series_count) {
        figure->series = must_realloc(figure->series, (size_t)(i + 1) * sizeof *figure->series);
        figure->series[figure->series_count++] = (struct plot_series){.label = must_strdup(name),
                                                                      .colour = report->variant[row] % PLOT_COLOURS,
                                                                      .shape = report->variant[row] % PLOT_SHAPES};
    }
    run_cell(report, row, "rate", rate);
    point.about = must_printf("%s: %s", run, rate);
    figure->series[i].weight =
        figure->operation ? fmax(figure->series[i].weight, point.y) : figure->series[i].weight + 1;
    plot_add(&figure->series[i], point);
    figure->rows[figure->count++] = row;
    free(run);
    free(name);
}

static int by_x(const void *left, const void *right) {
    const struct plot_point *a = left, *b = right;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* Moves the series of the highest weights into the plot, in their order, the others' points as one grey series. */
static void choose_series(struct figure *figure) {
    struct plot *plot = &figure->plot;
    int count = figure->series_count, own = count > PLOT_SERIES ? PLOT_SERIES - 1 : count;
    double *weight = must_malloc((size_t)count * sizeof *weight);
    struct plot_series others = {.label = must_printf("%d others", count - own), .colour = PLOT_GREY};
    for (int i = 0; i < count; i++) weight[i] = figure->series[i].weight;
    for (int i = 0; i < own; i++) weight[largest(weight, count)] = -1;
    for (int i = 0; i < count; i++) {
        struct plot_series *from = &figure->series[i];
        for (int k = 0; k < from->count && weight[i] >= 0; k++) plot_add(&others, from->points[k]);
        if (weight[i] >= 0) {
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
    free(weight);
}

/* Is there a height to be seen? Of errors, one that is not 0. */
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
    figure.rows = must_malloc((size_t)report->count * sizeof *figure.rows + 1);
    figure.categories = must_malloc((size_t)report->count * sizeof *figure.categories + 1);
    for (int row = 0; row < report->count; row++) {
        struct plot_point point = {.low = NAN, .high = NAN, .mark = NAN};
        if (figure.kind->place(&figure, row, &point)) add_point(&figure, row, point);
    }
    if (figure.count > 0) choose_series(&figure);
    if (has_height(&figure.plot)) {
        if (figure.kind->finish) figure.kind->finish(&figure);
        char *caption = figure.kind->caption ? figure.kind->caption(&figure) : must_strdup(figure.kind->about);
        char *title = figure.operation ? must_printf("%s: rate %s %s", figure.operation,
                                                     figure.by >= 0 ? "against" : "by", figure.plot.x.title)
                                       : must_strdup(figure.kind->title);
        figure.plot.title = title;
        if (!report->alone) html(to, "<figure>\n<figcaption><h3>%s</h3><p>%s</p></figcaption>\n", title, caption);
        plot_write(&figure.plot, report->alone, to);
        if (!report->alone) fputs("</figure>\n", to);
        free(title);
        free(caption);
    }
    plot_clear(&figure.plot);
    free(figure.series);
    free(figure.rows);
    free(figure.categories);
}

/* ---- which figures there are ---- */

/* Have the operation's rows with rates several values of a swept column? BY_VARIANT: are there several rows? */
static bool varies(const struct report *report, const char *operation, int by) {
    const struct swept_column *column = by >= 0 ? &report->swept.columns[by] : NULL;
    int first = -1;
    for (int row = 0; row < report->count; row++) {
        if (!has_rate(report, operation, row) || (column && !column->text[row][0])) continue;
        if (first >= 0 && (!column || strcmp(column->text[row], column->text[first]) != 0)) return true;
        if (first < 0) first = row;
    }
    return false;
}

/* Writes an operation's figures while fewer than the most are there; returns how many there would be. */
static int write_operation(const struct report *report, const char *operation, int before, FILE *to) {
    int columns = report->swept.count, most = report->alone ? 1 : MOST_FIGURES, wanted = 0;
    bool *varying = must_malloc((size_t)columns + 1);
    struct figure figure = {.report = report, .kind = &rates, .operation = operation, .varying = varying};
    for (int i = 0; i < columns; i++) varying[i] = varies(report, operation, i);
    for (figure.by = 0; figure.by < columns; figure.by++)
        if (varying[figure.by] && before + ++wanted <= most) write_figure(figure, to);
    figure.by = BY_VARIANT;
    if (wanted == 0 && varies(report, operation, BY_VARIANT) && before + ++wanted <= most) write_figure(figure, to);
    free(varying);
    return wanted;
}

enum status report_speed(const struct report *report, FILE *to, struct error *error) {
    const char **known = must_malloc((size_t)report->count * sizeof *known + 1);
    int count = 0, wanted = 0;
    (void)error;
    for (int row = 0; row < report->count; row++) {
        int before = count;
        if (number_of(report->rows[row].operation, known, &count) == before)
            wanted += write_operation(report, known[before], wanted, to);
    }
    if (wanted > MOST_FIGURES && !report->alone)
        fprintf(to, "<p class=\"wide\">%d of %d plots are shown; the table of runs has all.</p>\n", (int)MOST_FIGURES,
                wanted);
    free(known);
    return STATUS_OK;
}

enum status report_limits(const struct report *report, FILE *to, struct error *error) {
    (void)error;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        write_figure((struct figure){.report = report, .kind = &limits[i]}, to);
    return STATUS_OK;
}
