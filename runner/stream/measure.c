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
/* A warm-up goes on until blocks of launches, `calm` of them one after the other, are not `part` faster than the
 * fastest. A GPU's clock takes tens of milliseconds to rise, and after a product that draws its full power it rises in
 * steps of less than 1 % for longer than a sample's turn. */
struct steadiness {
    double block_s, part;
    int calm;
    double most_s; /* after that it is given up */
};
static const struct steadiness gpu_steadiness = {50e-3, 0.005, 1, 0.5}, cpu_steadiness = {1e-3, 0.02, 2, 0.3};
/* The rule "until" is not looked at before the samples have taken this long: what a device does in a shorter time, it
 * does for all of that time. */
#define LEAST_S 0.2

/* A kernel's part on one device. */
struct part {
    struct device *device;
    struct launch *launch;
    struct event *begin, *end;
    struct batch *batch; /* a sample's launches; NULL: one by one */
};

struct timing {
    struct part parts[MOST_DEVICES];
    int count; /* of them */
    struct measurement *of;
    struct samples *samples;
    bool cold, done;
    bool batched;      /* each part has a batch */
    int launches;      /* in one sample */
    bool lead;         /* one more launch goes ahead, untimed */
    double seconds;    /* the latest sample */
    double spent_s;    /* by all samples */
    int64_t next_look; /* samples until the repeat rule is looked at */
};

/* Starts so many launches, or the batch, however many. */
static enum status launch_part(const struct timing *timing, const struct part *part, int launches,
                               struct error *error) {
    const struct device_operations *ops = part->device->operations;
    if (timing->batched) return ops->batch_launch(part->device, part->batch, error);
    for (int i = 0; i < launches; i++) TRY(ops->launch(part->device, timing->of->kernel, part->launch, error));
    return STATUS_OK;
}

/* Without the batch. */
static enum status launch_once(struct timing *timing, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct part *part = &timing->parts[i];
        TRY(part->device->operations->launch(part->device, timing->of->kernel, part->launch, error));
    }
    return STATUS_OK;
}

/* Takes one sample: seconds per launch. The first device is asked about its conditions while it works. */
static enum status time_sample(struct timing *timing, struct conditions *conditions, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct part *part = &timing->parts[i];
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
        const struct part *part = &timing->parts[i];
        double seconds;
        TRY(part->device->operations->event_wait(part->device, part->end, error));
        TRY(part->device->operations->event_elapsed(part->device, part->begin, part->end, &seconds, error));
        timing->seconds = fmax(timing->seconds, seconds / timing->launches);
    }
    return STATUS_OK;
}

/* Adds the latest sample. */
static void keep_sample(struct timing *timing, const struct conditions *conditions, int turn) {
    double between = timing->seconds * timing->launches, *least = &timing->samples->least_s;
    if (*least == 0 || between < *least) *least = between;
    timing->spent_s += between;
    samples_append(timing->samples, timing->seconds, conditions, turn);
}

static void drop_batches(struct timing *timing) {
    for (int i = 0; i < timing->count; i++) {
        struct part *part = &timing->parts[i];
        if (part->batch) part->device->operations->batch_destroy(part->device, part->batch);
        part->batch = NULL;
    }
    timing->batched = false;
}

/* Sets how launches as long as the latest are timed. */
static void set_batch(struct timing *timing) {
    if (timing->cold) return;
    drop_batches(timing);
    timing->launches = 1;
    timing->lead = timing->seconds < LEAD_BELOW_S;
    if (!(timing->seconds < BATCH_BELOW_S)) return;
    timing->launches = (int)fmin(BATCH_MAX, ceil(BATCH_S / timing->seconds));
    bool all = true;
    for (int i = 0; i < timing->count && all; i++) {
        struct part *part = &timing->parts[i];
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

/* The time of one launch, from blocks of them. */
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

/* Have launches become so short since their number was set that the latest sample is, too? */
static bool is_hurried(const struct timing *timing) {
    return !timing->cold && timing->seconds * timing->launches < BATCH_BELOW_S && timing->launches < BATCH_MAX;
}

static enum status take_turn(struct timing *timing, int turn, bool alone, struct error *error) {
    const int64_t most = timing->of->options->repeat_max;
    const int samples = timing->seconds < LONG_S ? TURN_SAMPLES : 1;
    if (!alone && !timing->cold && !timing->lead && timing->seconds < LONG_S) TRY(launch_once(timing, error));
    struct conditions conditions = CONDITIONS_UNKNOWN;
    for (int i = 0; i < samples && timing->samples->count < most; i++) {
        TRY(time_sample(timing, i == 0 ? &conditions : NULL, error));
        while (is_hurried(timing)) { /* each time they are ten times as many at least */
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
        struct part *part = &timing->parts[timing->count++];
        *part = (struct part){.device = of->on[i].device, .launch = of->on[i].launch};
        TRY(part->device->operations->event_create(part->device, &part->begin, error));
        TRY(part->device->operations->event_create(part->device, &part->end, error));
    }
    return STATUS_OK;
}

/* Waits until the devices are idle, then frees what open_timing and set_batch made. */
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
        struct part *part = &timing->parts[i];
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
