/* limits.c - predicts times from the measured limits of a device.
 *
 * A variant was timed at a few sizes. Between two of them its time is interpolated on logarithmic axes; beyond the
 * largest it grows in proportion to the work; below the smallest it shrinks to the time of an empty launch. Most
 * variants were timed only on arrays that fit into the cache. For larger arrays a lower bound applies: the variant's
 * float32 rate beyond the cache or, if that is unknown, the memory's rate. */
#include "limits.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>

struct device_limits *limits_create(void) {
    struct device_limits *limits = must_malloc(sizeof *limits);
    *limits = (struct device_limits){.memory_bytes_per_s = NAN,
                                     .upload_bytes_per_s = NAN,
                                     .download_bytes_per_s = NAN,
                                     .launch_s = NAN,
                                     .cache_bytes = NAN};
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) limits->flops_per_s[dtype] = NAN;
    return limits;
}

void limits_free(struct device_limits *limits) {
    if (limits) free(limits->rates);
    free(limits);
}

const struct kernel_rate *limits_rate(const struct device_limits *limits, const struct kernel *kernel, enum dtype dtype,
                                      int operator_) {
    for (int i = 0; i < limits->count; i++) {
        const struct kernel_rate *rate = &limits->rates[i];
        if (rate->kernel == kernel && rate->dtype == dtype && rate->operator_ == operator_) return rate;
    }
    return NULL;
}

bool limits_add_point(struct device_limits *limits, const struct kernel *kernel, enum dtype dtype, int operator_,
                      double work, double seconds) {
    if (!(work > 0) || !(seconds > 0) || !isfinite(work) || !isfinite(seconds)) return false;
    const struct kernel_rate *found = limits_rate(limits, kernel, dtype, operator_);
    int number = found ? (int)(found - limits->rates) : limits->count;
    if (!found) {
        limits->rates = must_realloc(limits->rates, (unsigned long)(limits->count + 1) * sizeof *limits->rates);
        limits->rates[limits->count++] = (struct kernel_rate){.kernel = kernel, .dtype = dtype, .operator_ = operator_};
    }
    struct kernel_rate *rate = &limits->rates[number];
    if (rate->count == RATE_POINTS) return false;
    int at = rate->count++;
    for (; at > 0 && rate->work[at - 1] > work; at--) {
        rate->work[at] = rate->work[at - 1];
        rate->seconds[at] = rate->seconds[at - 1];
    }
    rate->work[at] = work;
    rate->seconds[at] = seconds;
    return true;
}

enum dtype limits_dtype(const struct operation *operation, enum dtype dtype) {
    static const enum dtype signed_of[9] = {[1] = INT8, [2] = INT16, [4] = INT32, [8] = INT64};
    static const enum dtype moved_as[9] = {[1] = INT8, [2] = INT16, [4] = FLOAT32, [8] = FLOAT64};
    if (operation->exact) return moved_as[dtype_size(dtype)];
    return dtype_is_float(dtype) ? dtype : signed_of[dtype_size(dtype)];
}

double limits_work(const struct geometry *geometry) {
    return operations[geometry->op]->rate == RATE_FLOPS ? geometry->flops : geometry->bytes;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static double interpolated(const struct device_limits *limits, const struct kernel_rate *rate, double work) {
    const double *w = rate->work, *s = rate->seconds;
    int last = rate->count - 1;
    if (work >= w[last]) return s[last] * work / w[last];
    if (work <= w[0]) {
        double launch = limits->launch_s < s[0] ? limits->launch_s : s[0];
        return isnan(limits->launch_s) ? s[0] : launch + (s[0] - launch) * work / w[0];
    }
    int above = 1;
    while (w[above] < work) above++;
    double where = log(work / w[above - 1]) / log(w[above] / w[above - 1]);
    return s[above - 1] * pow(s[above] / s[above - 1], where);
}

/* The best matching rate for an operation: the variant's rate with the same type and operator, else with another type,
 * another operator, or both. NULL: none. */
static const struct kernel_rate *rate_for(const struct device_limits *limits, const struct kernel *kernel,
                                          const struct geometry *geometry) {
    const struct operation *operation = operations[geometry->op];
    enum dtype dtype = limits_dtype(operation, geometry->in[0].dtype);
    int operator_ = operation->operator_of ? operation->operator_of(&geometry->options) : 0, best_match = 0;
    const struct kernel_rate *found = NULL;
    for (int i = 0; i < limits->count; i++) {
        const struct kernel_rate *rate = &limits->rates[i];
        int matches = 1 + 2 * (rate->operator_ == operator_) + (rate->dtype == dtype);
        if (rate->kernel == kernel && matches > best_match) found = rate, best_match = matches;
    }
    return found;
}

/* The lower bound of the time for arrays beyond the cache, by the rate of the variant or the memory there; 0 for
 * smaller arrays. */
static double beyond_cache(const struct device_limits *limits, const struct kernel *kernel,
                           const struct geometry *geometry) {
    if (!(geometry->bytes > limits->cache_bytes)) return 0;
    const struct kernel_rate *rate = limits_rate(limits, kernel, FLOAT32, 0);
    if (operations[geometry->op]->rate == RATE_BYTES && rate && rate->work[rate->count - 1] > limits->cache_bytes)
        return geometry->bytes * rate->seconds[rate->count - 1] / rate->work[rate->count - 1];
    return geometry->bytes / limits->memory_bytes_per_s;
}

double limits_seconds(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                      double share) {
    const struct kernel_rate *rate = limits ? rate_for(limits, kernel, geometry) : NULL;
    double work = limits_work(geometry);
    if (!rate || !(share > 0)) return NAN;
    if (!(work > 0)) return limits->launch_s;
    if (operations[geometry->op]->rate ==
        RATE_BYTES) /* converts bytes to those of the same number of elements of the measured type */
        work *= (double)dtype_size(rate->dtype) / (double)dtype_size(geometry->in[0].dtype);
    double seconds = interpolated(limits, rate, work * share);
    bool settled = operations[geometry->op]->rate == RATE_BYTES && rate->work[rate->count - 1] > limits->cache_bytes;
    return settled ? seconds : fmax(seconds, share * beyond_cache(limits, kernel, geometry));
}

/* The flops per second of the fastest variant of this type and accuracy. */
static double flops_roof(const struct device_limits *limits, const struct kernel *kernel, enum dtype dtype) {
    double roof = limits->flops_per_s[dtype];
    if (operations[kernel->op]->rate != RATE_FLOPS) return roof;
    for (int i = 0; i < limits->count; i++) {
        const struct kernel_rate *rate = &limits->rates[i];
        bool matches = rate->kernel->op == kernel->op && rate->dtype == dtype && !rate->kernel->is_roof;
        if (!matches || rate->kernel->accuracy != kernel->accuracy) continue;
        for (int p = 0; p < rate->count; p++) roof = fmax(roof, rate->work[p] / rate->seconds[p]); /* skips NaN */
    }
    return roof;
}

double limits_bound(const struct device_limits *limits, const struct kernel *kernel, const struct geometry *geometry,
                    const char **by) {
    *by = "";
    if (!limits) return NAN;
    double compute = geometry->flops / flops_roof(limits, kernel, geometry->in[0].dtype);
    double memory = geometry->bytes / limits->memory_bytes_per_s, bound = fmax(compute, memory); /* fmax skips NaN */
    if (!(bound > 0)) return NAN;
    *by = bound == memory ? "memory" : "compute";
    return bound;
}
