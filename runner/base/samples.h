/* samples.h - stores the times of a kernel's repeats and the device's conditions (struct samples), and computes
 * statistics of them. */
#ifndef RUNNER_SAMPLES_H
#define RUNNER_SAMPLES_H

#include <math.h>
#include <stdbool.h>

/* Why a device has lowered its clock; bits. */
enum throttle {
    THROTTLE_POWER = 1, /* to stay within its power limit */
    THROTTLE_HEAT = 2,  /* because of its temperature */
    THROTTLE_OTHER = 4, /* because of its power supply, or for another hardware reason */
};
/* A device's clock, power and temperature at a moment; unknown numbers are NaN. */
struct sample_conditions {
    float clock_mhz, power_w, temperature_c; /* clock_mhz: the graphics clock */
    unsigned throttle;                       /* enum throttle */
    bool busy;                               /* other processes used the CPUs meanwhile */
    double probe_s;                          /* probe_seconds beside the sample; of a GPU unknown */
};
#define CONDITIONS_UNKNOWN ((struct sample_conditions){NAN, NAN, NAN, 0, false, NAN})

/* The marks of a sample, beside those of enum throttle: it lies beyond Tukey's outer fences, which are three
 * interquartile ranges outside the quartiles; other programs used the CPUs or their cores. */
#define MARK_OUTLIER 8
#define MARK_BUSY    16

struct samples {
    int count;
    double *seconds;                      /* for each sample: the time of one launch */
    struct sample_conditions *conditions; /* for each sample */
    int *turn;                            /* for each sample: the number of its turn (measure.h); NULL: unknown */
    double min_s;  /* the shortest time between the two events of a sample, for all its launches; 0: unknown */
    bool unsteady; /* the warm-up ended before the times were steady */
    bool busy;     /* other processes used the CPUs, counted over all of them */
};
/* Appends a sample: the time of one launch, and the conditions and turn in which it was taken. */
void samples_append(struct samples *samples, double seconds, const struct sample_conditions *conditions, int turn);
void samples_free(struct samples *samples);

struct statistics {
    double median, min, max, mad; /* mad: median absolute deviation, times 1.4826 */
};
/* All NaN if there are no samples. */
struct statistics samples_statistics(const struct samples *samples);
/* The median of the known clocks, in MHz; NaN: no clock is known. */
double samples_clock_mhz(const struct samples *samples);
/* The median of the known times of probes, in seconds; NaN: no time is known. */
double samples_probe_s(const struct samples *samples);
/* The distribution-free 95 % confidence interval of the median (by order statistics), in seconds; NaN for fewer than 6
 * samples, which give none. Consecutive samples are correlated: those of one turn, and those taken at the same clock or
 * load. So if turns are known, the result is the widest of three intervals: of the samples, of the medians of the
 * turns, and of the medians of 6 blocks of equal length. */
void samples_interval(const struct samples *samples, double *low, double *high);
/* Half the interval's width, relative to the median; infinity if there is no interval. */
double samples_precision(const struct samples *samples);

/* The marks of each sample (enum throttle, MARK_OUTLIER, MARK_BUSY), in an array of samples->count that the caller
 * frees. */
unsigned char *samples_marks(const struct samples *samples);
/* Writes flags for problems of the run's times, "throttled,outliers", or "":
 *     throttled         the device lowered its clock during a sample
 *     outliers          at least one sample in 20 is an outlier
 *     drift             the last third differs significantly from the first, by more than 3 %
 *     unsteady          the warm-up ended before the times were steady
 *     below_resolution  the resolution of events is more than 1 % of the time between two of them
 *     busy              other processes used the CPUs over all samples, or the CPUs or their cores during a quarter
 *     noisy             the 95 % interval of the median is wider than a quarter of the median
 *     bimodal           the samples form two groups, far apart compared with the spread within them */
#define FLAGS_TEXT 96
#define NOISY      0.25 /* width of an interval, in medians */
const char *samples_flags(const struct samples *samples, char text[FLAGS_TEXT]);
/* The number of samples during which other programs used the CPUs or their cores. */
int samples_busy(const struct samples *samples);

#endif
