/* measure.c - times kernels in turns. */
#include "measure.h"

#include "../base/clock.h"
#include "../base/cpu_load.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>

/* The resolution of events is about 0.5 us, so launches shorter than BATCH_BELOW_S are timed in batches that take about
 * BATCH_S. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       500e-6
#define MAX_BATCH     1000
/* On an idle queue the first event would pass while the host still prepares the launch, which adds microseconds to the
 * time. So an untimed launch precedes any launch shorter than this, to keep the queue busy; an untimed batch precedes a
 * batch, which the host takes longer to start. */
#define LEAD_BELOW_S 1e-3
/* Samples of a turn. A launch longer than LONG_S is hardly affected by what the kernel before it left in the cache, so
 * its turn has one sample, without an untimed launch before it. */
#define TURN_SAMPLES 3
#define LONG_S       20e-3
/* When a warm-up ends: after `calm` consecutive blocks of launches, of block_s seconds each, none of which was faster
 * than the fastest block by more than `fraction`. A GPU's clock takes tens of milliseconds to rise; after a product
 * that draws the full power it rises in steps of less than 1 %, and for longer than a turn. */
struct steadiness {
    double block_s, fraction;
    int calm;
    double max_s; /* the warm-up stops after this time in any case */
};
static const struct steadiness gpu_steadiness = {50e-3, 0.005, 1, 0.5}, cpu_steadiness = {1e-3, 0.02, 2, 0.3};
/* After the warm-up the batch is chosen anew if a launch takes less or more than these shares of its time when it was
 * chosen. */
#define MUCH_FASTER 0.7
#define MUCH_SLOWER 1.4
/* The rule `until` is not evaluated before the samples have taken this long: within a shorter time a device's speed may
 * be constant by chance. */
#define MIN_SAMPLED_S 0.2

/* The timing of a kernel on one device. */
struct device_timing {
    struct device *device;
    struct launch *launch;
    struct event *begin, *end;
    struct batch *batch; /* the launches of a sample; NULL: they are launched one by one */
    const struct poisoned *out;
    void *expected; /* what `out` was when it was verified; NULL: it is not compared */
};

struct timing {
    struct device_timing parts[MAX_DEVICES];
    int count; /* number of parts */
    struct measurement *measurement;
    bool done;
    bool batched;      /* each part has a batch */
    int launches;      /* number of launches in a sample */
    bool lead;         /* an untimed launch precedes each sample */
    double seconds;    /* time of one launch in the latest sample */
    double spent_s;    /* the time of all samples */
    int64_t next_look; /* the number of samples at which the repeat rule is evaluated next */
    int watched;       /* the number of samples whose `busy` is known */
};

/* Starts the batch, if there is one, else `launches` launches. */
static enum status launch_part(const struct timing *timing, const struct device_timing *part, int launches,
                               struct error *error) {
    const struct device_operations *ops = part->device->operations;
    if (timing->batched) return ops->batch_launch(part->device, part->batch, error);
    for (int i = 0; i < launches; i++) TRY(ops->launch(part->device, timing->measurement->kernel, part->launch, error));
    return STATUS_OK;
}

/* Launches the kernel once on each device, untimed and without the batch. */
static enum status launch_once(struct timing *timing, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct device_timing *part = &timing->parts[i];
        TRY(part->device->operations->launch(part->device, timing->measurement->kernel, part->launch, error));
    }
    return STATUS_OK;
}

