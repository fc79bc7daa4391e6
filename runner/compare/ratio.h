/* ratio.h - the ratio of two runs' medians, with its 95 % interval from their samples, and what that says.
 *
 * The interval of each median is that of its order statistics, whatever the distribution (Hahn and Meeker, Statistical
 * Intervals; Price and Bonett 2002 for ratios of medians). Samples that resemble their neighbours count less: n samples
 * count as n / tau, with tau the integrated autocorrelation time of "is it below the median" (Geyer 1992, initial
 * positive sequence). Where they come to fewer than about six, order alone gives no interval, and it is the range of
 * the samples, lengthened as for normal noise (Lord 1947) by what of it exceeds the floor; of one sample nothing is
 * known. The two intervals are joined on the logarithmic scale as Zou and Donner (2008) do. Nothing is drawn at random,
 * so the same samples always give the same verdict.
 *
 * Two processes differ by more than the samples of each say: by how events resolve, where buffers lie, clocks at that
 * moment. ratio_floor is that much, and the interval is widened by it. */
#ifndef RUNNER_RATIO_H
#define RUNNER_RATIO_H

#include <stdbool.h>

#define RATIO_LEAST_SAMPLES 6 /* fewer give no 95 % interval by their order alone */

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
    double floor;                   /* the part of it that more samples do not narrow, relative */
    double base_counts, new_counts; /* independent samples that they are worth */
    enum ratio_verdict verdict;
    /* UNSURE: how many more samples of each run would settle it; infinity: no number would. Else NaN. */
    double more;
};

extern const struct ratio ratio_unknown; /* all numbers NaN */

/* How far medians of one kernel from two processes lie apart, relative, at 95 %. Measured on an H200, eleven runs of a
 * bench of thirty kernels of 3 us to 3 ms: of the 202 pairs that a narrower rule left unsure, 189 lay within 1 %, the
 * others within 4.3 % (most of a product of 16-bit floats and of a scale of 512 x 512). `coarse`: samples as short as
 * events can tell (the flag below_resolution), which lay 1.5 us apart. On a CPU 2 % is assumed: it holds where nothing
 * else has a share of its cores. */
double ratio_floor(double seconds, bool on_cpu, bool coarse);

/* Compares the samples of two runs, in seconds, in the order in which they were taken; those that are no times (NaN,
 * zero, negative) are left out. SLOWER, FASTER: the interval excludes 1 and the ratio is beyond `threshold` (0.05: 1.05
 * and 1/1.05). SAME: the interval is within it. UNSURE: neither. UNKNOWN: one of them has no samples. `floor`: as
 * ratio_floor gives it. */
struct ratio ratio_of(const double *base, int base_count, const double *new, int new_count, double floor,
                      double threshold);

#endif
