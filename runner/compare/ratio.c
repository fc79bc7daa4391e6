/* ratio.c - computes the intervals of two medians, combines them into the interval of the ratio, and gives the
 * verdict. */
#include "ratio.h"

#include "../base/fail.h"
#include "../base/sort.h"
#include <math.h>

#define Z         1.959964 /* the normal quantile for 95 %, two-sided */
#define MAX_LAGS  1000     /* bounds the work on strongly correlated series */
#define GPU_FLOOR 0.01     /* of ratio_floor */
#define CPU_FLOOR 0.02
#define OFFSET_S  1.5e-6 /* difference between processes in the time of the events around one short launch */

const char *const ratio_verdict_names[] = {"", "FASTER", "SAME", "SLOWER", "UNSURE"};

const struct ratio ratio_unknown = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, RATIO_UNKNOWN, NAN};

double ratio_floor(double seconds, bool on_cpu, bool coarse) {
    return fmax(on_cpu ? CPU_FLOOR : GPU_FLOOR, coarse ? OFFSET_S / seconds : 0);
}

/* ---- one median -------------------------------------------------------------------------------------------------- */

/* The median of samples and its 95 % interval; 0 and infinity: no interval. */
struct median {
    int count;
    double effective; /* the effective sample size: equivalent number of independent samples */
    double median, low, high;
};

/* For each sample: 1 if it is above the median, -1 below, 0 equal, less the mean of these numbers, which is not 0 if a
 * coarse clock makes many samples equal to the median. The caller frees. */
static double *sides_of(const double *samples, int count, double median) {
    double *sides = must_malloc((unsigned long)count * sizeof *sides), mean = 0;
    for (int i = 0; i < count; i++) {
        sides[i] = (samples[i] > median) - (samples[i] < median);
        mean += sides[i] / count;
    }
    for (int i = 0; i < count; i++) sides[i] -= mean;
    return sides;
}

/* The mean product of two sides that are `lag` samples apart; `lag` is below `count`. */
static double autocovariance(const double *sides, int count, int lag) {
    double sum = 0;
    for (int i = 0; i + lag < count; i++) sum += sides[i] * sides[i + lag];
    return sum / (count - lag);
}

/* The integrated autocorrelation time, at least 1: adds, after Geyer, sums of two neighbouring covariances, which are
 * positive and decreasing, until one is not positive. Because a series is centred at its own mean, its covariances are
 * too small by about their sum / count, which the last line corrects. */
static double correlation_time(const double *sides, int count) {
    double variance = autocovariance(sides, count, 0);
    if (!(variance > 1e-9)) return 1; /* all samples are equal */
    double time = -1, before = INFINITY;
    int lags = count / 2 < MAX_LAGS ? count / 2 : MAX_LAGS;
    for (int lag = 0; lag + 1 <= lags; lag += 2) {
        double pair = (autocovariance(sides, count, lag) + autocovariance(sides, count, lag + 1)) / variance;
        if (pair <= 0) break;
        before = fmin(before, pair);
        time += 2 * before;
    }
    time = fmax(1, time);
    return time > 1 ? time / (1 - fmin(0.5, time / count)) : 1;
}

/* The factor by which the range of 2 to 5 independent samples is lengthened at either end, on the logarithmic scale, so
 * that it covers the median of normal noise with 95 % confidence. The range of many samples excludes one in 40 at
 * either end. A few samples do not show whether they are correlated: fewer than RATIO_MIN_SAMPLES count as 2. If many
 * samples count as only 2 to 5 because they are correlated, the floor already covers a part of the range: a GPU's clock
 * may move by one step (15 MHz, 0.8 %) during a measurement. */
static const double reaches[] = {INFINITY, INFINITY, 5.9, 0.82, 0.24, 0.04};

/* Sets the interval from the samples of two ranks. About n/2 +- Z/2 * sqrt(n) of n independent samples are below the
 * true median. For correlated samples n is itself an estimate, so Student's quantile (to first order) replaces Z.
 * false: the interval would reach beyond the least and the largest sample. */
static bool interval_by_rank(struct median *median, const double *sorted) {
    double effective = fmax(median->effective, 1), quantile = Z;
    if (median->effective < median->count) quantile += Z * (Z * Z + 1) / (4 * effective);
    if (median->count < RATIO_MIN_SAMPLES || effective <= quantile * quantile) return false;
    double half_width = quantile / 2 / sqrt(effective) * median->count; /* in samples */
    int lower = (int)floor(median->count / 2.0 - half_width), upper = (int)ceil(median->count / 2.0 + half_width) + 1;
    median->low = sorted[lower < 1 ? 0 : lower - 1];
    median->high = sorted[upper > median->count ? median->count - 1 : upper - 1];
    return true;
}

