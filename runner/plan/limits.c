/* limits.c - predicts times from the measured roofs of a device, and raises a roof that a run has exceeded. */
#include "limits.h"
#include "../../kernels/map/before.h"

#include "../base/fail.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device_limits *limits_create(void) {
    struct device_limits *limits = must_malloc(sizeof *limits);
    *limits = (struct device_limits){.memory_bytes_per_s = NAN,
                                     .cached_copy_bytes_per_s = NAN,
                                     .cached_read_bytes_per_s = NAN,
                                     .upload_bytes_per_s = NAN,
                                     .download_bytes_per_s = NAN,
                                     .launch_s = NAN,
                                     .cache_bytes = NAN};
    for (int product = 0; product < LIMITS_PRODUCTS; product++) limits->flops_per_s[product] = NAN;
    return limits;
}

void limits_free(struct device_limits *limits) {
    free(limits);
}

const char *limits_product_name(int product) {
    return product == LIMITS_TF32 ? "tf32" : dtype_name((enum dtype)product);
}

/* The type of product whose rate limits a variant's flops. */
static int product_of(const struct kernel *kernel, const struct geometry *geometry) {
    return kernel->accuracy == ACCURACY_FULL ? (int)first_operand(geometry)->dtype : LIMITS_TF32;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* The time of `share` of an operation's work at the speed of the roof that limits the operation. For memory-bound
 * operations it is divided by kernel->roof_share, the part of that roof that the kernel reaches. NaN: unknown. */
static double roof_seconds(const struct device_limits *limits, const struct kernel *kernel,
                           const struct geometry *geometry, double share) {
    double bytes = share * geometry->bytes, rate = limits->memory_bytes_per_s;
    size_t element = dtype_size(first_operand(geometry)->dtype);
    if (operations[kernel->op]->rate == RATE_FLOPS)
        return share * geometry->flops / limits->flops_per_s[product_of(kernel, geometry)];
    if (!(bytes > limits->cache_bytes))
        rate = kernel->op == OP_REDUCE ? limits->cached_read_bytes_per_s : limits->cached_copy_bytes_per_s;
    /* A CPU takes as long for narrow elements as for float32, for which the rates were measured. */
    if (kernel->device == DEVICE_CPU && element < sizeof(float)) bytes *= (double)sizeof(float) / (double)element;
    return bytes / rate / (kernel->roof_share > 0 ? kernel->roof_share : 1);
}

double predicted_seconds(const struct launch *launch, const struct geometry *geometry) {
    if (geometry_is_empty(geometry)) return 0;
    return launch->kernel->seconds ? launch->kernel->seconds(launch) : INFINITY;
}

double limits_seconds(const struct device_limits *limits, const struct launch *launch, const struct geometry *geometry,
                      double share) {
    const struct kernel *kernel = launch->kernel;
    const char *by;
    if (!limits || !(share > 0)) return NAN;
    if (has_map_before(geometry) && kernel->device == DEVICE_CPU)
        return NAN; /* the map may take longer than the operation */
    double seconds = kernel->near_roof ? roof_seconds(limits, kernel, geometry, share)
                     : kernel->seconds ? fmax(predicted_seconds(launch, geometry),
                                              share * limits_bound(limits, kernel, geometry, &by))
                                       : NAN;
    return isnan(seconds) ? NAN : fmax(seconds, limits->launch_s); /* fmax skips NaN */
}

double limits_bound(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                    const char **by) {
    *by = "";
    if (!limits) return NAN;
    double compute = geometry->flops / limits->flops_per_s[product_of(kernel, geometry)];
    double memory = geometry->bytes / limits->memory_bytes_per_s, bound = fmax(compute, memory); /* fmax skips NaN */
    if (!(bound > 0)) return NAN;
    *by = bound == memory ? "memory" : "compute";
    return bound;
}

/* ---- runs that are faster than a roof ---------------------------------------------------------------------------- */

#define FAR_BEYOND 4 /* cache sizes: a run of more bytes gains less than ROOF_PROVEN from the cache */

bool limits_raise(struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                  double seconds, char text[64]) {
    const char *by;
    if (!(limits_bound(limits, kernel, geometry, &by) > ROOF_PROVEN * seconds) || kernel->is_roof) return false;
    if (strcmp(by, "memory") == 0) {
        if (!(geometry->bytes > FAR_BEYOND * limits->cache_bytes)) return false;
        limits->memory_bytes_per_s = geometry->bytes / seconds;
        snprintf(text, 64, "memory %.3g GB/s", limits->memory_bytes_per_s * 1e-9);
        return true;
    }
    int product = product_of(kernel, geometry);
    limits->flops_per_s[product] = geometry->flops / seconds;
    snprintf(text, 64, "%s %.3g GFLOP/s", limits_product_name(product), geometry->flops / seconds * 1e-9);
    return true;
}
