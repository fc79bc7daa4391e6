/* plot.c - chooses the scales and ticks of a plot, and writes its axes, series and names as inline SVG. */
#include "plot.h"

#include "../base/fail.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The drawing, in pixels. Points lie between LEFT and RIGHT; the names of the series begin at NAMES. A plot of one
 * series has no names, and its points reach WIDE_RIGHT. */
enum { WIDTH = 472, HEIGHT = 292, LEFT = 66, RIGHT = 296, WIDE_RIGHT = 456, TOP = 14, BOTTOM = 240, NAMES = 310 };
enum {
    /* Maximum of characters in a text; a longer text is shortened. */
    NAME_CHARACTERS = 24,     /* the name of a series */
    LINE_CHARACTERS = 28,     /* the name of a line */
    UPRIGHT_CHARACTERS = 40,  /* the name of a category */
    TILTED_CHARACTERS = 14,   /* the name of a category, tilted */
    UNSCALED_CHARACTERS = 20, /* a longer name of a series is scaled to end within the drawing in any font */
    TILT_DEGREES = 50,
    TILTED_HEIGHT = 56 /* pixels that tilted names add to the drawing */
};
enum { DASHES = 4, MAX_TICKS = 24, TICK_BYTES = 64 };
enum { MAX_TITLES = 300 }; /* with more points none has a tooltip, which would make the page large */
#define MARGIN    0.06     /* from the extreme values to the edges, as a share of the range */
#define CHARACTER 6.2      /* mean width of a character in the style sheet's font size, in pixels */

/* Maps an axis' values to positions in the drawing. */
struct scale {
    const struct plot_axis *axis;
    double low, high;    /* range of the values, in the axis' unit */
    double from, to;     /* their positions in the drawing */
    double min_positive; /* smallest value above 0 */
    bool log, zero;      /* is the scale logarithmic; if so, are there zeros, drawn at `floor`? */
    double floor;
    double unit; /* labels of ticks are values divided by it: 1e9 for GFLOP/s */
    const char *unit_name;
    double ticks[MAX_TICKS]; /* values, not divided by `unit` */
    int tick_count;
    bool powers; /* all ticks are written as powers of ten */
};

void plot_add(struct plot_series *series, struct plot_point point) {
    *APPEND(series->points, series->count) = point;
}

void plot_add_line(struct plot *plot, double x0, double y0, double x1, double y1,
                   char *label) { // NOLINT(readability-non-const-parameter)
    struct plot_series *line = &plot->series[plot->series_count++];
    *line = (struct plot_series){.label = label, .kind = PLOT_LINE};
    plot_add(line, (struct plot_point){x0, y0, NAN, NAN, NAN, NULL});
    plot_add(line, (struct plot_point){x1, y1, NAN, NAN, NAN, NULL});
}

void plot_clear(struct plot *plot) {
    for (int s = 0; s < plot->series_count; s++) {
        for (int i = 0; i < plot->series[s].count; i++) free(plot->series[s].points[i].about);
        free(plot->series[s].label);
        free(plot->series[s].points);
    }
    *plot = (struct plot){0};
}

/* ---- scales ---- */

/* The position of a value on the page, in pixels. */
static double pixel_of(const struct scale *scale, double value) {
    if (scale->zero && value < scale->floor) value = scale->floor;
    double part = scale->log ? log(value / scale->low) / log(scale->high / scale->low)
                             : (value - scale->low) / (scale->high - scale->low);
    if (!isfinite(part)) part = 0.5; /* a range beyond that of numbers */
    return scale->from + part * (scale->to - scale->from);
}

/* Extends the scale to a value. */
static void extend_scale(struct scale *scale, double value) {
    if (!isfinite(value)) return;
    scale->low = fmin(scale->low, value);
    scale->high = fmax(scale->high, value);
    if (value > 0) scale->min_positive = fmin(scale->min_positive, value);
}

