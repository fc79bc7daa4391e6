/* execute_trial.c - streams and verifies a run, which becomes a trial that waits to be timed. */
#include "execute_run.h"

#include "../../kernels/core/convert.h"
#include "../base/interrupt.h"
#include "../plan/space.h"
#include <math.h>
#include <string.h>

/* Opens the devices of a kind, unless they are open. */
static enum status open_team(struct execution *execution, enum kernel_device kind, struct error *error) {
    struct team *team = &execution->teams[kind];
    const struct device_facts *facts = &execution->plan->facts[kind];
    if (team->count > 0) return STATUS_OK;
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

/* Are all elements NaN? */
static bool is_all_nan(enum dtype dtype, const char *data, int64_t count) {
    enum { SLICE = 256 };
    double values[SLICE];
    for (int64_t at = 0; at < count; at += SLICE) {
        int64_t slice = count - at < SLICE ? count - at : SLICE;
        convert_to_double(dtype, data + at * (int64_t)dtype_size(dtype), slice, values);
        for (int64_t i = 0; i < slice; i++)
            if (!isnan(values[i])) return false;
    }
    return true;
}

/* The functions of a watched part: they refuse boxes after a signal, and pass them on. watched_write also looks for
 * overflows and numbers in the result. */
static enum status watched_write(void *context, const struct box *box, const void *data, struct error *error) {
    struct watched_part *part = context;
    TRY(interrupt_check(error));
    TRY(overflows_scan(&part->overflows, box, data, error));
    if (part->all_nan && !is_all_nan(part->all_nan->out.dtype, data, box_elements(box))) part->all_nan = NULL;
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
 * memory of its tiles and tries again, until no tiles are small enough. STATUS_MEMORY: the waiting trials should free
 * theirs first. */
static enum status stream_in_free_memory(struct execution *execution, struct trial *trial,
                                         struct stream_result *streamed, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct run *run = trial->run;
    const struct team *team = &execution->teams[run->device];
    const struct box_observer observer = verify_begin(plan, run, execution->truths);
    const char *profiled = execution->options->profile;
    const bool is_profiled = profiled && strcmp(profiled, plan->tasks[run->task].operation->id) == 0;
    const struct pass pass = {plan, run, &trial->tiling, &execution->readers, &observer, is_profiled};
    enum status status;
    progress_tiles(&execution->progress, trial->tiling.steps);
    while ((status = stream_run(team, &pass, &trial->sink, streamed, &trial->stream, error)) == STATUS_MEMORY) {
        if (execution->waiting > 0) return status;
        int64_t wanted = trial->tiling.memory_bytes;
        if (!plan_fit(plan, run, wanted / 2, &trial->tiling)) break;
        progress_note(&execution->progress, "%s: %s is short of memory; smaller tiles: %lld bytes instead of %lld",
                      plan->tasks[run->task].operation->id, plan->facts[run->device].id,
                      (long long)trial->tiling.memory_bytes, (long long)wanted);
        progress_tiles(&execution->progress, trial->tiling.steps);
        *error = (struct error){.status = STATUS_OK};
    }
    return status == STATUS_MEMORY ? (error->status = STATUS_DEVICE) : status;
}

/* Has an earlier panel of the operation read this input too, so that its conversion losses are counted already? */
static bool is_counted_before(const struct execution *execution, const struct task *task, int input) {
    const struct units *units = execution->units;
    int number = (int)(task - execution->plan->tasks);
    return task->panel && input < units->whole->input_count && units->first[units->whole_task[number]] < number;
}

/* Fills in the bytes that the pass has read from files, and what conversions have changed. Prints each input's losses
 * once. */
static void fill_counts(struct execution *execution, const struct trial *trial, const struct task *task,
                        const struct stream_result *streamed) {
    struct result_row *row = trial->row;
    const struct casts casts = part_casts(trial->part);
    row->file_bytes = (double)streamed->file_bytes;
    row->overflowed = (double)casts.overflowed;
    row->wrapped = (double)casts.wrapped;
    row->truncated = (double)casts.truncated;
    for (int i = 0; i < task->geometry.inputs; i++) {
        struct reader *reader = &execution->readers.items[task->in[i]];
        if (i > 0 && task->in[i] == task->in[0]) continue;
        if (is_counted_before(execution, task, task->in[i])) continue;
        row->overflowed += (double)reader->casts.overflowed;
        row->wrapped += (double)reader->casts.wrapped;
        row->truncated += (double)reader->casts.truncated;
        execution_report_values(execution, reader);
    }
}

/* Counts the elements of a right result that overflowed, and reports their number for the first variant only. */
static enum status settle_overflow(struct execution *execution, struct trial *trial, const struct host_reader *reader,
                                   struct error *error) {
    const struct task *task = &execution->plan->tasks[trial->run->task];
    enum dtype dtype = task->geometry.out.dtype;
    int64_t count;
    TRY(overflows_count(&trial->watched.overflows, trial->run, reader, &count, error));
    trial->row->overflowed += (double)count;
    if (count == 0 || execution->readers.items[task->out].losses_printed) return STATUS_OK;
    const char *wider = dtype == FLOAT16 ? "float32" : dtype == FLOAT64 ? NULL : "float64";
    const char *how =
        task->geometry.options.map ? "are infinite by the expression itself (inf, 1 / 0, log(0)) or " : "";
    OWNED char *title = array_title(&execution->plan->arrays[task->out]);
    progress_note(&execution->progress, "%s: %lld of %lld elements %soverflowed %s, in which they are computed%s%s%s",
                  title, (long long)count, (long long)shape_elements(&task->geometry.out.shape), how, dtype_name(dtype),
                  wider ? "; `dtype: " : "", wider ? wider : "",
                  wider ? "` of the input computes in a wider type" : "");
    return STATUS_OK;
}

/* Returns the geometry of a reduction whose result is NaN only because of its input; NULL: another operation, or it
 * skips NaN, or `ddof` leaves no element. */
static const struct geometry *passes_nan_on(const struct run *run, const struct geometry *geometry) {
    const struct op_options *options = &geometry->options;
    double results = (double)shape_elements(&geometry->out.shape);
    bool passes = geometry->op == OP_REDUCE && dtype_is_float(geometry->out.dtype) && !options->skip_nan &&
                  !run->kernel->is_roof && results > 0 &&
                  (double)shape_elements(&geometry->in[0].shape) > options->ddof * results;
    return passes ? geometry : NULL;
}

/* Reports a right result without a number, for the first variant only. */
static void report_all_nan(struct execution *execution, const struct trial *trial, const struct task *task) {
    if (!trial->watched.all_nan || execution->readers.items[task->out].losses_printed) return;
    OWNED char *title = array_title(&execution->plan->arrays[task->out]);
    long long count = (long long)shape_elements(&task->geometry.out.shape);
    progress_note(&execution->progress, "%s: %lld of %lld results are NaN; `skip_nan: true` leaves missing values out",
                  title, count, count);
}

/* Reports what the conversion of a right result has lost, for the first variant only. */
static void report_result_losses(struct execution *execution, const struct trial *trial, const struct task *task) {
    struct reader *reader = &execution->readers.items[task->out];
    const struct casts casts = part_casts(trial->part);
    if (trial->run->kernel->is_roof) return;
    reader_casts_set(reader, &casts);
    execution_report_values(execution, reader);
}

/* The steps of a run up to its verdict; a wrong row is final. */
static enum status stream_verify_and_count(struct execution *execution, struct trial *trial, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct run *run = trial->run;
    const struct task *task = &plan->tasks[run->task];
    struct result_row *row = trial->row;
    struct host_reader reader = {.read = watched_read, .context = &trial->watched};
    struct stream_result streamed = {.devices = 1};
    struct verdict verdict;
    trial->watched =
        (struct watched_part){part_sink(trial->part, execution->trace), part_reader(trial->part), &execution->progress,
                              overflows_begin(run, &task->geometry), passes_nan_on(run, &task->geometry)};
    trial->sink = (struct sink){watched_write, watched_step, &trial->watched, execution->trace};
    trial->tiling = run->tiling;
    TRY(stream_in_free_memory(execution, trial, &streamed, error));
    progress_verify(&execution->progress);
    TRY(verify_run(plan, run, &reader, execution->truths, &verdict, error));
    trial->times = streamed.times;
    fill_counts(execution, trial, task, &streamed);
    plan_device_text(&plan->facts[run->device], streamed.devices, row->device, sizeof row->device);
    row->error = verdict.error;
    row->tolerance = verdict.tolerance;
    snprintf(row->verify, sizeof row->verify, "%s", verdict.how);
    if (!verdict.right) return execution_set_status(row, "wrong", verdict.message), STATUS_OK;
    TRY(settle_overflow(execution, trial, &reader, error));
    report_all_nan(execution, trial, task);
    report_result_losses(execution, trial, task);
    return part_finish_output(trial->part, true, error);
}

static enum status stream_and_verify(struct execution *execution, struct trial *trial, struct error *error) {
    enum status status = stream_verify_and_count(execution, trial, error);
    overflows_end(&trial->watched.overflows);
    return status;
}

/* Opens the inputs of a run. Closes those that no later task reads, and drops their copies on devices. */
static enum status open_inputs(struct execution *execution, const struct task *task, struct error *error) {
    int number = (int)(task - execution->plan->tasks);
    readers_close_before(&execution->readers, number);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < execution->teams[kind].count; i++)
            residents_drop_before(execution->teams[kind].residents[i], number);
    for (int i = 0; i < task->geometry.inputs; i++) TRY(readers_open(&execution->readers, task->in[i], error));
    return STATUS_OK;
}

void execution_release_trial(struct trial *trial, bool keep) {
    if (trial->stream) stream_free(trial->stream, keep);
    samples_free(&trial->measurement.samples);
    unit_discard(trial->part); /* NULL if it was finished */
    *trial = (struct trial){.run = NULL};
}

void execution_abandon(struct execution *execution) {
    while (execution->waiting > 0) execution_release_trial(&execution->trials[--execution->waiting], false);
}

/* Opens the inputs of a run, begins its part, streams and verifies it, and prepares its measurement if it is right. */
static enum status open_and_stream(struct execution *execution, struct trial *trial, struct error *error) {
    const struct task *task = &execution->plan->tasks[trial->run->task];
    TRY(interrupt_check(error));
    TRY(open_inputs(execution, task, error));
    TRY(space_check_run(execution->plan, trial->run, error));
    TRY(unit_begin(execution->results, trial->run, &trial->part, error));
    TRY(stream_and_verify(execution, trial, error));
    if (!trial->row->status[0])
        trial->timed = !stream_measurement(trial->stream, &task->operation->run, &trial->measurement);
    return STATUS_OK;
}

enum status execution_begin_trial(struct execution *execution, const struct run *run, struct trial *trial,
                                  struct error *error) {
    *trial = (struct trial){.run = run, .row = &execution->rows[run->number]};
    trial->row->tries = 1 + execution->failures[run->number];
    enum status status = open_team(execution, run->device, error); /* takes up to a second, once */
    execution_clock_start(execution, trial);
    if (!status) status = open_and_stream(execution, trial, error);
    if (status || trial->row->status[0]) execution_release_trial(trial, false);
    execution_clock_stop(execution, trial);
    return status;
}
