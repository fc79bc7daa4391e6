/* execute.c - the flow of a job: for each task, for each variant: stream, verify, measure, keep; then assemble. */
#include "execute.h"
#include "base/clock.h"

#include "base/fail.h"
#include "base/interrupt.h"
#include "plan/space.h"
#include "result/result_file.h"
#include "verify/verify.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything that lasts as long as the job. */
struct execution {
    const struct plan *plan;
    const struct execute_options *options;
    struct readers readers;    /* one for each of the plan's arrays */
    struct device *devices[2]; /* by enum kernel_device; NULL: not opened yet */
    struct residents *residents[2];
    struct truth_cache *truths;
    struct results *results;
    struct progress progress;
    struct trace *trace; /* NULL: not wanted */
    struct result_row *rows;
    atomic_int taken; /* rows from the first that are final */
    int *result_run;  /* by task: the run that gave its result; -1: none yet */
    bool failed, stop;
};

static enum status use_device(struct execution *execution, enum kernel_device kind, struct error *error) {
    if (execution->devices[kind]) return STATUS_OK;
    enum status status = kind == DEVICE_CUDA
                             ? device_cuda_open(execution->options->cuda_number, &execution->devices[kind], error)
                             : device_cpu_open(&execution->devices[kind], error);
    if (!status) execution->residents[kind] = residents_create(execution->devices[kind], execution->plan->budget[kind]);
    return status;
}