/* Chooses the kind of scale (logarithmic or not), extends it beyond the least and largest values, so that markers do
 * not touch the edges, and chooses the unit that `tilerun show` has. `from_zero`: begin at 0 if no value is below. */
static void round_out(struct scale *scale, bool from_zero) {
    const struct plot_axis *axis = scale->axis;
    double span = scale->high - scale->low;
    scale->log = axis->scale != SCALE_BY_RANGE || (scale->low > 0 && scale->high > 10 * scale->low);
    scale->zero = axis->scale == SCALE_LOG_ZERO && scale->low <= 0;
    scale->floor = pow(10, floor(log10(scale->min_positive)) - 1);
    if (scale->log) scale->low = scale->zero ? scale->floor : scale->min_positive;
    if (axis->categories) {
        scale->log = false;
        scale->low = -0.5;
        scale->high = axis->category_count - 0.5;
    } else if (scale->log) {
        double factor = fmax(pow(scale->high / scale->low, MARGIN), 1.15); /* room around points that are all equal */
        scale->low /= factor;
        scale->high *= factor;
    } else if (from_zero && scale->low >= 0 && scale->high > 0) {
        scale->low = 0;
        scale->high *= 1.08; /* room for the markers at the top */
    } else {
        if (!(span > 0)) span = 8 * fmax(fabs(scale->high), 1); /* all values are equal: any range around them */
        scale->low -= MARGIN * span;
        scale->high += MARGIN * span;
    }
    bool tera = axis->unit == UNIT_FLOPS && scale->high >= 1e12;
    scale->unit = axis->unit == UNIT_NONE ? 1 : tera ? 1e12 : 1e9;
    scale->unit_name = axis->unit == UNIT_NONE ? "" : axis->unit == UNIT_BYTES ? "GB/s" : tera ? "TFLOP/s" : "GFLOP/s";
}

/* Sets both scales to hold all points. */
static void widen_all(const struct plot *plot, struct scale *x, struct scale *y) {
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            const struct plot_point *point = &plot->series[s].points[i];
            const double heights[] = {point->y, point->low, point->high, point->mark};
            extend_scale(x, point->x);
            for (int k = 0; k < 4; k++) extend_scale(y, heights[k]);
        }
    round_out(x, x->axis->unit != UNIT_NONE);
    round_out(y, true);
}

/* ---- ticks ---- */

static void add_tick(struct scale *scale, double tick) {
    if (scale->tick_count < MAX_TICKS) scale->ticks[scale->tick_count++] = tick * scale->unit;
}

/* Sets ticks at powers of ten: on a long axis only at every second, third or sixth; on a short axis also at 2 and 5
 * times these. */
static void find_log_ticks(struct scale *scale) {
    static const double within[] = {1, 2, 5};
    double low = scale->low / scale->unit, high = scale->high / scale->unit, decades = log10(high / low);
    int stride = decades > 24 ? 6 : decades > 12 ? 3 : decades > 7 ? 2 : 1, kinds = decades < 2.2 ? 3 : 1;
    for (int power = stride * (int)floor(floor(log10(low)) / stride);
         pow(10, power) <= high && scale->tick_count < MAX_TICKS; power += stride)
        for (int i = 0; i < kinds; i++) {
            double tick = within[i] * pow(10, power);
            if (tick >= low && tick <= high) add_tick(scale, tick);
        }
}

/* Sets about five ticks at multiples of 1, 2 or 5 times a power of ten. */
static void find_even_ticks(struct scale *scale) {
    double low = scale->low / scale->unit, high = scale->high / scale->unit, wanted = (high - low) / 5;
    double step = pow(10, floor(log10(wanted))), multiple = wanted / step;
    step *= multiple > 5 ? 10 : multiple > 2 ? 5 : multiple > 1 ? 2 : 1;
    for (double i = ceil(low / step); i * step <= high && scale->tick_count < MAX_TICKS; i++)
        add_tick(scale, i == 0 ? 0 : i * step);
}

