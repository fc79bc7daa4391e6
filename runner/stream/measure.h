/* measure.h - times a kernel repeatedly, and computes statistics of the times. */
#ifndef RUNNER_MEASURE_H
#define RUNNER_MEASURE_H

#include "device.h"

struct samples {
    int count;
    double *seconds;  /* seconds of one launch, one entry per sample */
    float *clock_mhz; /* one entry per sample; NaN: unknown */
};
void samples_append(struct samples *samples, double seconds, float clock_mhz);
void samples_free(struct samples *samples);

struct statistics {
    double median, min, max, mad; /* median absolute deviation, times 1.4826 */
};
/* All NaN if there are no samples. */
struct statistics samples_statistics(const struct samples *samples);
/* The median of the known clocks, in MHz; NaN: none is known. */
double samples_clock_mhz(const struct samples *samples);
/* The distribution-free 95 % interval of the median (order statistics), in seconds; NaN for fewer than 6 samples, which
 * cannot give one. */
void samples_interval(const struct samples *samples, double *low, double *high);
/* Half of its width, relative to the median; infinity for fewer than 6 samples. */
double samples_precision(const struct samples *samples);

/* Times a kernel on operands that are in place: options->warmup untimed launches, then samples by the options' repeat
 * rule. If the cache is to be warm, launches shorter than 50 us are timed in batches between one pair of events.
 * STATUS_INTERRUPTED: a signal came before the last sample. On failure `samples` is empty; else the caller frees it. */
enum status measure_kernel(struct device *device, const struct kernel *kernel, struct launch *launch,
                           const struct run_options *options, struct samples *samples, struct error *error);

#endif
