/* samples.c - stores samples and computes robust statistics of a kernel's times. */
#include "samples.h"

#include "fail.h"
#include "sort.h"
#include <stdlib.h>

#define EVENT_RESOLUTION_S 0.5e-6 /* of the two events that time a sample */
#define BIMODAL            0.05   /* least distance of two groups' means, as a share of the lower one */
#define BIMODAL_SIGMAS     6      /* and as a multiple of the standard deviation within the groups */
#define BUSY               4      /* a run is busy if one sample in BUSY is */
#define MIN_BIMODAL        12     /* fewest samples that can form two groups */
#define MIN_INTERVAL       6      /* fewest samples, or turns, that give a 95 % interval of the median */

void samples_free(struct samples *samples) {
    free(samples->seconds);
    free(samples->conditions);
    free(samples->turn);
    *samples = (struct samples){.count = 0};
}

/* The arrays' capacity is the smallest power of two, at least 16, that holds `count`. */
void samples_append(struct samples *samples, double seconds, const struct sample_conditions *conditions, int turn) {
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
    OWNED double *sorted = sorted_doubles(values, count);
    return count > 0 ? median_of_sorted(sorted, count) : NAN;
}

struct statistics samples_statistics(const struct samples *samples) {
    int count = samples->count;
    if (count == 0) return (struct statistics){.median = NAN, .min = NAN, .max = NAN, .mad = NAN};
    OWNED double *sorted = sorted_doubles(samples->seconds, count);
    struct statistics statistics = {
        .median = median_of_sorted(sorted, count), .min = sorted[0], .max = sorted[count - 1]};
    for (int i = 0; i < count; i++) sorted[i] = fabs(sorted[i] - statistics.median);
    statistics.mad = 1.4826 * median_of(sorted, count); /* the standard deviation, for normal data */
    return statistics;
}

/* The median of the known values of a condition, `clock_mhz` or else `probe_s`. */
static double median_condition(const struct samples *samples, bool clock) {
    OWNED double *known = must_malloc((size_t)samples->count * sizeof *known);
    int count = 0;
    for (int i = 0; i < samples->count; i++) {
        const struct sample_conditions *conditions = &samples->conditions[i];
        double value = clock ? conditions->clock_mhz : conditions->probe_s;
        if (!isnan(value)) known[count++] = value;
    }
    return median_of(known, count);
}

double samples_clock_mhz(const struct samples *samples) {
    return median_condition(samples, true);
}

double samples_probe_s(const struct samples *samples) {
    return median_condition(samples, false);
}

/* Widens [low, high] so that it contains the 95 % interval of the median of these values. The number of values below
 * the median is binomial, n/2 +- 1.96 sqrt(n)/2, so the values with these two ranks enclose the median with 95 %
 * confidence, whatever the distribution (Hahn and Meeker, Statistical Intervals). */
static void widen_interval(const double *values, int count, double *low, double *high) {
    OWNED double *sorted = sorted_doubles(values, count);
    double spread = 1.96 * sqrt(count);
    int lower = (int)floor((count - spread) / 2), upper = (int)ceil(1 + (count + spread) / 2);
    *low = fmin(*low, sorted[lower < 1 ? 0 : lower - 1]); /* fmin and fmax ignore a NaN */
    *high = fmax(*high, sorted[upper > count ? count - 1 : upper - 1]);
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
    if (samples->count < MIN_INTERVAL) return;
    widen_interval(samples->seconds, samples->count, low, high);
    if (!samples->turn) return;
    OWNED double *medians = must_malloc((size_t)samples->count * sizeof *medians);
    static const int blocks[] = {0, MIN_INTERVAL}; /* 0: the turns */
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (samples->count < blocks[i]) continue;
        int count = medians_of(samples, blocks[i], medians);
        if (count >= MIN_INTERVAL) widen_interval(medians, count, low, high);
    }
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
    OWNED double *sorted = sorted_doubles(samples->seconds, count);
    double lower = count ? sorted[(count - 1) / 4] : 0, upper = count ? sorted[count - 1 - (count - 1) / 4] : 0;
    double reach = fmax(3 * (upper - lower), EVENT_RESOLUTION_S);
    for (int i = 0; i < count; i++) {
        double seconds = samples->seconds[i];
        bool outlier = count >= MIN_INTERVAL && (seconds > upper + reach || seconds < lower - reach);
        marks[i] = (unsigned char)(samples->conditions[i].throttle | (outlier ? MARK_OUTLIER : 0) |
                                   (samples->conditions[i].busy ? MARK_BUSY : 0));
    }
    return marks;
}