/* Sets ticks at the points' own values of x, those of the longest series, if they are few. */
static void place_ticks_at_points(const struct plot *plot, struct scale *x) {
    const struct plot_series *longest = plot->series;
    for (int s = 1; s < plot->series_count; s++)
        if (plot->series[s].colour != PLOT_GREY && plot->series[s].count > longest->count) longest = &plot->series[s];
    for (int i = 0; i < longest->count && longest->count <= MAX_TICKS; i++)
        if (i == 0 || longest->points[i].x > longest->points[i - 1].x) x->ticks[x->tick_count++] = longest->points[i].x;
}

/* Chooses the ticks of an axis, and the notation of their labels: powers of ten if any tick is far from 1.
 * `at_points`: puts ticks at the points if these are few. */
static void find_ticks(const struct plot *plot, struct scale *scale, bool at_points) {
    if (at_points) place_ticks_at_points(plot, scale);
    if (scale->tick_count == 0 && scale->log) find_log_ticks(scale);
    if (scale->tick_count == 0) find_even_ticks(scale);
    for (int i = 0; i < scale->tick_count; i++) {
        double size = fabs(scale->ticks[i] / scale->unit);
        scale->powers |= size > 0 && (size < 0.9995e-3 || size >= 1e7);
    }
}

/* Writes a tick's label, "0.5", or in powers "5·10⁻⁷", into `text` and returns it. */
static const char *tick_text(const struct scale *scale, double tick, char text[TICK_BYTES]) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    double value = tick / scale->unit;
    if (!scale->powers || value == 0) {
        snprintf(text, TICK_BYTES, "%.7g", value);
        return text;
    }
    int power = (int)floor(log10(fabs(value)) + 1e-9), size = abs(power);
    double mantissa = value / pow(10, power);
    char factor[16] = "";
    if (fabs(mantissa - 1) > 1e-6) snprintf(factor, sizeof factor, "%.3g·", mantissa);
    snprintf(text, TICK_BYTES, "%s10%s%s%s%s", factor, power < 0 ? "⁻" : "", size > 99 ? raised[size / 100] : "",
             size > 9 ? raised[size / 10 % 10] : "", raised[size % 10]);
    return text;
}

/* Writes an axis' title, "rate (GFLOP/s, log scale)", as an element <text>; `place`: the attributes that place it. */
static void write_axis_title(const struct scale *scale, const char *place, FILE *to) {
    bool log = scale->log, unit = *scale->unit_name;
    fprintf(to, "<text class=\"mid\" %s>", place);
    html(to, "%s%s%s%s%s%s</text>\n", scale->axis->title, unit || log ? " (" : "", scale->unit_name,
         unit && log ? ", " : "", log ? "log scale" : "", unit || log ? ")" : "");
}

/* Writes the vertical axis: a line across the drawing for each tick, and for zeros on a log scale; the title. */
static void write_y_axis(const struct scale *y, int right, FILE *to) {
    char text[TICK_BYTES];
    for (int i = -y->zero; i < y->tick_count; i++) {
        double height = pixel_of(y, i < 0 ? 0 : y->ticks[i]);
        fprintf(to, "<path class=\"%s\" d=\"M%d %.1fH%d\"/><text class=\"tick end\" x=\"%d\" y=\"%.1f\">%s</text>\n",
                i < 0 ? "floor" : "grid", LEFT, height, right, LEFT - 6, height + 4,
                i < 0 ? "0" : tick_text(y, y->ticks[i], text));
    }
    OWNED char *place = must_printf("transform=\"translate(11 %d) rotate(-90)\"", (TOP + BOTTOM) / 2);
    write_axis_title(y, place, to);
}

/* Writes a tick and its text, unless the text would begin before *next_free_x, where the last one ends; then sets
 * *next_free_x to the end of this one. */
