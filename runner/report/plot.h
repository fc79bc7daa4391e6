/* plot.h - draws series over two axes as inline SVG. Colours come from the style sheet: class "kN" is colour N. */
#ifndef RUNNER_PLOT_H
#define RUNNER_PLOT_H

#include <stdbool.h>
#include <stdio.h>

enum {
    PLOT_SERIES = 12, /* most series of points */
    PLOT_LINES = 8,   /* most straight lines */
    PLOT_COLOURS = 7, /* numbers of colours that distinguish series: 0 .. 6 */
    PLOT_GREY = 7,    /* number of the colour that means no particular series */
    PLOT_SHAPES = 8   /* number of shapes of markers */
};

struct plot_point {
    double x, y;
    double low, high; /* the interval of y; NaN: unknown */
    double mark;      /* a limit of y, such as an error's tolerance; NaN: there is none */
    char *about;      /* the tooltip; NULL: the series' label */
};
struct plot_series {
    char *label; /* printed at the right, beside the end of joined points */
    enum plot_kind { PLOT_POINTS, PLOT_JOINED, PLOT_LINE } kind; /* PLOT_LINE: a straight line, such as a roof */
    int colour, shape;
    int dash;      /* number of earlier series of the same colour and shape */
    double weight; /* for the caller, to choose series; plot_write ignores it */
    struct plot_point *points;
    int count;
};
enum plot_unit { UNIT_NONE, UNIT_FLOPS, UNIT_BYTES };
struct plot_axis {
    const char *title; /* "n", "rate" */
    enum plot_unit unit;
    /* SCALE_BY_RANGE: logarithmic if all values are above 0 and span more than a factor of 10. SCALE_LOG_ZERO: zeros
     * are drawn a power of ten below the rest, marked "0". */
    enum plot_scale { SCALE_BY_RANGE, SCALE_LOG, SCALE_LOG_ZERO } scale;
    const char *const *categories; /* NULL: numbers; else positions 0, 1, ... have these names */
    int category_count;
};
struct plot {
    const char *title; /* for readers who do not see the plot */
    struct plot_axis x, y;
    bool ticks_at_points; /* x has its ticks at the points' values, if these are few */
    struct plot_series series[PLOT_SERIES + PLOT_LINES];
    int series_count;
};

/* Adds a point; may reallocate the points. */
void plot_add(struct plot_series *series, struct plot_point point);
/* Adds a straight line between two points, of at most PLOT_LINES. Takes `label` over. */
void plot_add_line(struct plot *plot, double x0, double y0, double x1, double y1, char *label);
/* Writes the plot as an element <svg>. `style`: the style sheet of a plot that is a file of its own; NULL: it is part
 * of a page. */
void plot_write(const struct plot *plot, const char *style, FILE *to);
/* Frees the labels and points of all series. */
void plot_clear(struct plot *plot);

#endif
