/* measure.h - how often a kernel is timed, and what is said of the times. */
#ifndef RUNNER_MEASURE_H
#define RUNNER_MEASURE_H

#include "device.h"

struct samples {
    int count;
    double *seconds;  /* one repeat each */
    float *clock_mhz; /* beside it; NaN where unknown */
};
void samples_append(struct samples *samples, double seconds, float clock_mhz);
void samples_free(struct samples *samples);

struct statistics {
    double median, min, max, mad; /* median absolute deviation, times 1.4826 */
};
/* NaN throughout for no samples. */
struct statistics samples_statistics(const struct samples *samples);
/* The median of the clocks that are known; NaN: none is. */
double samples_clock_mhz(const struct samples *samples);
/* Relative half width of the distribution-free 95 % interval of the median (order statistics); infinity below 6. */
double samples_precision(const struct samples *samples);

/* Launches again and again on operands that are in place: options->warmup times untimed, then by its repeat rule.
 * Launches shorter than 50 us are timed in batches within one pair of events (cache: warm). STATUS_INTERRUPTED: a
 * signal came before all samples were there. On failure there are none. */
enum status measure_kernel(struct device *device, const struct kernel *kernel, struct launch *launch,
                           const struct run_options *options, struct samples *samples, struct error *error);

#endif
