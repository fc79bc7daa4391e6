/* limits.h - the measured speed of a device, and times predicted from it. limits/limits_measure.c measures it,
 * limits/limits_file.c stores it in a file. */
#ifndef RUNNER_PLAN_LIMITS_H
#define RUNNER_PLAN_LIMITS_H

#include "../../kernels/core/operation.h"
#include "../base/clock.h"

#define RATE_POINTS 3

/* The seconds that one launch of a variant took at a few sizes. */
struct kernel_rate {
    const struct kernel *kernel;
    enum dtype dtype;
    int operator_; /* of the operation's operators; 0 where it is just one */
    int count;
    double work[RATE_POINTS]; /* ascending: flops, or bytes where the operation's speed is compared by bytes */
    double seconds[RATE_POINTS];
};

/* Unknown numbers are NaN. */
struct device_limits {
    char measured[TIME_TEXT];        /* when; ISO 8601 */
    double memory_bytes_per_s;       /* read and written, by the fastest pass over arrays larger than the cache */
    double flops_per_s[DTYPE_COUNT]; /* of the fastest product that `auto` may choose; NaN for integers */
    double upload_bytes_per_s, download_bytes_per_s; /* one way at a time; NaN where nothing is copied */
    double launch_s;                                 /* of a launch with next to no work */
    double cache_bytes;                              /* of the last level, as the device says */
    int count;
    struct kernel_rate *rates;
};

/* Limits in which all numbers are unknown. The caller frees them with limits_free. */
struct device_limits *limits_create(void);
void limits_free(struct device_limits *limits); /* NULL: does nothing */

/* The rate of a variant with those. NULL: no point of it was added. */
const struct kernel_rate *limits_rate(const struct device_limits *limits, const struct kernel *kernel, enum dtype dtype,
                                      int operator_);
/* Adds a point to a rate, sorted by work. false: the rate has RATE_POINTS points already, or the numbers are not
 * positive. */
bool limits_add_point(struct device_limits *limits, const struct kernel *kernel, enum dtype dtype, int operator_,
                      double work, double seconds);

/* The type that is measured in place of this one: unsigned integers are as fast as signed ones of their size, and for
 * operations that only move elements only the size matters. */
enum dtype limits_dtype(const struct operation *operation, enum dtype dtype);

/* The work of an operation on these shapes, in the unit of its rates. */
double limits_work(const struct geometry *geometry);

/* The predicted seconds of a variant for `share` of an operation's work, in one launch. NaN: nothing was measured that
 * tells. `limits` may be NULL. */
double limits_seconds(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                      double share);

/* The least time that the limits allow a variant: by its flops, at the rate of the fastest that is as accurate, or by
 * its bytes, whichever takes longer; *by becomes "compute" or "memory". NaN and "": neither is known, or there is no
 * work. `limits` may be NULL. */
double limits_bound(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                    const char **by);

#endif
