/* ratio.h - computes the ratio of two runs' medians, its 95 % confidence interval, and the verdict.
 *
 * The interval of each median comes from its order statistics, for any distribution (Hahn and Meeker, Statistical
 * Intervals; Price and Bonett 2002 for ratios of medians). Correlated samples count less: n samples count as n / tau,
 * with tau the integrated autocorrelation time of "is it below the median" (Geyer 1992, initial positive sequence). If
 * fewer than about six independent samples are left, order statistics give no interval. Then the interval is the range
 * of the samples, lengthened as for normal noise (Lord 1947) by the part of it that exceeds the floor; for one sample
 * it is unknown. The two intervals are combined on the logarithmic scale (Zou and Donner 2008). Nothing is random, so
 * the same samples always give the same verdict.
 *
 * Two processes differ by more than their samples show: in the resolution of events, the addresses of buffers, the
 * clocks at that moment. ratio_floor estimates this difference, and the interval is widened by it. */
#ifndef RUNNER_RATIO_H
#define RUNNER_RATIO_H

#include <stdbool.h>

#define RATIO_MIN_SAMPLES 6 /* fewer give no 95 % interval by their order alone */

enum ratio_verdict {
    RATIO_UNKNOWN, /* there is nothing to compare */
    RATIO_FASTER,
    RATIO_SAME,
    RATIO_SLOWER,
    RATIO_UNSURE
};
extern const char *const ratio_verdict_names[]; /* "", "FASTER", "SAME", "SLOWER", "UNSURE" */

struct ratio {
    double base_s, new_s;           /* medians */
    double value, low, high;        /* new_s / base_s and its interval; 0 and infinity: no interval */
    double floor;                   /* relative half width of the interval that more samples do not reduce */
    double base_counts, new_counts; /* equivalent numbers of independent samples */
    enum ratio_verdict verdict;
    /* For UNSURE: the number of further samples of each run that would resolve it; infinity: no number would. Otherwise
     * NaN. */
    double more;
};

extern const struct ratio ratio_unknown; /* all numbers NaN */

/* The relative difference, at 95 %, between the medians of one kernel in two processes. On a GPU it is 1 %: measured on
 * an H200 with eleven runs of thirty kernels of 3 us to 3 ms, 189 of 202 doubtful pairs differed by less, the others by
 * up to 4.3 %. `coarse`: the samples are as short as the resolution of events (the flag below_resolution), and differed
 * by 1.5 us. On a CPU it is assumed to be 2 %, which holds while nothing else uses its cores. */
double ratio_floor(double seconds, bool on_cpu, bool coarse);

/* Compares the samples of two runs, in seconds, in the order in which they were taken; ignores samples that are NaN,
 * zero or negative. SLOWER, FASTER: the interval excludes 1 and the ratio exceeds `threshold` (0.05: it is beyond 1.05
 * or 1/1.05). SAME: the interval is within the threshold. UNSURE: neither. UNKNOWN: one run has no samples. `floor`:
 * from ratio_floor. */
struct ratio ratio_of(const double *base, int base_count, const double *new, int new_count, double floor,
                      double threshold);

#endif
