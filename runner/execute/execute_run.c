/* execute_run.c - the runs of a task. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../plan/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long the repeats of the trials that wait may take. */
#define WAIT_S 5.0

void execution_say(struct result_row *row, const char *status, const char *message) {
    snprintf(row->status, sizeof row->status, "%s", status);
    snprintf(row->message, sizeof row->message, "%.255s", message);
}

/* ---- stream and verify ---- */

static enum status open_team(struct execution *execution, enum kernel_device kind, struct error *error) {
    struct team *team = &execution->teams[kind];
    const struct device_facts *facts = &execution->plan->facts[kind];
    for (int i = 0; i < facts->team; i++) {
        TRY(kind == DEVICE_CUDA ? device_cuda_open(facts->numbers[i], &team->devices[i], error)
                                : device_cpu_open(&team->devices[i], error));
        team->residents[i] = residents_create(team->devices[i], execution->plan->budget[kind]);
        team->count = i + 1;
    }
    team->peers = true;
    for (int i = 0; i < team->count; i++)
        for (int other = 0; other < team->count; other++)
            if (i != other)
                team->peers =
                    team->devices[i]->operations->enable_peer(team->devices[i], team->devices[other]) && team->peers;
    return STATUS_OK;
}

static enum status use_device(struct execution *execution, enum kernel_device kind, struct error *error) {
    return execution->teams[kind].count > 0 ? STATUS_OK : open_team(execution, kind, error);
}

static enum status watched_write(void *context, const struct box *box, const void *data, struct error *error) {
    struct watched_part *part = context;
    TRY(interrupt_check(error));
    TRY(overflows_scan(&part->overflows, box, data, error));
    return part->sink.write(part->sink.context, box, data, error);
}

static void watched_step(void *context, int64_t bytes) {
    const struct watched_part *part = context;
    progress_step(part->progress, (double)bytes);
}

static enum status watched_read(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct watched_part *part = context;
    TRY(interrupt_check(error));
    return part->reader.read(part->reader.context, input, box, data, error);
}

/* Streams a run. While the device is out of memory (it may have less free than when the plan was made), halves the
 * memory of its tiles and tries again, until no tiles are small enough. STATUS_MEMORY: first the trials that wait
 * should free theirs. */
static enum status stream_in_what_is_free(struct execution *execution, struct trial *trial,
                                          struct stream_result *passed, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct run *run = trial->run;
    const struct team *team = &execution->teams[run->device];
    const struct box_observer observer = verify_begin(plan, run, execution->truths);
    const struct pass pass = {plan, run, &trial->tiling, &execution->readers, &observer};
    enum status status;
    progress_tiles(&execution->progress, trial->tiling.steps);
    while ((status = stream_run(team, &pass, &trial->sink, passed, &trial->stream, error)) == STATUS_MEMORY) {
        if (execution->waiting > 0) return status;
        int64_t wanted = trial->tiling.memory_bytes;
        if (!plan_fit(plan, run, wanted / 2, &trial->tiling)) break;
        char *note = must_printf("%s: %s is short of memory; smaller tiles: %lld bytes instead of %lld",
                                 plan->tasks[run->task].operation->id, plan->facts[run->device].id,
                                 (long long)trial->tiling.memory_bytes, (long long)wanted);
        progress_note(&execution->progress, note);
        free(note);
        progress_tiles(&execution->progress, trial->tiling.steps);
        *error = (struct error){.status = STATUS_OK};
    }
    return status == STATUS_MEMORY ? (error->status = STATUS_DEVICE) : status;
}

/* Do other panels of the operation read all of this input, and does an earlier one count what its conversion has lost?
 */
static bool is_counted_before(const struct execution *execution, const struct task *task, int input) {
    const struct units *units = execution->units;
    int number = (int)(task - execution->plan->tasks);
    return task->panel && input < units->whole->input_count && units->first[units->whole_task[number]] < number;
}

/* What the pass has asked of files, and what conversions have changed. Each input's losses are said once. */
static void fill_counts(struct execution *execution, const struct trial *trial, const struct task *task,
                        const struct stream_result *passed) {
    struct result_row *row = trial->row;
    const struct casts casts = part_casts(trial->part);
    row->file_bytes = (double)passed->file_bytes;
    row->overflowed = (double)casts.overflowed;
    row->wrapped = (double)casts.wrapped;
    row->truncated = (double)casts.truncated;
    for (int i = 0; i < task->geometry.inputs; i++) {
        struct reader *reader = &execution->readers.of[task->in[i]];
        if (i > 0 && task->in[i] == task->in[0]) continue;
        if (is_counted_before(execution, task, task->in[i])) continue;
        row->overflowed += (double)reader->casts.overflowed;
        row->wrapped += (double)reader->casts.wrapped;
        row->truncated += (double)reader->casts.truncated;
        execution_say_values(execution, reader);
    }
}

