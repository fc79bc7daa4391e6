/* measure.c - times kernels in turns. */
#include "measure.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>

/* Events resolve about 0.5 us, so launches shorter than BATCH_BELOW_S are timed in batches that take about BATCH_S. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       500e-6
#define BATCH_MAX     1000
/* On an idle queue the first event would pass while the host still prepares the launch, microseconds too early. So an
 * untimed launch goes ahead of any launch shorter than this, to keep the queue busy; of a batch, whose start takes the
 * host longer, an untimed batch. */
#define LEAD_BELOW_S 1e-3
/* Samples of a turn. Longer launches than LONG_S fill the cache with their own data, and one is a turn. */
#define TURN_SAMPLES 3
#define LONG_S       20e-3
/* A warm-up goes on until two blocks of launches, one after the other, are not STEADY_PART faster than the fastest. A
 * GPU's clock takes tens of milliseconds to rise. */
#define STEADY_PART 0.02
#define STEADY_S    0.3
/* The rule "until" is not looked at before the samples have taken this long: what a device does in a shorter time, it
 * does for all of that time. */
#define LEAST_S     0.2
#define GPU_BLOCK_S 10e-3
#define CPU_BLOCK_S 1e-3

struct timing {
    struct device *device;
    struct event *begin, *end;
    struct measurement *of;
    struct samples *samples;
    bool cold, done;
    int launches;        /* in one sample */
    struct batch *batch; /* these launches; NULL: one by one */
    bool lead;           /* one more launch goes ahead, untimed */
    double seconds;      /* the latest sample */
    double spent_s;      /* by all samples */
    int64_t next_look;   /* samples until the repeat rule is looked at */
};

static enum status launch_once(struct timing *timing, struct error *error) {
    TRY(interrupt_check(error));
    return timing->device->operations->launch(timing->device, timing->of->kernel, timing->of->launch, error);
}

/* Starts so many launches, or the batch, however many. */
static enum status launch_all(struct timing *timing, int launches, struct error *error) {
    struct device *device = timing->device;
    if (timing->batch) return device->operations->batch_launch(device, timing->batch, error);
    for (int i = 0; i < launches; i++)
        TRY(device->operations->launch(device, timing->of->kernel, timing->of->launch, error));
    return STATUS_OK;
}

/* Takes one sample: seconds per launch. The device is asked about its conditions while it works. */
static enum status time_sample(struct timing *timing, struct conditions *conditions, struct error *error) {
    struct device *device = timing->device;
    const struct device_operations *ops = device->operations;
    double seconds;
    TRY(interrupt_check(error));
    if (timing->cold) TRY(ops->flush_cache(device, error));
    if (timing->lead) TRY(launch_all(timing, 1, error));
    TRY(ops->event_record(device, timing->begin, QUEUE_COMPUTE, error));
    TRY(launch_all(timing, timing->launches, error));
    TRY(ops->event_record(device, timing->end, QUEUE_COMPUTE, error));
    if (conditions) *conditions = device->conditions(device);
    TRY(ops->event_wait(device, timing->end, error));
    TRY(ops->event_elapsed(device, timing->begin, timing->end, &seconds, error));
    timing->seconds = seconds / timing->launches;
    return STATUS_OK;
}

/* Adds the latest sample. */
static void keep_sample(struct timing *timing, const struct conditions *conditions, int turn) {
    double between = timing->seconds * timing->launches, *least = &timing->samples->least_s;
    if (*least == 0 || between < *least) *least = between;
    timing->spent_s += between;
    samples_append(timing->samples, timing->seconds, conditions, turn);
}

/* Sets how launches as long as the latest are timed. */
static void set_batch(struct timing *timing) {
    const struct device_operations *ops = timing->device->operations;
    if (timing->cold) return;
    if (timing->batch) ops->batch_destroy(timing->device, timing->batch);
    timing->batch = NULL;
    timing->launches = 1;
    timing->lead = timing->seconds < LEAD_BELOW_S;
    if (!(timing->seconds < BATCH_BELOW_S)) return;
    timing->launches = (int)fmin(BATCH_MAX, ceil(BATCH_S / timing->seconds));
    if (ops->batch_create)
        timing->batch = ops->batch_create(timing->device, timing->of->kernel, timing->of->launch, timing->launches);
}

/* The time of one launch, from blocks of them. */
static enum status time_block(struct timing *timing, double block_s, double *spent, double *seconds,
                              struct error *error) {
    int samples = 0;
    double begun = *spent;
    *seconds = 0;
    do {
        TRY(time_sample(timing, NULL, error));
        *spent += timing->seconds * (timing->launches + (timing->batch ? timing->launches : timing->lead));
        *seconds += timing->seconds;
        samples++;
    } while (*spent - begun < block_s);
    *seconds /= samples;
    return STATUS_OK;
}

static enum status reach_steady(struct timing *timing, struct error *error) {
    double block_s = timing->device->unified ? CPU_BLOCK_S : GPU_BLOCK_S, fastest = INFINITY, spent = 0;
    for (int calm = 0; calm < 2;) {
        double seconds;
        TRY(time_block(timing, block_s, &spent, &seconds, error));
        calm = seconds > (1 - STEADY_PART) * fastest ? calm + 1 : 0;
        fastest = fmin(fastest, seconds);
        timing->samples->unsteady = calm < 2 && spent > STEADY_S;
        if (timing->samples->unsteady) break;
    }
    return STATUS_OK;
}

