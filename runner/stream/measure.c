/* measure.c - times kernels in turns. */
#include "measure.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>

/* The resolution of events is about 0.5 us, so launches shorter than BATCH_BELOW_S are timed in batches that take about
 * BATCH_S. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       500e-6
#define BATCH_MAX     1000
/* On an idle queue the first event would pass while the host still prepares the launch, which adds microseconds to the
 * time. So an untimed launch precedes any launch shorter than this, to keep the queue busy; an untimed batch precedes a
 * batch, which the host takes longer to start. */
#define LEAD_BELOW_S 1e-3
/* Samples of a turn. A launch longer than LONG_S fills the cache with its own data, so one sample is a turn. */
#define TURN_SAMPLES 3
#define LONG_S       20e-3
/* When a warm-up ends: after `calm` consecutive blocks of launches, of block_s seconds each, none of which was faster
 * than the fastest block by more than the fraction `part`. A GPU's clock takes tens of milliseconds to rise; after a
 * product that draws the full power it rises in steps of less than 1 %, and for longer than a turn. */
struct steadiness {
    double block_s, part;
    int calm;
    double most_s; /* the warm-up stops after this time in any case */
};
static const struct steadiness gpu_steadiness = {50e-3, 0.005, 1, 0.5}, cpu_steadiness = {1e-3, 0.02, 2, 0.3};
/* The rule `until` is not evaluated before the samples have taken this long: within a shorter time a device's speed may
 * be constant by chance. */
#define LEAST_S 0.2

/* The timing of a kernel on one device. */
struct device_timing {
    struct device *device;
    struct launch *launch;
    struct event *begin, *end;
    struct batch *batch; /* the launches of a sample; NULL: they are launched one by one */
};

struct timing {
    struct device_timing parts[MOST_DEVICES];
    int count; /* of parts */
    struct measurement *of;
    struct samples *samples;
    bool cold, done;
    bool batched;      /* each part has a batch */
    int launches;      /* in one sample */
    bool lead;         /* an untimed launch precedes each sample */
    double seconds;    /* of one launch, in the latest sample */
    double spent_s;    /* the time of all samples */
    int64_t next_look; /* the number of samples at which the repeat rule is evaluated next */
};

/* Starts that many launches, or the batch, whatever its size. */
static enum status launch_part(const struct timing *timing, const struct device_timing *part, int launches,
                               struct error *error) {
    const struct device_operations *ops = part->device->operations;
    if (timing->batched) return ops->batch_launch(part->device, part->batch, error);
    for (int i = 0; i < launches; i++) TRY(ops->launch(part->device, timing->of->kernel, part->launch, error));
    return STATUS_OK;
}

/* Launches the kernel once on each device, untimed and without the batch. */
static enum status launch_once(struct timing *timing, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct device_timing *part = &timing->parts[i];
        TRY(part->device->operations->launch(part->device, timing->of->kernel, part->launch, error));
    }
    return STATUS_OK;
}

/* Takes one sample and sets timing->seconds. Meanwhile it reads the conditions of the first device. */
static enum status time_sample(struct timing *timing, struct conditions *conditions, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct device_timing *part = &timing->parts[i];
        const struct device_operations *ops = part->device->operations;
        if (timing->cold) TRY(ops->flush_cache(part->device, error));
        if (timing->lead) TRY(launch_part(timing, part, 1, error));
        TRY(ops->event_record(part->device, part->begin, QUEUE_COMPUTE, error));
        TRY(launch_part(timing, part, timing->launches, error));
        TRY(ops->event_record(part->device, part->end, QUEUE_COMPUTE, error));
    }
    struct device *first = timing->parts[0].device;
    if (conditions) *conditions = first->conditions(first);
    timing->seconds = 0;
    for (int i = 0; i < timing->count; i++) {
        const struct device_timing *part = &timing->parts[i];
        double seconds;
        TRY(part->device->operations->event_wait(part->device, part->end, error));
        TRY(part->device->operations->event_elapsed(part->device, part->begin, part->end, &seconds, error));
        timing->seconds = fmax(timing->seconds, seconds / timing->launches);
    }
    return STATUS_OK;
}

/* Appends the latest sample to the results. */
static void keep_sample(struct timing *timing, const struct conditions *conditions, int turn) {
    double between = timing->seconds * timing->launches, *least = &timing->samples->least_s;
    if (*least == 0 || between < *least) *least = between;
    timing->spent_s += between;
    samples_append(timing->samples, timing->seconds, conditions, turn);
}

