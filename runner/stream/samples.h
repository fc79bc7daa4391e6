/* samples.h - the times of one kernel's repeats, what the device was like meanwhile, and their statistics. */
#ifndef RUNNER_SAMPLES_H
#define RUNNER_SAMPLES_H

#include "device.h"

/* What is doubtful about a sample, besides the reasons of enum throttle: it lies beyond Tukey's outer fences, three
 * interquartile ranges outside of the quartiles. */
#define MARK_OUTLIER 8

struct samples {
    int count;
    double *seconds;               /* of one launch, one entry a sample */
    struct conditions *conditions; /* likewise */
    int *turn;      /* likewise: the number of the turn in which it was taken (measure.h); NULL: unknown */
    double least_s; /* the shortest time between two events, of all launches of a sample; 0: unknown */
    bool unsteady;  /* the warm-up ended before the times were steady */
};
void samples_append(struct samples *samples, double seconds, const struct conditions *conditions, int turn);
void samples_free(struct samples *samples);

struct statistics {
    double median, min, max, mad; /* median absolute deviation, times 1.4826 */
};
/* All NaN if there are no samples. */
struct statistics samples_statistics(const struct samples *samples);
/* The median of the known clocks, in MHz; NaN: none is known. */
double samples_clock_mhz(const struct samples *samples);
/* The distribution-free 95 % interval of the median (order statistics), in seconds; NaN for fewer than 6 samples, which
 * cannot give one. Samples that follow one another are alike: those of a turn, and those of a time in which the clock
 * or the load was another. So where turns are known it is the widest of several intervals: of the samples, of the
 * turns' medians, and of the medians of 6 stretches of equal length. */
void samples_interval(const struct samples *samples, double *low, double *high);
/* Half of its width, relative to the median; infinity where there is none. */
double samples_precision(const struct samples *samples);

/* The marks of each sample (enum throttle, MARK_OUTLIER), in an array of samples->count that the caller frees. */
unsigned char *samples_marks(const struct samples *samples);
/* What makes the times of the whole run doubtful, "throttled,outliers", "" for nothing:
 *     throttled         the device lowered its clock during a sample
 *     outliers          at least one sample in 20 is an outlier
 *     drift             the last third is more than 3 % off the first, and that is no chance
 *     unsteady          the warm-up ended before the times were steady
 *     below_resolution  the time between two events is so short that their resolution is more than 1 % of it */
#define FLAGS_TEXT 64
const char *samples_flags(const struct samples *samples, char text[FLAGS_TEXT]);

#endif