/* Takes one sample and sets timing->seconds. Meanwhile it reads the conditions of the first device. */
static enum status time_sample(struct timing *timing, struct sample_conditions *conditions, struct error *error) {
    TRY(interrupt_check(error));
    for (int i = 0; i < timing->count; i++) {
        const struct device_timing *part = &timing->parts[i];
        const struct device_operations *ops = part->device->operations;
        if (timing->measurement->options->cold) TRY(ops->flush_cache(part->device, error));
        if (timing->lead) TRY(launch_part(timing, part, 1, error));
        TRY(poison_fill(part->device, part->out, error));
        TRY(ops->event_record(part->device, part->begin, QUEUE_COMPUTE, error));
        TRY(launch_part(timing, part, timing->launches, error));
        TRY(ops->event_record(part->device, part->end, QUEUE_COMPUTE, error));
    }
    struct device *first = timing->parts[0].device;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a measurement has at least one device
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
static void keep_sample(struct timing *timing, const struct sample_conditions *conditions, int turn) {
    double sample_s = timing->seconds * timing->launches, *min_s = &timing->measurement->samples.min_s;
    if (*min_s == 0 || sample_s < *min_s) *min_s = sample_s;
    timing->spent_s += sample_s;
    samples_append(&timing->measurement->samples, timing->seconds, conditions, turn);
}

/* Destroys the batches: samples are launched one by one. */
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
    if (timing->measurement->options->cold) return;
    drop_batches(timing);
    timing->launches = 1;
    timing->lead = timing->seconds < LEAD_BELOW_S;
    if (!(timing->seconds < BATCH_BELOW_S)) return;
    timing->launches = (int)fmin(MAX_BATCH, ceil(BATCH_S / timing->seconds));
    bool all = true;
    for (int i = 0; i < timing->count && all; i++) {
        struct device_timing *part = &timing->parts[i];
        const struct device_operations *ops = part->device->operations;
        if (ops->batch_create)
            part->batch = ops->batch_create(part->device, timing->measurement->kernel, part->launch, timing->launches);
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

/* Launches until the times are steady (struct steadiness); samples.unsteady: they were not after max_s. */
static enum status reach_steady(struct timing *timing, struct error *error) {
    const struct steadiness *steady = timing->parts[0].device->unified ? &cpu_steadiness : &gpu_steadiness;
    double fastest = INFINITY, spent = 0;
    for (int calm = 0; calm < steady->calm;) {
        double seconds;
        TRY(time_block(timing, steady->block_s, &spent, &seconds, error));
        calm = seconds > (1 - steady->fraction) * fastest ? calm + 1 : 0;
        fastest = fmin(fastest, seconds);
        timing->measurement->samples.unsteady = calm < steady->calm && spent > steady->max_s;
        if (timing->measurement->samples.unsteady) break;
    }
    return STATUS_OK;
}

/* Makes the untimed launches of the options, one launch for choose_batch, and more until the times are steady. */
static enum status warm_up(struct timing *timing, struct error *error) {
    const struct run_options *options = timing->measurement->options;
    struct sample_conditions conditions = CONDITIONS_UNKNOWN;
    for (int64_t i = 0; i < options->warmup; i++) TRY(launch_once(timing, error));
    TRY(time_sample(timing, &conditions, error));
    choose_batch(timing);
    if (options->warmup > 0 && !timing->measurement->options->cold && timing->seconds < LONG_S) {
        double seconds = timing->seconds;
        TRY(reach_steady(timing, error));
        if (timing->seconds < MUCH_FASTER * seconds || timing->seconds > MUCH_SLOWER * seconds) choose_batch(timing);
    } else if (!timing->lead) {
        keep_sample(timing, &conditions, 0); /* it was timed in the same way as the following ones */
    }
    return STATUS_OK;
}

/* Is the repeat rule met? It is evaluated at growing intervals: sorting after each sample would take too long. */
static bool has_enough(struct timing *timing) {
    const struct run_options *options = timing->measurement->options;
    int count = timing->measurement->samples.count;
    if (count >= options->repeat_max) return true;
    if (count < timing->next_look || timing->spent_s < MIN_SAMPLED_S) return false;
    timing->next_look = count + 1 + count / 4;
    return options->repeat_until > 0 && samples_precision(&timing->measurement->samples) <= options->repeat_until;
}

/* Is the latest sample too short to time, because launches have become faster since choose_batch? */
static bool is_too_short(const struct timing *timing) {
    return !timing->measurement->options->cold && timing->seconds * timing->launches < BATCH_BELOW_S &&
           timing->launches < MAX_BATCH;
}

/* Takes the samples of a turn, after an untimed launch if other kernels have changed the cache. `alone`: there are no
 * other kernels. */
static enum status run_turn(struct timing *timing, int turn, bool alone, struct error *error) {
    const int64_t max_samples = timing->measurement->options->repeat_max;
    const int samples = timing->seconds < LONG_S ? TURN_SAMPLES : 1;
    if (!alone && !timing->measurement->options->cold && !timing->lead && timing->seconds < LONG_S)
        TRY(launch_once(timing, error));
    struct sample_conditions conditions = CONDITIONS_UNKNOWN;
    for (int i = 0; i < samples && timing->measurement->samples.count < max_samples; i++) {
        TRY(time_sample(timing, i == 0 ? &conditions : NULL, error));
        while (is_too_short(timing)) { /* each time the number of launches grows at least tenfold */
            choose_batch(timing);
            TRY(time_sample(timing, &conditions, error));
        }
        keep_sample(timing, &conditions, turn);
    }
    return STATUS_OK;
}

/* Keeps STATUS_RUN and STATUS_TIMEOUT, failures of a single kernel, in its measurement, without samples, so that the
 * other kernels continue; returns other statuses. */
static enum status keep_kernel_failure(struct timing *timing, enum status status, struct error *error) {
    if (status != STATUS_RUN && status != STATUS_TIMEOUT) return status;
    timing->measurement->status = status;
    timing->measurement->error = *error;
    *error = (struct error){.status = STATUS_OK};
    for (int i = 0; i < timing->count; i++) /* launches that are left in a queue fail likewise */
        timing->parts[i].device->operations->synchronize(timing->parts[i].device, IGNORED);
    samples_free(&timing->measurement->samples);
    timing->done = true;
    return STATUS_OK;
}

static void report_turn(const struct measure_watch *watch, int which, bool begins) {
    if (watch && watch->turn) watch->turn(watch->context, which, begins);
}

static void report_samples(const struct measure_watch *watch, const struct timing *timing, int which) {
    if (watch)
        watch->sample(watch->context, which, timing->measurement->samples.count,
                      (int)timing->measurement->options->repeat_max, timing->seconds);
}

/* Two readings of the CPU load: `since` at the start of the samples that have no `busy` yet, `before` at the start of
 * the samples before those, which serves if `since` is too recent for a reliable reading. */
struct load_window {
    struct cpu_load before, since;
};

/* Sets `busy` of the samples taken on a CPU in the window, by the load during the window or, if that is too short, from
 * the window before on; begins the next window. */
static void mark_busy(struct timing *timings, int count, struct load_window *window, const struct cpu_load *now) {
    bool is_short = now->now_s - window->since.now_s < CPU_LOAD_MIN_S;
    bool busy = cpu_load_is_busy(is_short ? &window->before : &window->since, now);
    for (int i = 0; i < count; i++) {
        struct samples *samples = &timings[i].measurement->samples;
        bool on_cpu = timings[i].measurement->on[0].device->facts.kind == DEVICE_CPU;
        for (; timings[i].watched < samples->count; timings[i].watched++)
            samples->conditions[timings[i].watched].busy = busy && on_cpu;
    }
    *window = (struct load_window){window->since, *now};
}

/* Sets `busy` of the samples of each turn whose probe (probe_seconds) took longer than the shortest probe of all turns
 * by PROBE_SHARED: another process used a core, or its clock was lower. */
static void mark_shared(struct timing *timings, int count) {
    double fastest = INFINITY;
    for (int i = 0; i < count; i++) {
        const struct samples *samples = &timings[i].measurement->samples;
        for (int s = 0; s < samples->count; s++) fastest = fmin(fastest, samples->conditions[s].probe_s);
    }
    for (int i = 0; i < count; i++) {
        struct samples *samples = &timings[i].measurement->samples;
        bool shared = false;
        for (int s = 0; s < samples->count; s++) {
            if (!isnan(samples->conditions[s].probe_s))
                shared = samples->conditions[s].probe_s > PROBE_SHARED * fastest;
            samples->conditions[s].busy |= shared;
        }
    }
}

/* Warms kernel number `which` up (turn 0), or runs a turn of it. */
static enum status warm_up_or_run_turn(struct timing *timings, int which, int turn, bool alone,
                                       const struct measure_watch *watch, struct error *error) {
    struct timing *timing = &timings[which];
    report_samples(watch, timing, which); /* its turn begins */
    report_turn(watch, which, true);
    enum status status = turn == 0 ? warm_up(timing, error) : run_turn(timing, turn, alone, error);
    status = keep_kernel_failure(timing, status, error);
    report_turn(watch, which, false);
    return status;
}

/* Warms all kernels up, then times them in turns until each has enough samples. */
static enum status time_all(struct timing *timings, int count, struct load_window *window,
                            const struct measure_watch *watch, struct error *error) {
    for (int i = 0; i < count; i++) TRY(warm_up_or_run_turn(timings, i, 0, false, watch, error));
    bool unfinished = true;
    for (int turn = 1; unfinished; turn++) {
        unfinished = false;
        for (int i = 0; i < count; i++) {
            timings[i].done = timings[i].done || has_enough(&timings[i]);
            if (timings[i].done) continue;
            TRY(warm_up_or_run_turn(timings, i, turn, count == 1, watch, error));
            report_samples(watch, &timings[i], i);
            unfinished = true;
        }
        if (now_s() - window->since.now_s < CPU_LOAD_MIN_S) continue;
        const struct cpu_load now = cpu_load_now();
        mark_busy(timings, count, window, &now);
    }
    return STATUS_OK;
}

/* Compares the output of the last timed launch with the verified output. Then launches once more on changed input, and
 * compares with the operation's simplest variant (poison.h). */
static enum status check_result(const struct device_timing *part, const struct kernel *kernel, struct error *error) {
    TRY(poison_compare(part->device, part->out, part->expected, error));
    return poison_replay(part->device, kernel, part->launch, part->out, error);
}

/* Checks the results of all kernels that have not failed; one that is wrong fails its measurement only. */
static enum status check_results(struct timing *timings, int count, struct error *error) {
    for (int i = 0; i < count; i++) {
        struct timing *timing = &timings[i];
        for (int p = 0; p < timing->count && !timing->measurement->status; p++) {
            const struct device_timing *part = &timing->parts[p];
            TRY(keep_kernel_failure(timing, check_result(part, timing->measurement->kernel, error), error));
            timing->measurement->wrong = timing->measurement->status == STATUS_RUN;
        }
    }
    return STATUS_OK;
}

/* Keeps the verified outputs and creates the events of a timing. close_timing releases them, also after a failure. */
static enum status open_timing(struct timing *timing, struct measurement *measurement, struct error *error) {
    measurement->samples = (struct samples){.count = 0};
    measurement->status = STATUS_OK;
    measurement->wrong = false;
    *timing = (struct timing){.measurement = measurement, .launches = 1, .next_look = measurement->options->repeat_min};
    for (int i = 0; i < measurement->devices; i++) {
        struct device_timing *part = &timing->parts[timing->count++];
        *part = (struct device_timing){
            .device = measurement->on[i].device, .launch = measurement->on[i].launch, .out = &measurement->on[i].out};
        TRY(poison_keep(part->device, part->out, &part->expected, error));
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
        enum status idle = device->operations->synchronize(device, status ? IGNORED : error);
        if (!status) status = idle;
    }
    drop_batches(timing);
    for (int i = 0; i < timing->count; i++) {
        struct device_timing *part = &timing->parts[i];
        if (part->begin) part->device->operations->event_destroy(part->device, part->begin);
        if (part->end) part->device->operations->event_destroy(part->device, part->end);
        free(part->expected);
    }
    return status;
}

enum status measure_kernels(struct measurement *measurements, int count, const struct measure_watch *watch,
                            struct error *error) {
    struct timing *timings = must_malloc((size_t)(count + 1) * sizeof *timings);
    enum status status = STATUS_OK;
    int opened = 0;
    const struct cpu_load begun = cpu_load_now();
    struct load_window window = {cpu_load_earlier(&begun), begun};
    const struct cpu_load earlier = window.before;
    while (opened < count && !status) {
        status = open_timing(&timings[opened], &measurements[opened], error);
        opened++;
    }
    if (!status) status = time_all(timings, count, &window, watch, error);
    if (!status) status = check_results(timings, count, error);
    const struct cpu_load ended = cpu_load_now();
    bool is_short = ended.now_s - begun.now_s < CPU_LOAD_MIN_S;
    bool busy = cpu_load_is_busy(is_short ? &earlier : &begun, &ended);
    if (!status) mark_busy(timings, opened, &window, &ended);
    if (!status) mark_shared(timings, opened);
    for (int i = 0; i < opened; i++)
        measurements[i].samples.busy = busy && measurements[i].on[0].device->facts.kind == DEVICE_CPU;
    for (int i = 0; i < opened; i++) {
        enum status closed = close_timing(&timings[i], status ? IGNORED : error);
        if (!status) status = closed;
    }
    for (int i = 0; i < opened && status; i++) samples_free(&measurements[i].samples);
    free(timings);
    return status;
}