static void close_devices(struct execution *execution) {
    for (int kind = 0; kind < 2; kind++) {
        residents_free(execution->residents[kind]);
        if (execution->devices[kind]) execution->devices[kind]->operations->close(execution->devices[kind]);
    }
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Wraps a part's sink and reader: refuses boxes after a signal and reports bytes to the progress display. */
struct watched_part {
    struct sink sink;
    struct host_reader reader;
    struct progress *progress;
};

static enum status watched_write(void *context, const struct box *box, const void *data, struct error *error) {
    const struct watched_part *part = context;
    TRY(interrupt_check(error));
    return part->sink.write(part->sink.context, box, data, error);
}

static void watched_step(void *context, int64_t bytes) {
    const struct watched_part *part = context;
    progress_bytes(part->progress, (double)bytes);
}

static enum status watched_read(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct watched_part *part = context;
    TRY(interrupt_check(error));
    return part->reader.read(part->reader.context, input, box, data, error);
}

static void fill_times(struct result_row *row, const struct stage_times *times, const struct samples *samples) {
    struct statistics statistics = samples_statistics(samples);
    row->repeats = samples->count;
    row->sm_clock_mhz = samples_clock_mhz(samples);
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

static void say(struct result_row *row, const char *status, const char *message) {
    snprintf(row->status, sizeof row->status, "%s", status);
    snprintf(row->message, sizeof row->message, "%.255s", message);
}

/* Streams a run. While the device is out of memory (it may have less free than when the plan was made), halves the
 * memory of its tiles and tries again, until no tiles are small enough. */
static enum status stream_in_what_is_free(struct execution *execution, const struct run *run, struct tiling *tiling,
                                          const struct sink *sink, struct stream_result *passed, struct stream **stream,
                                          struct error *error) {
    const struct plan *plan = execution->plan;
    struct device *device = execution->devices[run->device];
    struct residents *residents = execution->residents[run->device];
    const struct pass pass = {plan, run, tiling, &execution->readers};
    enum status status;
    while ((status = stream_run(device, residents, &pass, sink, passed, stream, error)) == STATUS_MEMORY) {
        int64_t wanted = tiling->memory_bytes;
        if (!plan_fit(plan, run, wanted / 2, tiling)) break;
        char *note = must_printf("%s: %s is short of memory; smaller tiles: %lld bytes instead of %lld",
                                 plan->tasks[run->task].operation->id, device->facts.id,
                                 (long long)tiling->memory_bytes, (long long)wanted);
        progress_note(&execution->progress, note);
        free(note);
        *error = (struct error){.status = STATUS_OK};
    }
    return status == STATUS_MEMORY ? (error->status = STATUS_DEVICE) : status;
}

/* Streams, verifies and measures; the row holds the outcome. A status but STATUS_OK and STATUS_RUN ends the job. */
static enum status stream_verify_measure(struct execution *execution, const struct run *run, struct part *part,
                                         struct result_row *row, struct samples *samples, struct error *error) {
    const struct plan *plan = execution->plan;
    struct tiling tiling = run->tiling;
    const struct run_options *options = &plan->tasks[run->task].operation->run;
    struct watched_part watched = {part_sink(part, execution->trace), part_reader(part), &execution->progress};
    struct sink sink = {watched_write, watched_step, &watched, execution->trace};
    struct host_reader reader = {watched_read, &watched};
    struct stream_result passed = {{0}, 0, 0};
    struct stream *stream = NULL;
    struct verdict verdict;
    enum status status = stream_in_what_is_free(execution, run, &tiling, &sink, &passed, &stream, error);
    if (status) return status;
    status = verify_run(plan, run, &reader, execution->truths, &verdict, error);
    if (!status) {
        row->error = verdict.error;
        snprintf(row->verify, sizeof row->verify, "%s", verdict.how);
        row->tolerance = verdict.tolerance;
    }
    if (!status && verdict.right) {
        status = stream_measure(stream, options, samples, error);
        fill_times(row, &passed.times, samples);
        say(row, strcmp(verdict.how, "none") == 0 ? "unchecked" : "ok", run->note ? run->note : "");
        if (run->kernel->limit)
            snprintf(row->message, sizeof row->message, "a limit, not a %s",
                     operations[plan->tasks[run->task].geometry.op]->name);
    } else if (!status) {
        say(row, "wrong", verdict.message);
    }
    bool is_result = !status && verdict.right && !run->kernel->limit && execution->result_run[run->task] < 0;
    stream_free(stream, is_result && plan->arrays[plan->tasks[run->task].out].last_reader > run->task);
    return status;
}

/* Opens what a run reads, and closes what no later task reads. */
static enum status open_inputs(struct execution *execution, const struct task *task, struct error *error) {
    int number = (int)(task - execution->plan->tasks);
    readers_close_before(&execution->readers, number);
    for (int kind = 0; kind < 2; kind++) residents_drop_before(execution->residents[kind], number);
    for (int i = 0; i < task->geometry.inputs; i++) TRY(readers_open(&execution->readers, task->in[i], error));
    return STATUS_OK;
}

/* Checks that the inputs have not changed, and hashes them, because the part's key contains their hashes. Most were
 * hashed while they were read. The inputs of earlier tasks were hashed with those tasks' parts. */
static enum status settle_inputs(struct execution *execution, const struct task *task, struct error *error) {
    struct reader *of = execution->readers.of;
    for (int i = 0; i < task->geometry.inputs; i++) TRY(reader_check(&of[task->in[i]], error));
    for (int i = 0; i < task->geometry.inputs; i++) TRY(reader_hash(&of[task->in[i]], error));
    return STATUS_OK;
}

static enum status do_run(struct execution *execution, const struct run *run, struct result_row *row,
                          struct error *error) {
    const struct task *task = &execution->plan->tasks[run->task];
    struct part *part = NULL;
    struct samples samples = {0};
    TRY(interrupt_check(error));
    TRY(use_device(execution, run->device, error));
    TRY(open_inputs(execution, task, error));
    TRY(space_check_run(execution->plan, run, error));
    TRY(part_begin(execution->results, run, &part, error));
    enum status status = stream_verify_measure(execution, run, part, row, &samples, error);
    if (!status) status = settle_inputs(execution, task, error);
    if (!status && result_row_done(row))
        status = part_finish(part, row, &samples, error);
    else
        part_discard(part);
    samples_free(&samples);
    return status;
}

/* Why a run is not begun; NULL: it is begun. */
static const char *reason_to_skip(const struct execution *execution, const struct run *run, char text[256]) {
    const struct plan *plan = execution->plan;
    const struct task *task = &plan->tasks[run->task];
    if (run->skip) return run->skip;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = task->in[i] - plan->job->input_count;
        if (producer < 0 || execution->result_run[producer] >= 0) continue;
        snprintf(text, 256, "its input '%s' has no result", plan->arrays[task->in[i]].name);
        return text;
    }
    return execution->stop ? "an earlier run failed (on_error: stop)" : NULL;
}

static void outcome_text(const struct result_row *row, char text[320]) {
    char error[32] = ""; /* unknown (NaN) if nothing was verified */
    if (!isnan(row->error)) snprintf(error, sizeof error, ", error %.2g", row->error);
    if (result_row_done(row))
        snprintf(text, 320, "%s, %.4g ms%s%s%s", row->status, row->kernel_median_s * 1e3, error,
                 row->message[0] ? "; " : "", row->message);
    else
        snprintf(text, 320, "%s%s%s", row->status, row->message[0] ? ": " : "", row->message);
}

/* Takes one run from start to end: fills its row, reports progress. */
static enum status take_run(struct execution *execution, const struct run *run, struct error *error) {
    const struct task *task = &execution->plan->tasks[run->task];
    struct result_row *row = &execution->rows[run->number];
    char text[320], why[256];
    snprintf(text, sizeof text, "%s %s%s%s", task->operation->id, run->label, task->operation->label[0] ? " " : "",
             task->operation->label);
    progress_run(&execution->progress, text);
    trace_run(execution->trace, text);
    result_row_init(row, execution->plan, run);
    enum status status = STATUS_OK;
    const char *skip = reason_to_skip(execution, run, why);
    bool reused = false;
    if (skip) {
        say(row, "skipped", skip);
    } else if ((reused = execution->options->resume && results_find(execution->results, run, row))) {
        progress_bytes(&execution->progress, run->tiling.traffic_bytes);
    } else {
        status = do_run(execution, run, row, error);
        if (status == STATUS_RUN) {
            say(row, "failed", error->text);
            *error = (struct error){0};
            status = STATUS_OK;
        }
        if (status) return status;
    }
    bool ok = result_row_done(row);
    if (ok && !run->kernel->limit && execution->result_run[run->task] < 0) {
        execution->result_run[run->task] = run->number;
        if (task->wanted) results_load_output(execution->results, run);
    }
    if (!ok && !run->skip) {
        execution->failed = true;
        execution->stop = execution->stop || task->operation->run.stop_on_error;
    }
    outcome_text(row, text);
    if (reused) strncat(text, " (kept from before)", sizeof text - strlen(text) - 1);
    progress_outcome(&execution->progress, text);
    return status;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* Opens the inputs, up to READERS_OPEN. From then on an input is the file that its name means now, even if another file
 * takes that name while the job runs. */
static enum status hold_inputs(struct execution *execution, struct error *error) {
    int inputs = execution->plan->job->input_count;
    for (int i = 0; i < inputs && i < READERS_OPEN; i++) TRY(readers_open(&execution->readers, i, error));
    return STATUS_OK;
}

static enum status hash_inputs(struct execution *execution, struct error *error) {
    for (int i = 0; i < execution->plan->job->input_count; i++) TRY(reader_hash(&execution->readers.of[i], error));
    return STATUS_OK;
}

static enum status assemble(struct execution *execution, const char *created, struct error *error) {
    const struct plan *plan = execution->plan;
    struct environment environment;
    environment_collect(&plan->facts[plan->present[DEVICE_CUDA] ? DEVICE_CUDA : DEVICE_CPU], &environment);
    struct result_summary summary = {
        .status = execution->failed                ? "failed"
                  : execution->options->restricted ? "partial"
                                                   : "complete",
        .command_line = execution->options->command_line,
        .created = created,
        .rows = execution->rows,
        .result_run = execution->result_run,
        .environment = &environment,
    };
    char *mixed = result_mixed_conditions(execution->rows, plan->run_count);
    if (mixed) fprintf(stderr, "tilerun: measured under different conditions (columns of /runs): %s\n", mixed);
    free(mixed);
    enum status status = hash_inputs(execution, error); /* inputs that no run has read */
    if (!status) status = results_assemble(execution->results, &summary, error);
    environment_free(&environment);
    return status;
}

static enum status take_all_runs(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    enum status status = STATUS_OK;
    double bytes = 0;
    for (int i = 0; i < plan->run_count; i++)
        if (!plan->runs[i].skip) bytes += plan->runs[i].tiling.traffic_bytes;
    progress_begin(&execution->progress, execution->options->progress, plan->run_count, bytes);
    for (int i = 0; i < plan->run_count && !status; i++) {
        status = take_run(execution, &plan->runs[i], error);
        if (!status) atomic_store(&execution->taken, i + 1);
    }
    progress_end(&execution->progress);
    return status;
}

/* Reads the rows of a job that is complete already (`resume`), so that they can be shown. */
static enum status show_finished(const struct plan *plan, struct result_row *rows, struct error *error) {
    struct results_file *file;
    enum status status = results_file_open(plan->job->output, &file, error);
    if (status) return status;
    if (file->count == plan->run_count)
        memcpy(rows, file->rows, (unsigned long)file->count * sizeof *rows);
    else
        status = fail(error, STATUS_IO, "%s has %d runs, not %d", plan->job->output, file->count, plan->run_count);
    results_file_close(file);
    if (!status) fprintf(stderr, "tilerun: %s is complete: nothing to do\n", plan->job->output);
    return status;
}

/* ---- after a signal ---------------------------------------------------------------------------------------------- */

/* Ends the job after a signal: releases the lock on the output, prints the rows and how many runs are done. Other
 * threads may still change rows that are not final, so those are filled anew in a copy. */
static void leave(void *context) {
    const struct execution *execution = context;
    const struct plan *plan = execution->plan;
    struct result_row *rows = must_malloc((unsigned long)plan->run_count * sizeof *rows + 1);
    int taken = atomic_load(&execution->taken), done = plan->run_count;
    char *table = NULL;
    size_t length = 0;
    results_leave(execution->results);
    memcpy(rows, execution->rows, (size_t)taken * sizeof *rows);
    for (int i = taken; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        result_row_init(&rows[i], plan, run);
        say(&rows[i], run->skip ? "skipped" : "interrupted", run->skip ? run->skip : "a signal came first");
        done -= !run->skip;
    }
    FILE *to = open_memstream(&table, &length);
    if (to) {
        execution->options->print(rows, plan->run_count, to);
        if (fclose(to) == 0) interrupt_say(STDOUT_FILENO, table);
    }
    char *sentence =
        must_printf("%stilerun: interrupted: %d of %d runs are done; `tilerun run JOB --resume` continues\n",
                    progress_clear(&execution->progress), done, plan->run_count);
    interrupt_say(STDERR_FILENO, sentence);
    free(sentence);
    free(table);
    free(rows);
}

/* When nothing is run, an earlier trace stays as it is. */
static void forget_trace(struct execution *execution) {
    trace_discard(execution->trace);
    execution->trace = NULL;
}

/* Everything between opening and closing the results. */
static enum status carry_out(struct execution *execution, struct error *error) {
    const struct execute_options *options = execution->options;
    char created[TIME_TEXT];
    time_text(created);
    bool done = false;
    enum status status = hold_inputs(execution, error);
    if (!status && options->resume) status = hash_inputs(execution, error); /* they are in the keys */
    if (!status && options->resume) status = results_resume(execution->results, options->restricted, &done, error);
    if (status || done) forget_trace(execution);
    TRY(status);
    if (done) return show_finished(execution->plan, execution->rows, error);
    TRY(take_all_runs(execution, error));
    TRY(assemble(execution, created, error));
    return execution->failed ? STATUS_RUN : STATUS_OK;
}

enum status execute_plan(const struct plan *plan, const struct execute_options *options, struct result_row *rows,
                         struct error *error) {
    struct execution execution = {.plan = plan, .options = options, .rows = rows, .truths = truth_cache_create()};
    readers_init(&execution.readers, plan->arrays, plan->array_count);
    execution.result_run = must_malloc((unsigned long)plan->task_count * sizeof(int) + 1);
    for (int i = 0; i < plan->task_count; i++) execution.result_run[i] = -1;
    const char *output = plan->job->output, *trace = options->trace;
    enum status status = trace ? results_check_other(output, plan, "trace", trace, error) : STATUS_OK;
    if (!status && trace) status = trace_open(trace, options->overwrite, &execution.trace, error);
    if (!status)
        status = results_open(output, options->overwrite, options->resume, plan, &execution.readers, &execution.results,
                              error);
    if (status) {
        forget_trace(&execution);
    } else {
        interrupt_leave_by(leave, &execution);
        status = carry_out(&execution, error);
    }
    interrupt_settle(status);
    if (status == STATUS_INTERRUPTED) error->text[0] = '\0'; /* `leave` has printed it */
    close_devices(&execution);
    results_close(execution.results);
    struct error ignored = {.status = STATUS_OK};
    enum status traced = trace_close(execution.trace, status ? &ignored : error);
    if (!status) status = traced;
    truth_cache_free(execution.truths);
    readers_free(&execution.readers);
    free(execution.result_run);
    return status;
}