static void drop_batches(struct timing *timing) {
    for (int i = 0; i < timing->count; i++) {
        struct device_timing *part = &timing->parts[i];
        if (part->batch) part->device->operations->batch_destroy(part->device, part->batch);
        part->batch = NULL;
    }
    timing->batched = false;
}

/* Chooses the number of launches in a sample, by the time of the latest one, and prepares batches. */
static void choose_batch(struct timing *timing) {
    if (timing->cold) return;
    drop_batches(timing);
    timing->launches = 1;
    timing->lead = timing->seconds < LEAD_BELOW_S;
    if (!(timing->seconds < BATCH_BELOW_S)) return;
    timing->launches = (int)fmin(BATCH_MAX, ceil(BATCH_S / timing->seconds));
    bool all = true;
    for (int i = 0; i < timing->count && all; i++) {
        struct device_timing *part = &timing->parts[i];
        const struct device_operations *ops = part->device->operations;
        if (ops->batch_create)
            part->batch = ops->batch_create(part->device, timing->of->kernel, part->launch, timing->launches);
        all = part->batch != NULL;
    }
    if (all)
        timing->batched = true;
    else
        drop_batches(timing);
}

/* Takes samples for block_s seconds; sets *seconds to their mean and adds their time to *spent. */
static enum status time_block(struct timing *timing, double block_s, double *spent, double *seconds,
                              struct error *error) {
    int samples = 0;
    double begun = *spent;
    *seconds = 0;
    do {
        TRY(time_sample(timing, NULL, error));
        *spent += timing->seconds * (timing->launches + (timing->batched ? timing->launches : timing->lead));
        *seconds += timing->seconds;
        samples++;
    } while (*spent - begun < block_s);
    *seconds /= samples;
    return STATUS_OK;
}

static enum status reach_steady(struct timing *timing, struct error *error) {
    const struct steadiness *steady = timing->parts[0].device->unified ? &cpu_steadiness : &gpu_steadiness;
    double fastest = INFINITY, spent = 0;
    for (int calm = 0; calm < steady->calm;) {
        double seconds;
        TRY(time_block(timing, steady->block_s, &spent, &seconds, error));
        calm = seconds > (1 - steady->part) * fastest ? calm + 1 : 0;
        fastest = fmin(fastest, seconds);
        timing->samples->unsteady = calm < steady->calm && spent > steady->most_s;
        if (timing->samples->unsteady) break;
    }
    return STATUS_OK;
}

/* Makes the untimed launches of the options, one launch for choose_batch, and more until the times are steady. */
static enum status warm_up(struct timing *timing, struct error *error) {
    const struct run_options *options = timing->of->options;
    struct conditions conditions = CONDITIONS_UNKNOWN;
    for (int64_t i = 0; i < options->warmup; i++) TRY(launch_once(timing, error));
    TRY(time_sample(timing, &conditions, error));
    choose_batch(timing);
    if (options->warmup > 0 && !timing->cold && timing->seconds < LONG_S) {
        double seconds = timing->seconds;
        TRY(reach_steady(timing, error));
        if (timing->seconds < 0.7 * seconds || timing->seconds > 1.4 * seconds) choose_batch(timing);
    } else if (!timing->lead) {
        keep_sample(timing, &conditions, 0); /* it was timed in the same way as the following ones */
    }
    return STATUS_OK;
}

/* Is the repeat rule met? It is evaluated at growing intervals: sorting after each sample would take too long. */
static bool has_enough(struct timing *timing) {
    const struct run_options *options = timing->of->options;
    int count = timing->samples->count;
    if (count >= options->repeat_max) return true;
    if (count < timing->next_look || timing->spent_s < LEAST_S) return false;
    timing->next_look = count + 1 + count / 4;
    return options->repeat_until > 0 && samples_precision(timing->samples) <= options->repeat_until;
}

/* Is the latest sample too short to time, because launches have become faster since choose_batch? */
static bool is_too_short(const struct timing *timing) {
    return !timing->cold && timing->seconds * timing->launches < BATCH_BELOW_S && timing->launches < BATCH_MAX;
}