/* Counts the elements of a right result that overflowed, and says it: of several variants' once. */
static enum status settle_overflow(struct execution *execution, struct trial *trial, const struct host_reader *reader,
                                   struct error *error) {
    const struct task *task = &execution->plan->tasks[trial->run->task];
    enum dtype dtype = task->geometry.out.dtype;
    int64_t count;
    TRY(overflows_count(&trial->watched.overflows, trial->run, reader, &count, error));
    trial->row->overflowed += (double)count;
    if (count == 0 || execution->readers.of[task->out].losses_printed) return STATUS_OK;
    const char *wider = dtype == FLOAT16 ? "float32" : dtype == FLOAT64 ? NULL : "float64";
    char *note = must_printf(
        "result of '%s': %lld of %lld elements overflowed %s, in which they are computed%s%s%s", task->operation->id,
        (long long)count, (long long)shape_elements(&task->geometry.out.shape), dtype_name(dtype),
        wider ? "; `dtype: " : "", wider ? wider : "", wider ? "` of the input computes in a wider type" : "");
    progress_note(&execution->progress, note);
    free(note);
    return STATUS_OK;
}

/* Says what the conversion of a right result has lost: of several variants' once. */
static void say_result_losses(struct execution *execution, const struct trial *trial, const struct task *task) {
    struct reader *reader = &execution->readers.of[task->out];
    const struct casts casts = part_casts(trial->part);
    if (trial->run->kernel->is_roof) return;
    reader_casts_set(reader, &casts);
    execution_say_values(execution, reader);
}

/* A row that is wrong is final. */
static enum status stream_verify_and_count(struct execution *execution, struct trial *trial, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct run *run = trial->run;
    const struct task *task = &plan->tasks[run->task];
    struct result_row *row = trial->row;
    struct host_reader reader = {.read = watched_read, .context = &trial->watched};
    struct stream_result passed = {.devices = 1};
    struct verdict verdict;
    trial->watched = (struct watched_part){part_sink(trial->part, execution->trace), part_reader(trial->part),
                                           &execution->progress, overflows_begin(run, &task->geometry)};
    trial->sink = (struct sink){watched_write, watched_step, &trial->watched, execution->trace};
    trial->tiling = run->tiling;
    TRY(stream_in_what_is_free(execution, trial, &passed, error));
    progress_verify(&execution->progress);
    TRY(verify_run(plan, run, &reader, execution->truths, &verdict, error));
    trial->times = passed.times;
    fill_counts(execution, trial, task, &passed);
    plan_device_text(&plan->facts[run->device], passed.devices, row->device, sizeof row->device);
    row->error = verdict.error;
    row->tolerance = verdict.tolerance;
    snprintf(row->verify, sizeof row->verify, "%s", verdict.how);
    if (!verdict.right) return execution_say(row, "wrong", verdict.message), STATUS_OK;
    TRY(settle_overflow(execution, trial, &reader, error));
    say_result_losses(execution, trial, task);
    return part_settle(trial->part, true, error);
}

static enum status stream_and_verify(struct execution *execution, struct trial *trial, struct error *error) {
    enum status status = stream_verify_and_count(execution, trial, error);
    overflows_end(&trial->watched.overflows);
    return status;
}

/* Opens what a run reads, and closes what no later task reads. */
static enum status open_inputs(struct execution *execution, const struct task *task, struct error *error) {
    int number = (int)(task - execution->plan->tasks);
    readers_close_before(&execution->readers, number);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < execution->teams[kind].count; i++)
            residents_drop_before(execution->teams[kind].residents[i], number);
    for (int i = 0; i < task->geometry.inputs; i++) TRY(readers_open(&execution->readers, task->in[i], error));
    return STATUS_OK;
}

/* Frees what a trial holds. `keep`: its output becomes a resident. */
static void release_trial(struct trial *trial, bool keep) {
    if (trial->stream) stream_free(trial->stream, keep);
    samples_free(&trial->measurement.samples);
    unit_discard(trial->part); /* NULL where it was finished */
    *trial = (struct trial){.run = NULL};
}