/* Sets the interval to the range of two or more samples, lengthened by `reaches`. `floor`: the part of the range that
 * the floor of the ratio covers. */
static void interval_by_range(struct median *median, const double *sorted, double floor) {
    int independent = median->count < RATIO_MIN_SAMPLES ? 2 : (int)fmin(5, fmax(2, median->effective));
    int outliers = median->count / 40; /* excluded at either end */
    median->low = sorted[outliers];
    median->high = sorted[median->count - 1 - outliers];
    double length = log(median->high / median->low);
    if (median->count >= RATIO_MIN_SAMPLES) length = fmax(0, length - log1p(floor));
    median->low /= exp(length * reaches[independent]);
    median->high *= exp(length * reaches[independent]);
}

/* The median of the positive finite samples and its 95 % interval: from order statistics, or from the range if few
 * samples are independent. `floor`: of the ratio. */
static struct median median_of(const double *samples, int count, double floor) {
    struct median result = {.low = 0, .high = INFINITY, .median = NAN};
    OWNED double *series = must_malloc((unsigned long)count * sizeof *series);
    for (int i = 0; i < count; i++)
        if (samples[i] > 0 && isfinite(samples[i])) series[result.count++] = samples[i];
    OWNED double *sorted = sorted_doubles(series, result.count);
    if (result.count > 0) {
        result.median = median_of_sorted(sorted, result.count);
        OWNED double *sides = sides_of(series, result.count, result.median);
        result.effective = result.count / correlation_time(sides, result.count);
    }
    if (!interval_by_rank(&result, sorted) && result.count > 1) interval_by_range(&result, sorted, floor);
    return result;
}

/* ---- the ratio --------------------------------------------------------------------------------------------------- */

/* The factor by which the number of samples must grow to reduce an arm of the interval, whose part from the samples is
 * `arm`, to `target`; all on the logarithmic scale. INFINITY: the floor alone is as long. */
static double growth_needed(double arm, double log_floor, double target) {
    double wanted = target * target - log_floor * log_floor;
    return target > 0 && wanted > 0 ? arm * arm / wanted : INFINITY;
}

/* The number of further samples that would resolve UNSURE; INFINITY: no number would. `down`, `up`: the parts of the
 * interval's arms that come from the samples; `limit`: the threshold; all on the logarithmic scale. */
static double samples_missing(const struct ratio *ratio, int count, double down, double up, double limit) {
    double value = log(ratio->value), log_floor = log1p(ratio->floor);
    double growth = value > limit    ? growth_needed(down, log_floor, value)
                    : value < -limit ? growth_needed(up, log_floor, -value)
                                     : fmax(growth_needed(up, log_floor, limit - value), /* needed for SAME */
                                            growth_needed(down, log_floor, limit + value));
    bool within_reach = log_floor < fmax(limit, fabs(value));
    if (count < RATIO_MIN_SAMPLES && within_reach) return RATIO_MIN_SAMPLES - count;
    return isfinite(growth) ? fmax(1, ceil(count * (growth - 1))) : INFINITY;
}

struct ratio ratio_of(const double *base, int base_count, const double *new, int new_count, double floor,
                      double threshold) {
    struct median a = median_of(base, base_count, floor), b = median_of(new, new_count, floor);
    struct ratio ratio = ratio_unknown;
    ratio.base_s = a.median;
    ratio.new_s = b.median;
    ratio.base_counts = a.effective;
    ratio.new_counts = b.effective;
    if (a.count == 0 || b.count == 0) return ratio;
    ratio.value = b.median / a.median;
    ratio.floor = floor;
    /* All on the logarithmic scale; a change of exactly the threshold, but for rounding, is beyond it. */
    double value = log(ratio.value), limit = log1p(threshold) - 1e-9, log_floor = log1p(floor);
    double down = hypot(log(b.median / b.low), log(a.high / a.median));
    double up = hypot(log(b.high / b.median), log(a.median / a.low));
    double low = value - hypot(down, log_floor), high = value + hypot(up, log_floor);
    ratio.low = exp(low);
    ratio.high = exp(high);
    ratio.verdict = low > 0 && value > limit       ? RATIO_SLOWER
                    : high < 0 && value < -limit   ? RATIO_FASTER
                    : low > -limit && high < limit ? RATIO_SAME
                                                   : RATIO_UNSURE;
    if (ratio.verdict == RATIO_UNSURE)
        ratio.more = samples_missing(&ratio, a.count < b.count ? a.count : b.count, down, up, limit);
    return ratio;
}
