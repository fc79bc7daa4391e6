/* measure.h - times kernels whose operands are on the device, several kernels in turns.
 *
 *     warm-up     launches of a kernel until its times are steady
 *     turn        a few samples of one kernel, then the next kernel's turn: A A A B B B A A A ...
 *     sample      one launch between two events, or a batch of launches if they are short
 *
 * Because of the turns a drift of the device affects all kernels alike. The previous kernel has changed the device's
 * cache, so a turn begins with an untimed launch.
 *
 * If several devices share a run, each launches its band at the same time, and a sample is the time of the slowest. */
#ifndef RUNNER_MEASURE_H
#define RUNNER_MEASURE_H

#include "../base/samples.h"
#include "poison.h"

/* Callbacks of measurements. */
struct measure_watch {
    /* Measurement number `which` has `done` of at most `max_samples` samples, and a launch of the last one took
     * `seconds_each`. done 0: the kernel warms up. */
    void (*sample)(void *context, int which, int done, int max_samples, double seconds_each);
    /* A turn or the warm-up of measurement number `which` begins, or has ended. NULL: not wanted. */
    void (*turn)(void *context, int which, bool begins);
    void *context;
};

/* A kernel to be timed, and its result. */
struct measurement {
    const struct kernel *kernel;
    struct measured_launch {
        struct device *device;
        struct launch *launch; /* was launched before, so its operands are on the device */
        struct poisoned out;   /* its output, if the kernel is not trusted */
    } on[MAX_DEVICES];
    int devices;
    const struct run_options *options; /* warm-up, repeats and whether the cache is cold */
    struct samples samples;            /* the caller frees */
    enum status status;                /* STATUS_RUN: this kernel could not be timed; `error` has the reason;
                                          STATUS_TIMEOUT: it took too long */
    struct error error;
    bool wrong; /* with STATUS_RUN: the kernel was timed, but its result is not the verified one (poison.h) */
};

/* Times kernels in turns, each until its options' repeat rule is met. The failure of a single kernel sets only its
 * measurement's status. STATUS_INTERRUPTED: a signal came before the last sample. After this or another error there are
 * no samples at all. */
enum status measure_kernels(struct measurement *measurements, int count, const struct measure_watch *watch,
                            struct error *error);

#endif