static void write_x_tick(double x_pixels, const char *text, bool tilted, double *next_free_x, FILE *to) {
    double half = tilted ? 6 : characters_of(text) * CHARACTER / 2 + 2;
    if (x_pixels - half < *next_free_x) return;
    *next_free_x = x_pixels + half;
    fprintf(to, "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"tick %s\" ", x_pixels, BOTTOM,
            tilted ? "end" : "mid");
    if (tilted)
        fprintf(to, "transform=\"translate(%.1f %d) rotate(-%d)\">", x_pixels + 3, BOTTOM + 14, TILT_DEGREES);
    else
        fprintf(to, "x=\"%.1f\" y=\"%d\">", x_pixels, BOTTOM + 18);
    html(to, "%s</text>\n", text);
}

/* The length of the prefix or suffix that all names share, cut at a comma or an equals sign. */
static size_t shared_bytes(const struct plot_axis *axis, bool end) {
    const char *first = axis->categories[0];
    size_t shared = strlen(first), length = shared;
    for (int i = 1; i < axis->category_count; i++) {
        const char *name = axis->categories[i];
        size_t size = strlen(name), same = 0;
        while (same < shared && same < size &&
               (end ? first[length - 1 - same] == name[size - 1 - same] : first[same] == name[same]))
            same++;
        shared = same;
    }
    while (shared > 0 && !strchr(",=", first[end ? length - shared : shared - 1])) shared--;
    return shared;
}

/* Returns a category's name. If the name is too long, returns the part that distinguishes it from the
 * others: without its first `head` and last `tail` bytes. `text` holds 4 * UPRIGHT_CHARACTERS + 4 bytes. */
static const char *category_text(const char *name, bool tilted, size_t head, size_t tail, char *text) {
    size_t length = strlen(name);
    if (!tilted || characters_of(name) <= TILTED_CHARACTERS)
        return shortened(name, tilted ? TILTED_CHARACTERS : UPRIGHT_CHARACTERS, text);
    if (head + tail > length) tail = 0;
    const char *before = head ? "…" : "", *after = tail ? "…" : "";
    OWNED char *middle = must_printf("%s%.*s%s", before, (int)(length - head - tail), name + head, after);
    shortened(middle, TILTED_CHARACTERS, text);
    return text;
}

/* Writes the horizontal axis: a tick for each category or number, if there is room; the title. */
static void write_x_axis(const struct scale *x, bool tilted, FILE *to) {
    char category[4 * UPRIGHT_CHARACTERS + 4], number[TICK_BYTES];
    double next_free_x = 0;
    const char *const *names = x->axis->categories;
    size_t head = tilted ? shared_bytes(x->axis, false) : 0, tail = tilted ? shared_bytes(x->axis, true) : 0;
    fprintf(to, "<path class=\"axis\" d=\"M%d %dH%.0f\"/>\n", LEFT, BOTTOM, x->to);
    for (int i = 0; i < (names ? x->axis->category_count : x->tick_count); i++)
        write_x_tick(pixel_of(x, names ? i : x->ticks[i]),
                     names ? category_text(names[i], tilted, head, tail, category) : tick_text(x, x->ticks[i], number),
                     tilted, &next_free_x, to);
    int height = HEIGHT - 12 + (tilted ? TILTED_HEIGHT : 0);
    OWNED char *place = must_printf("x=\"%.0f\" y=\"%d\"", (LEFT + x->to) / 2, height);
    write_axis_title(x, place, to);
}

/* Are the categories' names too long to fit side by side? */
static bool needs_tilt(const struct plot_axis *axis, int width) {
    int longest = 0;
    for (int i = 0; axis->categories && i < axis->category_count; i++) {
        int characters = characters_of(axis->categories[i]);
        if (characters > longest) longest = characters;
    }
    return axis->category_count * (longest * CHARACTER + 6) > width;
}

/* ---- series ---- */

