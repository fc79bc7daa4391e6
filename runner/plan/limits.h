/* limits.h - the measured speed of a device, and times predicted from it. limits/limits_measure.c measures it,
 * limits/limits_file.c stores it in a file. */
#ifndef RUNNER_PLAN_LIMITS_H
#define RUNNER_PLAN_LIMITS_H

#include "../../kernels/core/operation.h"
#include "../base/clock.h"

#define RATE_POINTS 3

/* The measured times of one launch of a variant at a few sizes. */
struct kernel_rate {
    const struct kernel *kernel;
    enum dtype dtype;
    int operator_; /* index among the operation's operators; 0 if it has none */
    int count;
    double work[RATE_POINTS]; /* ascending; flops or bytes, by the operation's `rate` */
    double seconds[RATE_POINTS];
};

/* Unknown numbers are NaN. */
struct device_limits {
    char measured[TIME_TEXT];        /* time of the measurement, ISO 8601 */
    double memory_bytes_per_s;       /* read plus written, by the fastest variant on arrays beyond the cache */
    double flops_per_s[DTYPE_COUNT]; /* by the fastest product that `auto` may choose; NaN for integers */
    double upload_bytes_per_s, download_bytes_per_s; /* one direction at a time; NaN on a unified device */
    double launch_s;                                 /* time of an almost empty launch */
    double cache_bytes;                              /* of the last-level cache, as the device reports it */
    int count;
    struct kernel_rate *rates;
};

/* Limits in which all numbers are unknown. The caller frees them with limits_free. */
struct device_limits *limits_create(void);
void limits_free(struct device_limits *limits); /* NULL: does nothing */

/* The rate of a variant with this type and operator. NULL: it has no points. */
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

/* The predicted time of one launch of a variant with `share` of an operation's work. NaN: no measurement of the variant
 * exists. `limits` may be NULL. */
double limits_seconds(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                      double share);

/* The lower bound of a variant's time: the longer one of its flops at the rate of the fastest variant of this accuracy,
 * and its bytes at the memory's rate. *by: "compute" or "memory". NaN and "": both rates are unknown, or there is no
 * work. `limits` may be NULL. */
double limits_bound(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                    const char **by);

#endif