static enum status take_turn(struct timing *timing, int turn, bool alone, struct error *error) {
    const int64_t most = timing->of->options->repeat_max;
    const int samples = timing->seconds < LONG_S ? TURN_SAMPLES : 1;
    if (!alone && !timing->cold && !timing->lead && timing->seconds < LONG_S) TRY(launch_once(timing, error));
    struct conditions conditions = CONDITIONS_UNKNOWN;
    for (int i = 0; i < samples && timing->samples->count < most; i++) {
        TRY(time_sample(timing, i == 0 ? &conditions : NULL, error));
        while (is_too_short(timing)) { /* each time the number of launches grows at least tenfold */
            choose_batch(timing);
            TRY(time_sample(timing, &conditions, error));
        }
        keep_sample(timing, &conditions, turn);
    }
    return STATUS_OK;
}

/* Keeps the failure of a single kernel in its measurement, so that the other kernels continue. */
static enum status keep_kernel_failure(struct timing *timing, enum status status, struct error *error) {
    if (status != STATUS_RUN) return status;
    timing->of->status = status;
    timing->of->error = *error;
    *error = (struct error){.status = STATUS_OK};
    samples_free(timing->samples);
    timing->done = true;
    return STATUS_OK;
}

static void report(const struct measure_watch *watch, const struct timing *timing, int which) {
    if (watch && watch->sample)
        watch->sample(watch->context, which, timing->samples->count, (int)timing->of->options->repeat_max,
                      timing->seconds);
}

static enum status time_all(struct timing *timings, int count, const struct measure_watch *watch, struct error *error) {
    for (int i = 0; i < count; i++) {
        report(watch, &timings[i], i);
        TRY(keep_kernel_failure(&timings[i], warm_up(&timings[i], error), error));
    }
    bool left = true;
    for (int turn = 1; left; turn++) {
        left = false;
        for (int i = 0; i < count; i++) {
            struct timing *timing = &timings[i];
            timing->done = timing->done || has_enough(timing);
            if (timing->done) continue;
            report(watch, timing, i); /* its turn begins */
            TRY(keep_kernel_failure(timing, take_turn(timing, turn, count == 1, error), error));
            report(watch, timing, i);
            left = true;
        }
    }
    return STATUS_OK;
}

static enum status open_timing(struct timing *timing, struct measurement *of, struct error *error) {
    of->samples = (struct samples){.count = 0};
    of->status = STATUS_OK;
    *timing = (struct timing){.parts = {{.device = of->on[0].device}},
                              .of = of,
                              .samples = &of->samples,
                              .cold = of->options->cold,
                              .launches = 1,
                              .next_look = of->options->repeat_min};
    for (int i = 0; i < of->devices; i++) {
        struct device_timing *part = &timing->parts[timing->count++];
        *part = (struct device_timing){.device = of->on[i].device, .launch = of->on[i].launch};
        TRY(part->device->operations->event_create(part->device, &part->begin, error));
        TRY(part->device->operations->event_create(part->device, &part->end, error));
    }
    return STATUS_OK;
}

/* Waits until the devices are idle, then frees events and batches. */
static enum status close_timing(struct timing *timing, struct error *error) {
    enum status status = STATUS_OK;
    for (int i = 0; i < timing->count; i++) {
        struct device *device = timing->parts[i].device;
        struct error ignored = {.status = STATUS_OK};
        enum status idle = device->operations->synchronize(device, status ? &ignored : error);
        if (!status) status = idle;
    }
    drop_batches(timing);
    for (int i = 0; i < timing->count; i++) {
        struct device_timing *part = &timing->parts[i];
        if (part->begin) part->device->operations->event_destroy(part->device, part->begin);
        if (part->end) part->device->operations->event_destroy(part->device, part->end);
    }
    return status;
}

enum status measure_kernels(struct measurement *measurements, int count, const struct measure_watch *watch,
                            struct error *error) {
    struct timing *timings = must_malloc((size_t)(count + 1) * sizeof *timings);
    enum status status = STATUS_OK;
    int opened = 0;
    while (opened < count && !status) {
        status = open_timing(&timings[opened], &measurements[opened], error);
        opened++;
    }
    if (!status) status = time_all(timings, count, watch, error);
    for (int i = 0; i < opened; i++) {
        struct error ignored = {.status = STATUS_OK};
        enum status closed = close_timing(&timings[i], status ? &ignored : error);
        if (!status) status = closed;
    }
    for (int i = 0; i < opened && status; i++) samples_free(&measurements[i].samples);
    free(timings);
    return status;
}