/* Draws the marker of a series around (x, y), in pixels. */
static void write_marker(FILE *to, const struct plot_series *series, double x, double y) {
    static const char *const shapes[PLOT_SHAPES] = {
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", /* circle */
        "m-3.6 -3.6h7.2v7.2h-7.2z",            /* square */
        "m0 -4.9l4.6 8h-9.2z",                 /* triangle */
        "m0 -5.2l4.4 5.2l-4.4 5.2l-4.4 -5.2z", /* diamond */
        "m0 4.9l4.6 -8h-9.2z",                 /* triangle, point down */
        "m-4 -4l8 8m-8 0l8 -8",                /* cross */
        "m-4.9 0l8 -4.6v9.2z",                 /* triangle, point left */
        "m0 -5v10m-5 -5h10",                   /* plus */
    };
    bool has_no_area = series->shape == 5 || series->shape == 7; /* cross and plus: strokes, which cannot be filled */
    bool is_hollow = series->dash % 2;                           /* the second series of a colour and shape */
    const char *style = has_no_area ? "ms" : is_hollow ? "mh" : "m"; /* classes in style.c */
    fprintf(to, "<path class=\"%s k%d\" d=\"M%.1f %.1f%s\"/>", style, series->colour, x, y, shapes[series->shape]);
}

/* Draws a point: its interval as a bar, its limit as a dash, and its marker; `titled`: with a tooltip. */
static void write_point(const struct plot_series *series, const struct plot_point *point, const struct scale *x,
                        const struct scale *y, bool titled, FILE *to) {
    double x_pixels = pixel_of(x, point->x);
    if (titled) html(to, "<g><title>%s</title>", point->about ? point->about : series->label);
    if (isfinite(point->low) && isfinite(point->high)) {
        double low = pixel_of(y, point->low), high = pixel_of(y, point->high);
        fprintf(to, "<path class=\"l k%d\" d=\"M%.1f %.1fV%.1fm-3 0h6M%.1f %.1fh6\"/>", series->colour, x_pixels, low,
                high, x_pixels - 3, low);
    }
    if (isfinite(point->mark))
        fprintf(to, "<path class=\"mark\" d=\"M%.1f %.1fh8\"/>", x_pixels - 4, pixel_of(y, point->mark));
    write_marker(to, series, x_pixels, pixel_of(y, point->y));
    fputs(titled ? "</g>\n" : "\n", to);
}

/* Draws a line through the points of a series of joined points or of a straight line. */
static void write_join(const struct plot_series *series, const struct scale *x, const struct scale *y, FILE *to) {
    if (series->kind == PLOT_POINTS || series->count < 2) return;
    if (series->kind == PLOT_LINE)
        fputs("<path class=\"roof\" d=\"", to);
    else
        fprintf(to, "<path class=\"l k%d d%d\" d=\"", series->colour, series->dash % DASHES);
    for (int i = 0; i < series->count; i++)
        fprintf(to, "%c%.1f %.1f", i ? 'L' : 'M', pixel_of(x, series->points[i].x), pixel_of(y, series->points[i].y));
    fputs("\"/>\n", to);
}

/* Chooses the heights of the series' names so that they do not overlap: the name of joined points or a line is beside
 * its end; names of unjoined points are at the top or, if the plot has lines, at the bottom. */
static void place_names(const struct plot *plot, const struct scale *y, double height[]) {
    double wanted[PLOT_SERIES + PLOT_LINES], gap = fmin(16, (BOTTOM - TOP) / (double)plot->series_count), next = BOTTOM;
    int count = plot->series_count, order[PLOT_SERIES + PLOT_LINES] = {0};
    bool lines = plot->series[count - 1].kind == PLOT_LINE;
    for (int s = 0; s < count; s++) {
        /* In reverse order: of equal heights, report_largest then returns that of the last series. */
        const struct plot_series *series = &plot->series[count - 1 - s];
        bool points = series->kind == PLOT_POINTS;
        wanted[s] = !points ? pixel_of(y, series->points[series->count - 1].y) : lines ? BOTTOM : TOP;
    }
    for (int i = 0; i < count; i++) { /* from the lowest name up: y grows downwards */
        int s = report_largest(wanted, count);
        order[i] = count - 1 - s;
        height[order[i]] = fmin(wanted[s], next);
        next = height[order[i]] - gap;
        wanted[s] = -INFINITY;
    }
    next = TOP;
    for (int i = count - 1; i >= 0; i--) { /* moves names down again that are above the top */
        height[order[i]] = fmax(height[order[i]], next);
        next = height[order[i]] + gap;
    }
}

