/* samples.c - robust statistics of a kernel's times. */
#include "samples.h"

#include "../base/fail.h"
#include "../base/sort.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_RESOLUTION_S 0.5e-6
#define LEAST_INTERVAL     6 /* the least number of samples, or turns, that give a 95 % interval of the median */

void samples_free(struct samples *samples) {
    free(samples->seconds);
    free(samples->conditions);
    free(samples->turn);
    *samples = (struct samples){.count = 0};
}

/* The arrays' capacity is the smallest power of two, at least 16, that holds `count`. */
void samples_append(struct samples *samples, double seconds, const struct conditions *conditions, int turn) {
    int count = samples->count;
    if (count == 0 || (count >= 16 && (count & (count - 1)) == 0)) {
        size_t capacity = count == 0 ? 16 : 2 * (size_t)count;
        samples->seconds = must_realloc(samples->seconds, capacity * sizeof *samples->seconds);
        samples->conditions = must_realloc(samples->conditions, capacity * sizeof *samples->conditions);
        samples->turn = must_realloc(samples->turn, capacity * sizeof *samples->turn);
    }
    samples->seconds[count] = seconds;
    samples->conditions[count] = *conditions;
    samples->turn[count] = turn;
    samples->count++;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static double median_of(const double *values, int count) {
    double *sorted = sorted_doubles(values, count), median = count > 0 ? median_of_sorted(sorted, count) : NAN;
    free(sorted);
    return median;
}

struct statistics samples_statistics(const struct samples *samples) {
    int count = samples->count;
    if (count == 0) return (struct statistics){.median = NAN, .min = NAN, .max = NAN, .mad = NAN};
    double *sorted = sorted_doubles(samples->seconds, count);
    struct statistics statistics = {
        .median = median_of_sorted(sorted, count), .min = sorted[0], .max = sorted[count - 1]};
    for (int i = 0; i < count; i++) sorted[i] = fabs(sorted[i] - statistics.median);
    statistics.mad = 1.4826 * median_of(sorted, count); /* the standard deviation, for normal data */
    free(sorted);
    return statistics;
}

double samples_clock_mhz(const struct samples *samples) {
    double *known = must_malloc((size_t)(samples->count + 1) * sizeof *known);
    int count = 0;
    for (int i = 0; i < samples->count; i++)
        if (!isnan(samples->conditions[i].clock_mhz)) known[count++] = samples->conditions[i].clock_mhz;
    double median = median_of(known, count);
    free(known);
    return median;
}

/* Widens [low, high] so that it contains the 95 % interval of the median of these values. The number of values below
 * the median is binomial, n/2 +- 1.96 sqrt(n)/2, so the values with these two ranks enclose the median with 95 %
 * confidence, whatever the distribution (Hahn and Meeker, Statistical Intervals). */
static void widen(const double *values, int count, double *low, double *high) {
    double *sorted = sorted_doubles(values, count);
    double spread = 1.96 * sqrt(count);
    int lower = (int)floor((count - spread) / 2), upper = (int)ceil(1 + (count + spread) / 2);
    *low = fmin(*low, sorted[lower < 1 ? 0 : lower - 1]); /* fmin and fmax ignore a NaN */
    *high = fmax(*high, sorted[upper > count ? count - 1 : upper - 1]);
    free(sorted);
}

/* Computes the median of each turn or, with `blocks` > 0, of each of that many blocks of equal length. Returns their
 * number. */
static int medians_of(const struct samples *samples, int blocks, double *medians) {
    int count = 0;
    for (int first = 0, next; first < samples->count; first = next) {
        if (blocks)
            next = (int)((int64_t)samples->count * (count + 1) / blocks);
        else
            for (next = first; next < samples->count && samples->turn[next] == samples->turn[first];) next++;
        medians[count++] = median_of(samples->seconds + first, next - first);
    }
    return count;
}

void samples_interval(const struct samples *samples, double *low, double *high) {
    *low = *high = NAN;
    if (samples->count < LEAST_INTERVAL) return;
    widen(samples->seconds, samples->count, low, high);
    if (!samples->turn) return;
    double *medians = must_malloc((size_t)samples->count * sizeof *medians);
    static const int blocks[] = {0, LEAST_INTERVAL};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (samples->count < blocks[i]) continue;
        int count = medians_of(samples, blocks[i], medians);
        if (count >= LEAST_INTERVAL) widen(medians, count, low, high);
    }
    free(medians);
}

double samples_precision(const struct samples *samples) {
    double low, high;
    samples_interval(samples, &low, &high);
    if (isnan(low)) return INFINITY;
    return low == high ? 0 : (high - low) / 2 / samples_statistics(samples).median;
}

/* ---- marks and flags --------------------------------------------------------------------------------------------- */

unsigned char *samples_marks(const struct samples *samples) {
    int count = samples->count;
    unsigned char *marks = must_malloc((size_t)count + 1);
    double *sorted = sorted_doubles(samples->seconds, count);
    double lower = count ? sorted[(count - 1) / 4] : 0, upper = count ? sorted[count - 1 - (count - 1) / 4] : 0;
    double reach = fmax(3 * (upper - lower), EVENT_RESOLUTION_S);
    for (int i = 0; i < count; i++) {
        double seconds = samples->seconds[i];
        bool outlier = count >= LEAST_INTERVAL && (seconds > upper + reach || seconds < lower - reach);
        marks[i] = (unsigned char)(samples->conditions[i].throttle | (outlier ? MARK_OUTLIER : 0));
    }
    free(sorted);
    return marks;
}

/* Does the last third differ from the first by more than 3 %, and by more than the spread within them explains? */
static bool drifts(const struct samples *samples) {
    int third = samples->count / 3;
    if (third < LEAST_INTERVAL) return false;
    struct samples first = {.count = third, .seconds = samples->seconds};
    struct samples last = {.count = third, .seconds = samples->seconds + samples->count - third};
    struct statistics a = samples_statistics(&first), b = samples_statistics(&last);
    double apart = fabs(a.median - b.median), noise = hypot(a.mad, b.mad) * 1.2533 / sqrt(third);
    return apart > 0.03 * a.median && apart > 4 * noise;
}

const char *samples_flags(const struct samples *samples, char text[FLAGS_TEXT]) {
    static const char *const names[] = {"throttled", "outliers", "drift", "unsteady", "below_resolution"};
    unsigned char *marks = samples_marks(samples);
    int throttled = 0, outliers = 0;
    for (int i = 0; i < samples->count; i++) {
        throttled += (marks[i] & ~MARK_OUTLIER) != 0;
        outliers += (marks[i] & MARK_OUTLIER) != 0;
    }
    free(marks);
    const bool holds[] = {throttled > 0, outliers > 0 && 20 * outliers >= samples->count, drifts(samples),
                          samples->unsteady, samples->least_s > 0 && samples->least_s < 100 * EVENT_RESOLUTION_S};
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < sizeof names / sizeof *names; i++)
        if (holds[i]) at += (size_t)snprintf(text + at, FLAGS_TEXT - at, "%s%s", at ? "," : "", names[i]);
    return text;
}