/* The options' untimed launches, one that tells how to time them, and more until times are steady. */
static enum status warm_up(struct timing *timing, struct error *error) {
    const struct run_options *options = timing->of->options;
    struct conditions conditions = CONDITIONS_UNKNOWN;
    for (int64_t i = 0; i < options->warmup; i++) TRY(launch_once(timing, error));
    TRY(time_sample(timing, &conditions, error));
    set_batch(timing);
    if (options->warmup > 0 && !timing->cold && timing->seconds < LONG_S) {
        double seconds = timing->seconds;
        TRY(reach_steady(timing, error));
        if (timing->seconds < 0.7 * seconds || timing->seconds > 1.4 * seconds) set_batch(timing);
    } else if (!timing->lead) {
        keep_sample(timing, &conditions, 0); /* it was timed as the others will be */
    }
    return STATUS_OK;
}

/* Is the repeat rule met? Sorting after each sample would cost more than the samples. */
static bool has_enough(struct timing *timing) {
    const struct run_options *options = timing->of->options;
    int count = timing->samples->count;
    if (count >= options->repeat_max) return true;
    if (count < timing->next_look || timing->spent_s < LEAST_S) return false;
    timing->next_look = count + 1 + count / 4;
    return options->repeat_until > 0 && samples_precision(timing->samples) <= options->repeat_until;
}

static enum status take_turn(struct timing *timing, int turn, bool alone, struct error *error) {
    const int64_t most = timing->of->options->repeat_max;
    const int samples = timing->seconds < LONG_S ? TURN_SAMPLES : 1;
    if (!alone && !timing->cold && !timing->lead && timing->seconds < LONG_S) TRY(launch_once(timing, error));
    struct conditions conditions = CONDITIONS_UNKNOWN;
    for (int i = 0; i < samples && timing->samples->count < most; i++) {
        TRY(time_sample(timing, i == 0 ? &conditions : NULL, error));
        bool hurried = timing->seconds * timing->launches < BATCH_BELOW_S && timing->launches < BATCH_MAX;
        if (hurried && !timing->cold) { /* launches have become shorter since the batch was made */
            set_batch(timing);
            TRY(time_sample(timing, &conditions, error));
        }
        keep_sample(timing, &conditions, turn);
    }
    return STATUS_OK;
}

/* After a kernel's own failure the others go on. */
static enum status settle(struct timing *timing, enum status status, struct error *error) {
    if (status != STATUS_RUN) return status;
    timing->of->status = status;
    timing->of->error = *error;
    *error = (struct error){.status = STATUS_OK};
    samples_free(timing->samples);
    timing->done = true;
    return STATUS_OK;
}

static void tell(const struct measure_watch *watch, const struct timing *timing, int which) {
    if (watch && watch->sample)
        watch->sample(watch->context, which, timing->samples->count, (int)timing->of->options->repeat_max,
                      timing->seconds);
}

static enum status time_all(struct timing *timings, int count, const struct measure_watch *watch, struct error *error) {
    for (int i = 0; i < count; i++) {
        tell(watch, &timings[i], i);
        TRY(settle(&timings[i], warm_up(&timings[i], error), error));
    }
    bool left = true;
    for (int turn = 1; left; turn++) {
        left = false;
        for (int i = 0; i < count; i++) {
            struct timing *timing = &timings[i];
            timing->done = timing->done || has_enough(timing);
            if (timing->done) continue;
            tell(watch, timing, i); /* its turn begins */
            TRY(settle(timing, take_turn(timing, turn, count == 1, error), error));
            tell(watch, timing, i);
            left = true;
        }
    }
    return STATUS_OK;
}

enum status measure_kernels(struct device *device, struct measurement *measurements, int count,
                            const struct measure_watch *watch, struct error *error) {
    const struct device_operations *ops = device->operations;
    struct timing *timings = must_malloc((size_t)(count + 1) * sizeof *timings);
    struct event *begin = NULL, *end = NULL;
    enum status status = ops->event_create(device, &begin, error);
    if (!status) status = ops->event_create(device, &end, error);
    for (int i = 0; i < count; i++) {
        struct measurement *of = &measurements[i];
        of->samples = (struct samples){.count = 0};
        of->status = STATUS_OK;
        timings[i] = (struct timing){.device = device,
                                     .begin = begin,
                                     .end = end,
                                     .of = of,
                                     .samples = &of->samples,
                                     .cold = of->options->cold,
                                     .launches = 1,
                                     .next_look = of->options->repeat_min};
    }
    if (!status) status = time_all(timings, count, watch, error);
    struct error ignored = {.status = STATUS_OK};
    enum status idle = ops->synchronize(device, status ? &ignored : error);
    for (int i = 0; i < count; i++)
        if (timings[i].batch) ops->batch_destroy(device, timings[i].batch);
    if (begin) ops->event_destroy(device, begin);
    if (end) ops->event_destroy(device, end);
    if (!status) status = idle;
    for (int i = 0; i < count && status; i++) samples_free(&measurements[i].samples);
    free(timings);
    return status;
}