void execution_abandon(struct execution *execution) {
    while (execution->waiting > 0) release_trial(&execution->trials[--execution->waiting], false);
}

/* Makes a trial of the run, or a row that is final. */
static enum status begin_trial(struct execution *execution, struct trial *trial, struct error *error) {
    const struct task *task = &execution->plan->tasks[trial->run->task];
    TRY(interrupt_check(error));
    TRY(use_device(execution, trial->run->device, error));
    TRY(open_inputs(execution, task, error));
    TRY(space_check_run(execution->plan, trial->run, error));
    TRY(unit_begin(execution->results, trial->run, &trial->part, error));
    TRY(stream_and_verify(execution, trial, error));
    if (!trial->row->status[0])
        trial->timed = !stream_measurement(trial->stream, &task->operation->run, &trial->measurement);
    return STATUS_OK;
}

/* ---- rows that are final ----------------------------------------------------------------------------------------- */

static void outcome_text(const struct task *task, const struct result_row *row, char text[320]) {
    char error[32] = "", time[32] = ""; /* unknown (NaN) if nothing was verified, or launched */
    bool says =
        row->message[0] && !(task->panel && strcmp(row->message, task->panel) == 0); /* the run's name says it */
    if (!isnan(row->error)) snprintf(error, sizeof error, ", error %.2g", row->error);
    if (!isnan(row->kernel_median_s)) snprintf(time, sizeof time, ", %.4g ms", row->kernel_median_s * 1e3);
    if (result_row_done(row))
        snprintf(text, 320, "%s%s%s%s%s", row->status, time, error, says ? "; " : "", says ? row->message : "");
    else
        snprintf(text, 320, "%s%s%s", row->status, row->message[0] ? ": " : "", row->message);
}

/* "product tiled n=512" */
static void name_run(const struct execution *execution, const struct run *run, char name[320]) {
    const struct job_operation *operation = execution->plan->tasks[run->task].operation;
    const char *panel = execution->plan->tasks[run->task].panel;
    snprintf(name, 320, "%s %s%s%s%s%.60s", operation->id, run->label, operation->label[0] ? " " : "", operation->label,
             panel ? ", " : "", panel ? panel : "");
}

/* Of a shard, `merge` must know what became of each run, also where that is no result; so must who reads panels. */
static enum status keep_row(struct execution *execution, const struct run *run, const struct result_row *row,
                            struct error *error) {
    bool panel = execution->plan->tasks[run->task].panel;
    if ((!execution->options->shard && !panel) || result_row_done(row)) return STATUS_OK;
    TRY(execution_hash_task(execution, run->task, error));
    return unit_keep_row(execution->results, run, row, error);
}

/* Reports a row, and says what follows from it for later runs. */
static enum status conclude(struct execution *execution, const struct run *run, bool reused, struct error *error) {
    const struct task *task = &execution->plan->tasks[run->task];
    const struct result_row *row = &execution->rows[run->number];
    char text[400];
    bool done = result_row_done(row);
    TRY(keep_row(execution, run, row, error));
    atomic_store(&execution->final[run->number], true);
    if (done && !run->kernel->is_roof && execution->result_run[run->task] < 0) {
        execution->result_run[run->task] = run->number;
        if (task->wanted) results_point_at_output(execution->results, run);
    }
    if (!done && !run->skip) {
        execution->failed = true;
        execution->stop = execution->stop || task->operation->run.stop_on_error;
    }
    outcome_text(task, row, text);
    if (reused) strncat(text, " (kept from before)", sizeof text - strlen(text) - 1);
    progress_outcome(&execution->progress, run->number, text, done && !reused);
    return STATUS_OK;
}

/* A run that failed by itself leaves a row; any other failure ends the job. */
static enum status settle_failure(struct execution *execution, const struct run *run, enum status status,
                                  struct error *error) {
    if (status != STATUS_RUN) return status;
    execution_say(&execution->rows[run->number], "failed", error->text);
    *error = (struct error){.status = STATUS_OK};
    return conclude(execution, run, false, error);
}

/* ---- time and keep ----------------------------------------------------------------------------------------------- */