/* Writes the names of the series at the right of the plot, each with its marker and, for joined points, a line from
 * the last point to the name. */
static void write_names(const struct plot *plot, const struct scale *x, const struct scale *y, FILE *to) {
    double height[PLOT_SERIES + PLOT_LINES] = {0};
    place_names(plot, y, height);
    for (int s = 0; s < plot->series_count; s++) {
        const struct plot_series *series = &plot->series[s];
        const struct plot_point *last = &series->points[series->count - 1];
        char text[4 * LINE_CHARACTERS + 4];
        if (series->kind != PLOT_POINTS)
            fprintf(to, "<path class=\"lead\" d=\"M%.1f %.1fL%d %.1f\"/>",
                    pixel_of(x, last->x) + (series->kind == PLOT_LINE ? 1 : 6), pixel_of(y, last->y), NAMES - 8,
                    height[s]);
        if (series->kind == PLOT_LINE)
            fprintf(to, "<path class=\"roof\" d=\"M%d %.1fh10\"/>", NAMES - 5, height[s]);
        else
            write_marker(to, series, NAMES, height[s]);
        shortened(series->label, series->kind == PLOT_LINE ? LINE_CHARACTERS : NAME_CHARACTERS, text);
        html(to, "<text class=\"%s\" x=\"%d\" y=\"%.1f\"", series->kind == PLOT_LINE ? "note" : "tick", NAMES + 8,
             height[s] + 4);
        if (characters_of(text) > UNSCALED_CHARACTERS)
            fprintf(to, " textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\"",
                    fmin((series->kind == PLOT_LINE ? 6.4 : 7.0) * characters_of(text), WIDTH - NAMES - 8));
        html(to, ">%s</text>\n", text);
    }
}

/* ---- the whole ---- */

void plot_write(const struct plot *plot, const char *style, FILE *to) {
    bool named = plot->series_count > 1;
    int right = named ? RIGHT : WIDE_RIGHT, points = 0;
    struct scale x = {
        .axis = &plot->x, .low = INFINITY, .high = -INFINITY, .min_positive = INFINITY, .from = LEFT, .to = right};
    struct scale y = {
        .axis = &plot->y, .low = INFINITY, .high = -INFINITY, .min_positive = INFINITY, .from = BOTTOM, .to = TOP};
    widen_all(plot, &x, &y);
    find_ticks(plot, &x, plot->ticks_at_points);
    find_ticks(plot, &y, false);
    bool tilted = needs_tilt(&plot->x, right - LEFT);
    int height = HEIGHT + (tilted ? TILTED_HEIGHT : 0);
    fputs(style ? report_plot_beginning : "<svg class=\"plot\"", to);
    if (style) fprintf(to, " width=\"%d\" height=\"%d\"", WIDTH, height);
    fprintf(to, " viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, height);
    if (style) fprintf(to, "<style>%s</style>\n", style);
    html(to, "<title>%s</title>\n", plot->title);
    write_y_axis(&y, right, to);
    write_x_axis(&x, tilted, to);
    for (int s = 0; s < plot->series_count; s++) {
        write_join(&plot->series[s], &x, &y, to);
        points += plot->series[s].count;
    }
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < plot->series[s].count && plot->series[s].kind != PLOT_LINE; i++)
            write_point(&plot->series[s], &plot->series[s].points[i], &x, &y, points <= MAX_TITLES, to);
    if (named) write_names(plot, &x, &y, to);
    fputs("</svg>\n", to);
}
