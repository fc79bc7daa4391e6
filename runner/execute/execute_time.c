/* execute_time.c - times the waiting trials, and times undecided ones again. */
#include "../limits/limits_file.h"
#include "execute_run.h"

#include <string.h>

/* Fills in the times of the pass and of the samples, and what disturbed the samples. */
static void fill_times(struct result_row *row, const struct stage_times *times, const struct samples *samples) {
    result_row_times(row, samples);
    row->busy_samples = samples_busy(samples);
    row->sm_clock_mhz = samples_clock_mhz(samples);
    row->probe_s = samples_probe_s(samples);
    samples_flags(samples, row->flags);
    row->read_s = times->read_s;
    row->h2d_s = times->h2d_s;
    row->d2h_s = times->d2h_s;
    row->write_s = times->write_s;
    row->total_s = times->total_s;
}

/* Fills in the resources that the compiled code takes on the first device, if the device tells them. */
static void fill_footprint(struct result_row *row, const struct measurement *measurement) {
    struct device *device = measurement->devices > 0 ? measurement->on[0].device : NULL;
    if (!device || !device->operations->footprint) return;
    struct footprint footprint = device->operations->footprint(device, measurement->kernel, measurement->on[0].launch);
    row->registers = footprint.registers;
    row->spill_bytes = footprint.spill_bytes;
    row->shared_bytes = footprint.shared_bytes;
    row->occupancy = footprint.occupancy;
}

/* The trials that are timed. */
struct timed {
    struct execution *execution;
    struct trial *trials[MAX_TRIALS];
};

/* Callbacks of measure_kernels: show_repeat reports to the progress display, run_clock lets a trial's clock run during
 * its turns. */
static void show_repeat(void *context, int which, int done, int max_repeats, double seconds_each) {
    const struct timed *timed = context;
    progress_repeat(&timed->execution->progress, timed->trials[which]->run->number, done, max_repeats, seconds_each);
}

static void run_clock(void *context, int which, bool begins) {
    const struct timed *timed = context;
    (begins ? execution_clock_start : execution_clock_stop)(timed->execution, timed->trials[which]);
}

/* Why a timed trial must be timed again; NULL: it need not. */
static const char *undecided(const struct execution *execution, struct trial *trial) {
    const struct execute_options *options = execution->options;
    const struct samples *samples = &trial->measurement.samples;
    double until = trial->measurement.options->repeat_until;
    if (trial->times_measured == 0 || trial->times_measured > options->retry || trial->measurement.status) return NULL;
    fill_times(trial->row, &trial->times, samples);
    if (strstr(trial->row->flags, FLAG_BUSY)) return "the machine was busy";
    if (strstr(trial->row->flags, FLAG_NOISY)) return "its samples scatter";
    if (until > 0 && samples_precision(samples) > until) return "its interval is wider than `until`";
    return options->undecided && options->undecided(options->context, trial->row, samples)
               ? "the comparison is undecided"
               : NULL;
}

/* Reports that a trial is timed again, and drops its samples. */
static void begin_again(struct execution *execution, struct trial *trial, const char *why) {
    char name[320];
    execution_name_run(execution, trial->run, name);
    progress_note(&execution->progress, "%s: %s: measured again, %d of at most %d times", name, why,
                  trial->times_measured, execution->options->retry);
    samples_free(&trial->measurement.samples);
}

/* Times in turns the waiting trials that were not timed or are undecided. *count: their number. */
static enum status measure_once(struct execution *execution, int *count, struct error *error) {
    struct measurement measurements[MAX_TRIALS];
    struct timed timed = {.execution = execution};
    const struct measure_watch watch = {show_repeat, run_clock, &timed};
    *count = 0;
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        const char *why = trial->timed ? NULL : undecided(execution, trial);
        if (trial->timed || (trial->times_measured > 0 && !why)) continue;
        if (why) begin_again(execution, trial, why);
        measurements[*count] = trial->measurement;
        timed.trials[(*count)++] = trial;
    }
    if (*count == 0) return STATUS_OK;
    enum status status = measure_kernels(measurements, *count, &watch, error);
    for (int i = 0; i < *count; i++) {
        timed.trials[i]->measurement = measurements[i];
        timed.trials[i]->times_measured++;
    }
    return status;
}

enum status execution_measure_briefly(struct execution *execution, int64_t samples, struct error *error) {
    int count = 0;
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        if (!trial->run || trial->timed) continue;
        execution->brief = execution->plan->tasks[trial->run->task].operation->run;
        execution->brief.warmup = 0;
        execution->brief.repeat_min = execution->brief.repeat_max = samples;
        execution->brief.repeat_until = 0;
        samples_free(&trial->measurement.samples);
        trial->measurement.options = &execution->brief;
        trial->times_measured = 0;
    }
    TRY(measure_once(execution, &count, error));
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        if (!trial->run || trial->measurement.status) continue;
        fill_times(trial->row, &trial->times, &trial->measurement.samples);
        fill_footprint(trial->row, &trial->measurement);
    }
    return STATUS_OK;
}

/* Recomputes, after a roof was raised, the bounds of the rows on this kind of device that were computed from the roofs
 * `before`. */
static void update_bounds(struct execution *execution, enum kernel_device device, const struct device_limits *before) {
    const struct plan *plan = execution->plan;
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct geometry *geometry = &plan->tasks[run->task].geometry;
        struct result_row *row = &execution->rows[i];
        const char *by;
        if (run->device == device && run->kernel && row->bound_s == limits_bound(before, run->kernel, geometry, &by))
            result_row_bound(row, run->kernel, geometry, plan->facts[device].limits);
    }
}

/* Raises the roof that a right result has exceeded, in memory and in the file of limits, and reports it. */
static void raise_roof(struct execution *execution, const struct trial *trial) {
    const struct result_row *row = trial->row;
    const struct device_facts *facts = &execution->plan->facts[trial->run->device];
    char roof[64], name[320];
    if (!facts->limits || trial->measurement.devices != 1 || strcmp(row->verify, "none") == 0) return;
    if (trial->run->kernel->user_kernel) return; /* its time is not trusted: the roof applies to later jobs too */
    /* Without this flag, at least half of the samples are as fast as the median. */
    if (strstr(row->flags, FLAG_COARSE)) return;
    const struct device_limits before = *facts->limits;
    if (!limits_prove(facts, limits_program(facts->kind), facts->limits, trial->run->kernel,
                      &execution->plan->tasks[trial->run->task].geometry, row->kernel_median_s, roof))
        return;
    update_bounds(execution, trial->run->device, &before);
    execution_name_run(execution, trial->run, name);
    progress_note(&execution->progress, "the measured roof of %s was too low: raised to %s, the rate of %s", facts->id,
                  roof, name);
}

enum status execution_measure(struct execution *execution, struct error *error) {
    int count = 0;
    do TRY(measure_once(execution, &count, error));
    while (count > 0);
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        if (trial->measurement.status) continue;
        fill_times(trial->row, &trial->times, &trial->measurement.samples);
        fill_footprint(trial->row, &trial->measurement);
        raise_roof(execution, trial);
    }
    return STATUS_OK;
}
