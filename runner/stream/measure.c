/* measure.c - times one kernel on operands that are in place; robust statistics of the times. */
#include "measure.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>

/* Events resolve about 0.5 us, so launches shorter than BATCH_BELOW_S are timed in batches that take about BATCH_S. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       200e-6
#define BATCH_MAX     1000
/* On an idle queue the first event would pass while the host still prepares the launch, microseconds too early. So an
 * untimed launch goes ahead of any launch shorter than this, to keep the queue busy. */
#define LEAD_BELOW_S 1e-3
/* Asking the driver for the clock takes up to a millisecond, so samples after this many repeat the last answer. */
#define CLOCK_READINGS 64

/* ---- samples ---------------------------------------------------------------------------------------------------- */

void samples_free(struct samples *samples) {
    free(samples->seconds);
    free(samples->clock_mhz);
    *samples = (struct samples){.count = 0};
}

/* Capacity is the least power of two, from 16 up, that holds `count`. */
void samples_append(struct samples *samples, double seconds, float clock_mhz) {
    int count = samples->count;
    if (count == 0 || (count >= 16 && (count & (count - 1)) == 0)) {
        unsigned long capacity = count == 0 ? 16 : 2ul * (unsigned long)count;
        samples->seconds = must_realloc(samples->seconds, capacity * sizeof *samples->seconds);
        samples->clock_mhz = must_realloc(samples->clock_mhz, capacity * sizeof *samples->clock_mhz);
    }
    samples->seconds[count] = seconds;
    samples->clock_mhz[count] = clock_mhz;
    samples->count++;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted_copy(const double *values, int count) {
    double *sorted = must_malloc((unsigned long)count * sizeof *sorted);
    for (int i = 0; i < count; i++) sorted[i] = values[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return sorted;
}

static double median_of_sorted(const double *sorted, int count) {
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

struct statistics samples_statistics(const struct samples *samples) {
    int count = samples->count;
    if (count == 0) return (struct statistics){.median = NAN, .min = NAN, .max = NAN, .mad = NAN};
    double *sorted = sorted_copy(samples->seconds, count);
    struct statistics statistics = {
        .median = median_of_sorted(sorted, count), .min = sorted[0], .max = sorted[count - 1]};
    for (int i = 0; i < count; i++) sorted[i] = fabs(sorted[i] - statistics.median);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    statistics.mad = 1.4826 * median_of_sorted(sorted, count); /* the standard deviation, for normal data */
    free(sorted);
    return statistics;
}

double samples_clock_mhz(const struct samples *samples) {
    double *known = must_malloc((unsigned long)samples->count * sizeof *known);
    int count = 0;
    for (int i = 0; i < samples->count; i++)
        if (!isnan(samples->clock_mhz[i])) known[count++] = samples->clock_mhz[i];
    qsort(known, (size_t)count, sizeof *known, compare_doubles);
    double median = count > 0 ? median_of_sorted(known, count) : NAN;
    free(known);
    return median;
}

/* The number of n samples below the median is binomial: n/2 +- 1.96 sqrt(n)/2. The samples with those two ranks enclose
 * the median with 95 % confidence, whatever the distribution (Hahn and Meeker, Statistical Intervals). */
void samples_interval(const struct samples *samples, double *low, double *high) {
    int count = samples->count;
    *low = *high = NAN;
    if (count < 6) return;
    double *sorted = sorted_copy(samples->seconds, count);
    double spread = 1.96 * sqrt(count);
    int lower = (int)floor((count - spread) / 2), upper = (int)ceil(1 + (count + spread) / 2);
    *low = sorted[lower < 1 ? 0 : lower - 1];
    *high = sorted[upper > count ? count - 1 : upper - 1];
    free(sorted);
}

double samples_precision(const struct samples *samples) {
    double low, high;
    samples_interval(samples, &low, &high);
    if (isnan(low)) return INFINITY;
    return low == high ? 0 : (high - low) / 2 / samples_statistics(samples).median;
}

/* ---- timing ----------------------------------------------------------------------------------------------------- */

struct timing {
    struct device *device;
    const struct kernel *kernel;
    struct launch *launch;
    struct event *begin, *end;
    bool cold;
    int batch; /* launches in one sample */
    bool lead; /* one more launch goes ahead, untimed */
};

/* Takes one sample: seconds per launch. */
static enum status time_sample(const struct timing *timing, double *seconds, struct error *error) {
    struct device *device = timing->device;
    const struct device_operations *ops = device->operations;
    if (timing->cold) TRY(ops->flush_cache(device, error));
    if (timing->lead) TRY(ops->launch(device, timing->kernel, timing->launch, error));
    TRY(ops->event_record(device, timing->begin, QUEUE_COMPUTE, error));
    for (int i = 0; i < timing->batch; i++) TRY(ops->launch(device, timing->kernel, timing->launch, error));
    TRY(ops->event_record(device, timing->end, QUEUE_COMPUTE, error));
    TRY(ops->event_wait(device, timing->end, error));
    TRY(ops->event_elapsed(device, timing->begin, timing->end, seconds, error));
    *seconds /= timing->batch;
    return STATUS_OK;
}

/* Times a first launch alone, from which it sets `batch` and `lead`. */
static enum status probe(struct timing *timing, double *seconds, struct error *error) {
    timing->batch = 1;
    TRY(time_sample(timing, seconds, error));
    if (timing->cold) return STATUS_OK;
    timing->lead = *seconds < LEAD_BELOW_S;
    if (*seconds < BATCH_BELOW_S) timing->batch = (int)fmin(BATCH_MAX, ceil(BATCH_S / *seconds));
    return STATUS_OK;
}

static enum status take_samples(struct timing *timing, const struct run_options *options, struct samples *samples,
                                struct error *error) {
    struct device *device = timing->device;
    for (int64_t i = 0; i < options->warmup; i++) {
        TRY(interrupt_check(error));
        TRY(device->operations->launch(device, timing->kernel, timing->launch, error));
    }
    double seconds;
    float clock_mhz = NAN;
    int64_t next_look = options->repeat_min;
    TRY(interrupt_check(error));
    TRY(probe(timing, &seconds, error));
    /* A long or cold launch needs neither batch nor lead: the probe is the first sample. */
    if (!timing->lead) samples_append(samples, seconds, (float)device->clock_mhz(device));
    while (samples->count < options->repeat_max) {
        if (samples->count >= next_look) {
            if (options->repeat_until > 0 && samples_precision(samples) <= options->repeat_until) break;
            next_look = samples->count + 1 + samples->count / 16; /* sorting for each sample would cost more */
        }
        TRY(interrupt_check(error));
        TRY(time_sample(timing, &seconds, error));
        if (samples->count < CLOCK_READINGS) clock_mhz = (float)device->clock_mhz(device);
        samples_append(samples, seconds, clock_mhz);
    }
    return STATUS_OK;
}

enum status measure_kernel(struct device *device, const struct kernel *kernel, struct launch *launch,
                           const struct run_options *options, struct samples *samples, struct error *error) {
    struct timing timing = {.device = device, .kernel = kernel, .launch = launch, .cold = options->cold};
    *samples = (struct samples){.count = 0};
    enum status status = device->operations->event_create(device, &timing.begin, error);
    if (!status) status = device->operations->event_create(device, &timing.end, error);
    if (!status) status = take_samples(&timing, options, samples, error);
    struct error ignored = {.status = STATUS_OK};
    enum status idle = device->operations->synchronize(device, status ? &ignored : error);
    if (timing.begin) device->operations->event_destroy(device, timing.begin);
    if (timing.end) device->operations->event_destroy(device, timing.end);
    if (!status) status = idle;
    if (status) samples_free(samples);
    return status;
}
