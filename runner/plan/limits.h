/* limits.h - the measured speed of a device, and times predicted from it. limits/limits_measure.c measures it,
 * limits/limits_file.c stores it in a file. */
#ifndef RUNNER_PLAN_LIMITS_H
#define RUNNER_PLAN_LIMITS_H

#include "../../kernels/core/operation.h"
#include "../base/clock.h"

#define LIMITS_PRODUCTS (DTYPE_COUNT + 1) /* the types of products: the data types, and float32 as tf32 */
#define LIMITS_TF32     DTYPE_COUNT

/* Unknown numbers are NaN. */
struct device_limits {
    char measured[TIME_TEXT];                        /* time of the measurement, ISO 8601 */
    double memory_bytes_per_s;                       /* read plus written, by a copy or a sum beyond the cache */
    double cached_copy_bytes_per_s;                  /* read plus written within the cache, by a copy... */
    double cached_read_bytes_per_s;                  /* ...and by a sum */
    double flops_per_s[LIMITS_PRODUCTS];             /* by the variant that `auto` chooses; NaN for integers */
    double upload_bytes_per_s, download_bytes_per_s; /* one direction at a time; NaN on a unified device */
    double launch_s;                                 /* time of an almost empty launch */
    double cache_bytes;                              /* of the last-level cache, as the device reports it */
};

/* Limits in which all numbers are unknown. The caller frees them with limits_free. */
struct device_limits *limits_create(void);
void limits_free(struct device_limits *limits); /* NULL: does nothing */

/* "float32", "tf32" */
const char *limits_product_name(int product);

/* The time of one launch that its kernel predicts; infinite: it predicts none. 0: the operation has nothing to compute,
 * which kernels need not consider. `launch` has no pointers. */
double predicted_seconds(const struct launch *launch, const struct geometry *geometry);

/* Predicts the time of one launch that does `share` of an operation's work: from the roofs if the variant is near them,
 * else from its own model (kernel->seconds), but no less than the roofs allow. `launch` has no pointers. NaN: unknown,
 * as for a CPU kernel after a map. `limits` may be NULL. */
double limits_seconds(const struct device_limits *limits, const struct launch *launch, const struct geometry *geometry,
                      double share);

/* The lower bound of a variant's time: its flops at the rate of a product of its type, or its bytes at the memory's
 * rate, whichever is longer. *by: "compute" or "memory". NaN and "": both rates are unknown, or there is no work.
 * `limits` may be NULL. */
double limits_bound(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                    const char **by);

/* If a run of the whole work in `seconds` was faster than a roof by more than ROOF_PROVEN, raises the roof to the run's
 * rate, writes it to `text` ("float32 97.3 GFLOP/s") and returns true. Runs limited by memory count only if they exceed
 * the cache by far; kernels that only measure a roof do not count. */
#define ROOF_PROVEN 1.05
bool limits_raise(struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                  double seconds, char text[64]);

#endif
