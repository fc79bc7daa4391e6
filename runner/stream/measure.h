/* measure.h - times kernels on operands that are in place, several in turns.
 *
 *     warm-up     a kernel's launches until its times are steady
 *     turn        a few samples of one kernel; then it is the next one's turn: A A A B B B A A A ...
 *     sample      one launch between two events, or a batch of them if a launch is short
 *
 * Because of the turns a drift of the device hits all kernels alike.
 *
 * What ran before has changed the device's cache, so a turn begins with a launch that is not timed.
 *
 * Where several devices share a run each launches its band at the same time, and a sample is the slowest one's time. */
#ifndef RUNNER_MEASURE_H
#define RUNNER_MEASURE_H

#include "samples.h"

/* Hears of samples as they are taken; `sample` may be NULL. */
struct measure_watch {
    /* Number `which` of the measurements has `done` samples of at most `most`, of `seconds_each`. done 0: it warms up.
     */
    void (*sample)(void *context, int which, int done, int most, double seconds_each);
    void *context;
};

/* A kernel to be timed, and what came of it. */
struct measurement {
    const struct kernel *kernel;
    struct measured_launch {
        struct device *device;
        struct launch *launch; /* it has been launched before */
    } on[MOST_DEVICES];
    int devices;
    const struct run_options *options; /* warm-up, repeats and whether the cache is cold */
    struct samples samples;            /* the caller frees */
    enum status status;                /* STATUS_RUN: this kernel could not be timed, and `error` says why */
    struct error error;
};

/* Times kernels in turns, each until its options' repeat rule is met. STATUS_INTERRUPTED: a signal came before the last
 * sample. On such a failure, unlike one kernel's own, there are no samples at all. */
enum status measure_kernels(struct measurement *measurements, int count, const struct measure_watch *watch,
                            struct error *error);

#endif