static void fill_times(struct result_row *row, const struct stage_times *times, const struct samples *samples) {
    struct statistics statistics = samples_statistics(samples);
    row->repeats = samples->count;
    row->sm_clock_mhz = samples_clock_mhz(samples);
    samples_flags(samples, row->flags);
    samples_interval(samples, &row->kernel_ci_low_s, &row->kernel_ci_high_s);
    row->kernel_median_s = statistics.median;
    row->kernel_min_s = statistics.min;
    row->kernel_max_s = statistics.max;
    row->kernel_mad_s = statistics.mad;
    row->read_s = times->read_s;
    row->h2d_s = times->h2d_s;
    row->d2h_s = times->d2h_s;
    row->write_s = times->write_s;
    row->total_s = times->total_s;
    row->gflops = row->flops / statistics.median * 1e-9;
    row->gbytes_per_s = row->bytes / statistics.median * 1e-9;
}

/* Checks that the inputs have not changed, and hashes them, because the part's key contains their hashes. Most were
 * hashed while they were read. */
static enum status settle_inputs(struct execution *execution, const struct task *task, struct error *error) {
    struct reader *of = execution->readers.of;
    for (int i = 0; i < task->geometry.inputs; i++) TRY(reader_check(&of[task->in[i]], error));
    return execution_hash_task(execution, (int)(task - execution->plan->tasks), error);
}

/* Keeps a trial that is timed as a part. */
static enum status keep_trial(struct execution *execution, struct trial *trial, struct error *error) {
    const struct run *run = trial->run;
    const struct task *task = &execution->plan->tasks[run->task];
    bool is_roof = run->kernel->is_roof, checked = strcmp(trial->row->verify, "none") != 0;
    fill_times(trial->row, &trial->times, &trial->measurement.samples);
    result_row_bound(trial->row, run->kernel, &task->geometry, execution->plan->facts[run->device].limits);
    execution_say(trial->row, checked ? "ok" : "unchecked", run->note ? run->note : task->panel ? task->panel : "");
    if (is_roof)
        snprintf(trial->row->message, sizeof trial->row->message, "a roof, not a %s",
                 operations[task->geometry.op]->name);
    execution_note_values(execution, task, trial->row);
    bool is_result = !is_roof && execution->result_run[run->task] < 0;
    TRY(settle_inputs(execution, task, error));
    struct part *part = trial->part;
    trial->part = NULL;
    TRY(unit_keep(part, trial->row, &trial->measurement.samples, error));
    /* The array of a panel stands for the whole, which is not on the device. */
    release_trial(trial, is_result && !task->panel && execution->plan->arrays[task->out].last_reader > run->task);
    return conclude(execution, run, false, error);
}

/* Tells the progress display of the trials that are timed. */
struct timed {
    struct progress *progress;
    int run[MOST_TRIALS];
};

static void tell(void *context, int which, int done, int most, double seconds_each) {
    const struct timed *timed = context;
    progress_repeat(timed->progress, timed->run[which], done, most, seconds_each);
}

/* Times the trials that wait, in turns. */
static enum status measure_trials(struct execution *execution, struct error *error) {
    struct measurement measurements[MOST_TRIALS];
    struct timed timed = {.progress = &execution->progress};
    const struct measure_watch watch = {tell, &timed};
    int count = 0, of[MOST_TRIALS];
    for (int i = 0; i < execution->waiting; i++) {
        if (execution->trials[i].timed) continue;
        measurements[count] = execution->trials[i].measurement;
        timed.run[count] = execution->trials[i].run->number;
        of[count++] = i;
    }
    if (count == 0) return STATUS_OK;
    enum status status = measure_kernels(measurements, count, &watch, error);
    for (int i = 0; i < count; i++) execution->trials[of[i]].measurement = measurements[i];
    return status;
}

/* Times and keeps all trials. If one cannot be timed that was to keep the task's output, those after it have dropped
 * theirs: *again becomes the number of the run from which they are to be taken again. */
static enum status time_trials(struct execution *execution, int *again, struct error *error) {
    TRY(measure_trials(execution, error));
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        const struct run *run = trial->run;
        if (trial->measurement.status == STATUS_OK) {
            TRY(keep_trial(execution, trial, error));
            continue;
        }
        bool was_result = execution->result_run[run->task] < 0;
        *error = trial->measurement.error;
        release_trial(trial, false);
        TRY(settle_failure(execution, run, STATUS_RUN, error));
        if (!was_result) continue;
        *again = run->number + 1;
        break;
    }
    execution_abandon(execution);
    return STATUS_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

const char *execution_lacks(const struct execution *execution, const struct task *task) {
    const struct plan *plan = execution->plan;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer >= 0 && execution->result_run[producer] < 0 && !execution_awaits(execution, producer))
            return plan->arrays[task->in[i]].name;
    }
    return NULL;
}

