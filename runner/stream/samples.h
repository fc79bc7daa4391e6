/* samples.h - the times of one kernel's repeats, the device's conditions meanwhile, and their statistics. */
#ifndef RUNNER_SAMPLES_H
#define RUNNER_SAMPLES_H

#include "device.h"

/* A mark of a sample, besides those of enum throttle: it lies beyond Tukey's outer fences, three interquartile ranges
 * outside the quartiles. */
#define MARK_OUTLIER 8

struct samples {
    int count;
    double *seconds;               /* of one launch, for each sample */
    struct conditions *conditions; /* for each sample */
    int *turn;                     /* for each sample: the number of its turn (measure.h); NULL: unknown */
    double least_s; /* the shortest time between the two events of a sample, however many launches; 0: unknown */
    bool unsteady;  /* the warm-up ended before the times were steady */
};
void samples_append(struct samples *samples, double seconds, const struct conditions *conditions, int turn);
void samples_free(struct samples *samples);

struct statistics {
    double median, min, max, mad; /* mad: median absolute deviation, times 1.4826 */
};
/* All NaN if there are no samples. */
struct statistics samples_statistics(const struct samples *samples);
/* The median of the known clocks, in MHz; NaN: none is known. */
double samples_clock_mhz(const struct samples *samples);
/* The distribution-free 95 % confidence interval of the median (by order statistics), in seconds; NaN for fewer than 6
 * samples, which give none. Consecutive samples are correlated: those of one turn, and those taken at the same clock or
 * load. So if turns are known, the result is the widest of three intervals: of the samples, of the medians of the
 * turns, and of the medians of 6 blocks of equal length. */
void samples_interval(const struct samples *samples, double *low, double *high);
/* Half the interval's width, relative to the median; infinity if there is no interval. */
double samples_precision(const struct samples *samples);

/* The marks of each sample (enum throttle, MARK_OUTLIER), in an array of samples->count that the caller frees. */
unsigned char *samples_marks(const struct samples *samples);
/* Writes flags for problems of the run's times, "throttled,outliers", or "":
 *     throttled         the device lowered its clock during a sample
 *     outliers          at least one sample in 20 is an outlier
 *     drift             the last third differs significantly from the first, by more than 3 %
 *     unsteady          the warm-up ended before the times were steady
 *     below_resolution  the resolution of events is more than 1 % of the time between two of them */
#define FLAGS_TEXT 64
const char *samples_flags(const struct samples *samples, char text[FLAGS_TEXT]);

#endif