/* Does the last third differ from the first by more than 3 %, and by more than the spread within them explains? */
static bool drifts(const struct samples *samples) {
    int third = samples->count / 3;
    if (third < MIN_INTERVAL) return false;
    struct samples first = {.count = third, .seconds = samples->seconds};
    struct samples last = {.count = third, .seconds = samples->seconds + samples->count - third};
    struct statistics a = samples_statistics(&first), b = samples_statistics(&last);
    /* noise: the standard error of the change. A median's is sqrt(pi / 2) = 1.2533 times a mean's. */
    double change = fabs(a.median - b.median), noise = hypot(a.mad, b.mad) * 1.2533 / sqrt(third);
    return change > 0.03 * a.median && change > 4 * noise;
}

/* Is the interval of the median wider than NOISY? An unknown interval, NaN, is not. */
static bool is_noisy(const struct samples *samples) {
    double low, high;
    samples_interval(samples, &low, &high);
    return high - low > NOISY * samples_statistics(samples).median;
}

/* Do the samples form two groups? Sorted samples are split where the sum of squared deviations from the two groups'
 * means is least, that is where `between`, the sum of squares that the distance of these means explains, is most
 * (Otsu). Each group must hold a sixth of the samples, and the means must differ by BIMODAL and by BIMODAL_SIGMAS. */
static bool is_bimodal(const struct samples *samples) {
    int count = samples->count, split = 0; /* split: size of the lower group */
    if (count < MIN_BIMODAL) return false;
    double *sorted = sorted_doubles(samples->seconds, count), sum = 0, squares = 0, max_between = 0, lower_sum = 0;
    for (int i = 0; i < count; i++) sum += sorted[i], squares += sorted[i] * sorted[i];
    for (int i = 1; i < count; i++) {
        lower_sum += sorted[i - 1];
        double distance = lower_sum / i - (sum - lower_sum) / (count - i);
        double between = distance * distance * i * (count - i) / count;
        if (between > max_between) max_between = between, split = i;
    }
    lower_sum = 0;
    for (int i = 0; i < split; i++) lower_sum += sorted[i];
    free(sorted);
    if (split < count / 6 || count - split < count / 6) return false;
    double low = lower_sum / split, high = (sum - lower_sum) / (count - split);
    double within = sqrt(fmax(0, squares - sum * sum / count - max_between) / count);
    return high - low > BIMODAL * low && high - low > BIMODAL_SIGMAS * within;
}

const char *samples_flags(const struct samples *samples, char text[FLAGS_TEXT]) {
    static const char *const names[] = {"throttled",        "outliers", "drift", "unsteady",
                                        "below_resolution", "busy",     "noisy", "bimodal"};
    OWNED unsigned char *marks = samples_marks(samples);
    int throttled = 0, outliers = 0, busy = samples_busy(samples);
    for (int i = 0; i < samples->count; i++) {
        throttled += (marks[i] & ~(MARK_OUTLIER | MARK_BUSY)) != 0;
        outliers += (marks[i] & MARK_OUTLIER) != 0;
    }
    const bool holds[] = {throttled > 0,
                          outliers > 0 && 20 * outliers >= samples->count,
                          drifts(samples),
                          samples->unsteady,
                          samples->min_s > 0 && samples->min_s < 100 * EVENT_RESOLUTION_S,
                          samples->busy || (busy > 0 && BUSY * busy >= samples->count),
                          is_noisy(samples),
                          is_bimodal(samples)};
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < sizeof names / sizeof *names; i++)
        if (holds[i]) at += (size_t)snprintf(text + at, FLAGS_TEXT - at, "%s%s", at ? "," : "", names[i]);
    return text;
}

int samples_busy(const struct samples *samples) {
    int busy = 0;
    for (int i = 0; i < samples->count; i++) busy += samples->conditions[i].busy;
    return busy;
}
