/* bound.c - compares a run's time with the lower bound that the device's measured limits give. */
#include "row.h"

void result_row_bound(struct result_row *row, const struct kernel *kernel, const struct geometry *geometry,
                      const struct device_limits *limits) {
    const char *by;
    row->bound_s = limits_bound(limits, kernel, geometry, &by);
    row->percent_of_bound = 100 * row->bound_s / row->kernel_median_s;
    snprintf(row->bound_by, sizeof row->bound_by, "%s", by);
}