static const char stopped[] = "an earlier run failed (on_error: stop)";

/* Why a run is not begun; NULL: it is begun. */
static const char *reason_to_skip(const struct execution *execution, const struct run *run, char text[256]) {
    if (run->skip) return run->skip;
    const char *lacks = execution_lacks(execution, &execution->plan->tasks[run->task]);
    if (lacks) {
        snprintf(text, 256, "its input '%s' has no result", lacks);
        return text;
    }
    return execution->stop ? stopped : NULL;
}

/* Can the run wait beside the trials that wait: on their device, in its memory? */
static bool fits_beside(const struct execution *execution, const struct run *run) {
    const struct plan *plan = execution->plan;
    int64_t bytes = run->skip ? 0 : run->tiling.memory_bytes;
    if (execution->waiting == MOST_TRIALS) return false;
    for (int i = 0; i < execution->waiting; i++) {
        if (!run->skip && execution->trials[i].run->device != run->device) return false;
        bytes += execution->trials[i].tiling.memory_bytes;
    }
    return execution->waiting == 0 || run->skip || bytes <= plan->budget[run->device];
}

/* Do the trials wait for nothing any more, or would their repeats take too long? */
static bool must_be_timed(const struct execution *execution) {
    double seconds = 0;
    for (int i = 0; i < execution->waiting; i++) {
        const struct trial *trial = &execution->trials[i];
        const struct run_options *options = &execution->plan->tasks[trial->run->task].operation->run;
        int64_t repeats = options->repeat_until > 0 ? options->repeat_min : options->repeat_max;
        if (trial->timed) return true;
        seconds += trial->times.kernel_s * (double)(options->warmup + repeats);
    }
    return seconds > WAIT_S;
}

/* Begins a run: its row is final, or one more trial waits. Trials that wait come before a run that is kept from before:
 * the first of them all is the task's result. *again as in time_trials. STATUS_MEMORY: there is no room beside the
 * trials that wait. */
static enum status take_run(struct execution *execution, const struct run *run, int *again, struct error *error) {
    struct result_row *row = &execution->rows[run->number];
    char name[320], why[256];
    name_run(execution, run, name);
    atomic_store(&execution->final[run->number], false); /* it may be taken again */
    progress_run(&execution->progress, run->number, name);
    trace_run(execution->trace, name);
    result_row_init(row, execution->plan, run);
    const char *skip = reason_to_skip(execution, run, why);
    bool may_be_kept = execution->options->resume && (!skip || skip == stopped);
    if (may_be_kept && store_find(execution->results, run, row)) {
        TRY(time_trials(execution, again, error));
        if (*again >= 0) return STATUS_OK;
        return conclude(execution, run, true, error);
    }
    if (skip) return execution_say(row, "skipped", skip), conclude(execution, run, false, error);
    bool waited = false;
    TRY(execution_await(execution, run, &waited, error));
    skip = reason_to_skip(execution, run, why);
    if (skip) return execution_say(row, "skipped", skip), conclude(execution, run, false, error);
    if (waited) progress_run(&execution->progress, run->number, name);
    struct trial *trial = &execution->trials[execution->waiting];
    *trial = (struct trial){.run = run, .row = row};
    enum status status = begin_trial(execution, trial, error);
    if (!status && !row->status[0]) return execution->waiting++, STATUS_OK;
    release_trial(trial, false);
    if (status) return settle_failure(execution, run, status, error);
    return conclude(execution, run, false, error);
}

static enum status take_task(struct execution *execution, const struct task *task, struct error *error) {
    const struct run *runs = execution->plan->runs;
    int end = task->first_run + task->run_count;
    for (int number = task->first_run; number < end; number++) {
        int again = -1;
        enum status status = take_run(execution, &runs[number], &again, error);
        bool full = status == STATUS_MEMORY && execution->waiting > 0;
        if (full) {
            *error = (struct error){.status = STATUS_OK};
            again = number;
        } else if (status) {
            return status;
        }
        bool alone = full || number + 1 == end || !fits_beside(execution, &runs[number + 1]);
        if (alone || must_be_timed(execution)) TRY(time_trials(execution, &again, error));
        if (again >= 0) number = again - 1;
    }
    return STATUS_OK;
}

enum status execution_take_task(struct execution *execution, const struct task *task, struct error *error) {
    const char *before = fail_set_subject(task->operation->id);
    enum status status = take_task(execution, task, error);
    fail_set_subject(before);
    return status;
}
