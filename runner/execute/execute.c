/* execute.c - the flow of a job: for each task, for each variant: stream, verify, measure, keep; then assemble. */
#include "execute_run.h"

#include "../base/clock.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a lock of another machine is waited for: Slurm may start a job again before the file system knows that its
 * last process is gone. */
#define LOCK_WAIT_S 300.0

static void close_devices(struct execution *execution) {
    for (int kind = 0; kind < 2; kind++)
        for (int i = execution->teams[kind].count - 1; i >= 0; i--) {
            struct device *device = execution->teams[kind].devices[i];
            residents_free(execution->teams[kind].residents[i]);
            device->operations->close(device);
        }
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* Opens the inputs, up to READERS_OPEN. From then on an input is the file that its name means now, even if another file
 * takes that name while the job runs. */
static enum status hold_inputs(struct execution *execution, struct error *error) {
    int inputs = execution->plan->input_count;
    for (int i = 0; i < inputs && i < READERS_OPEN; i++)
        if (shard_reads(execution->options->shard, execution->plan, i))
            TRY(readers_open(&execution->readers, i, error));
    return STATUS_OK;
}

static enum status hash_inputs(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    bool all = results_need_inputs(execution->results);
    for (int i = 0; i < plan->input_count && all; i++) TRY(reader_hash(&execution->readers.of[i], error));
    for (int t = 0; t < plan->task_count && !all; t++)
        if (shard_has(execution->options->shard, t)) TRY(execution_hash_task(execution, t, error));
    return STATUS_OK;
}

/* Publishes what the units have made, and prints it. */
static enum status publish(struct execution *execution, const char *created, struct error *error) {
    const struct plan *whole = execution->units->whole;
    struct outcome outcome = execution_outcome(execution);
    struct environment environment;
    results_environment(whole, &environment);
    execution->failed = outcome.failed;
    struct result_summary summary = {
        .status = execution->incomplete            ? "partial"
                  : outcome.failed                 ? "failed"
                  : execution->options->restricted ? "partial"
                                                   : "complete",
        .command_line = execution->options->command_line,
        .created = created,
        .rows = outcome.rows,
        .unit_rows = execution->rows,
        .result_run = outcome.result_run,
        .environment = &environment,
    };
    char *mixed = result_mixed_conditions(outcome.rows, whole->run_count);
    if (mixed) {
        char *note = must_printf("measured under different conditions (columns of /runs): %s", mixed);
        progress_note(&execution->progress, note);
        free(note);
    }
    free(mixed);
    progress_assemble(&execution->progress);
    enum status status = hash_inputs(execution, error); /* inputs that no run has read */
    if (!status) status = store_publish(execution->results, &summary, error);
    environment_free(&environment);
    free(outcome.result_run);
    if (status)
        free(outcome.rows);
    else
        execution->published = outcome.rows;
    return status;
}

static enum status take_all_runs(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    enum status status = STATUS_OK;
    for (int i = 0; i < plan->task_count && !status; i++)
        if (shard_has(execution->options->shard, i)) status = execution_take_task(execution, &plan->tasks[i], error);
    execution_abandon(execution);
    return status;
}

/* Takes the rows of a job that is complete already (`resume`), so that they can be shown. */
static void show_finished(struct execution *execution) {
    const struct plan *whole = execution->units->whole;
    int count;
    const struct result_row *rows = results_finished_rows(execution->results, &count);
    if (count == whole->run_count) {
        execution->published = must_malloc((unsigned long)count * sizeof *rows + 1);
        if (rows) memcpy(execution->published, rows, (unsigned long)count * sizeof *rows);
    }
    char *note = must_printf("%s is complete: nothing to do", whole->job->output);
    progress_note(&execution->progress, note);
    free(note);
}

/* Prints what is done: the rows of the whole, or of the units of a shard. */
static void print_rows(struct execution *execution) {
    const struct execute_options *options = execution->options;
    if (execution->published)
        options->print(execution->published, execution->units->whole->run_count, stdout);
    else
        options->print(execution->rows, result_rows_own(execution->rows, execution->plan->run_count), stdout);
}

/* ---- after a signal ---------------------------------------------------------------------------------------------- */

static void answer(void *context, int number) {
    struct execution *execution = context;
    progress_announce_signal(&execution->progress, number);
}

/* Makes rows of the whole of those of its units, in their place; returns how many they are. Of a run that is done in
 * panels the row says how many are. */
static int join_rows(const struct execution *execution, struct result_row *rows, const bool *kept) {
    const struct plan *whole = execution->units->whole;
    for (int r = 0; r < whole->run_count; r++) { /* the units of a run are never before it */
        int count, stride, done = 0;
        const struct run *first = units_of_run(execution->units, &whole->runs[r], &count, &stride);
        for (int p = 0; p < count; p++) {
            int unit = first[p * stride].number;
            done += result_row_done(&rows[unit]) || kept[unit];
        }
        if (count == 1) {
            rows[r] = rows[first->number];
        } else {
            char *panels = must_printf("%d of %d panels are done and kept", done, count);
            result_row_init(&rows[r], whole, &whole->runs[r]);
            execution_say(&rows[r], "interrupted", panels);
            free(panels);
        }
        rows[r].run = r;
    }
    return whole->run_count;
}

/* Ends the job after a signal: releases the lock on the output, prints the rows and how many runs are done. Other
 * threads may still change rows that are not final, so those are filled anew in a copy. */
static void leave(void *context) {
    const struct execution *execution = context;
    const struct plan *plan = execution->plan;
    struct result_row *rows = must_malloc((unsigned long)plan->run_count * sizeof *rows + 1);
    bool *kept = must_malloc((unsigned long)plan->run_count * sizeof *kept + 1);
    const bool *seen = atomic_load(&execution->looked) ? results_seen(execution->results) : NULL;
    char *table = NULL;
    size_t length = 0;
    store_leave(execution->results);
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        bool final = atomic_load(&execution->final[i]);
        kept[i] = !final && seen && seen[i];
        rows[i] = (struct result_row){.run = i};
        if (!shard_has(execution->options->shard, run->task)) continue;
        if (final) {
            rows[i] = execution->rows[i];
            continue;
        }
        result_row_init(&rows[i], plan, run);
        execution_say(&rows[i], run->skip ? "skipped" : "interrupted",
                      run->skip ? run->skip
                      : kept[i] ? "finished before and kept; a signal came first"
                                : execution->stop_reason);
    }
    const char *go_on = execution->options->merge    ? "; the same command continues"
                        : execution->options->single ? ""
                                                     : "; `tilerun run JOB --resume` continues";
    char *sentences = execution_summary(plan, rows, kept, go_on);
    FILE *to = must_stream(&table, &length);
    int count = execution->options->shard ? result_rows_own(rows, plan->run_count) : join_rows(execution, rows, kept);
    execution->options->print(rows, count, to);
    fclose(to);
    interrupt_write(STDOUT_FILENO, table);
    interrupt_write(STDERR_FILENO, sentences);
    free(sentences);
    free(kept);
    free(table);
    free(rows);
}

/* When nothing is run, an earlier trace stays as it is. */
static void forget_trace(struct execution *execution) {
    trace_discard(execution->trace);
    execution->trace = NULL;
}

/* Everything between opening and closing the results. */
static enum status carry_out(struct execution *execution, bool *wrote, struct error *error) {
    const struct execute_options *options = execution->options;
    char created[TIME_TEXT];
    time_text(created);
    bool done = false;
    enum status status = hold_inputs(execution, error);
    if (!status && options->shard)
        status = results_write_manifest(execution->results, options->command_line, options->restricted, error);
    if (!status && options->resume) status = hash_inputs(execution, error); /* they are in the keys */
    if (!status && options->resume) {
        progress_pause(&execution->progress); /* it may print a line */
        status = store_resume(execution->results, options->restricted, &done, error);
        progress_resume(&execution->progress);
        atomic_store(&execution->looked, !status);
    }
    if (status || done) forget_trace(execution);
    TRY(status);
    if (done) return show_finished(execution), STATUS_OK;
    TRY(options->merge ? execution_collect(execution, error) : take_all_runs(execution, error));
    if (options->shard)
        results_finish_manifest(execution->results);
    else
        TRY(publish(execution, created, error));
    if (wrote) *wrote = !options->shard;
    return execution->failed ? STATUS_RUN : STATUS_OK;
}

static void execution_begin(struct execution *execution) {
    const struct plan *plan = execution->plan;
    readers_init(&execution->readers, plan->arrays, plan->array_count);
    execution->rows = must_malloc((unsigned long)plan->run_count * sizeof *execution->rows + 1);
    execution->final = must_malloc((unsigned long)plan->run_count * sizeof *execution->final + 1);
    for (int i = 0; i < plan->run_count; i++) {
        atomic_init(&execution->final[i], false);
        execution->rows[i] = (struct result_row){.run = i};
    }
    execution->result_run = must_malloc((unsigned long)plan->task_count * sizeof(int) + 1);
    execution->awaited = must_malloc((unsigned long)plan->task_count * sizeof(bool) + 1);
    execution->hashed = must_malloc((unsigned long)plan->task_count * sizeof(bool) + 1);
    for (int i = 0; i < plan->task_count; i++) {
        execution->result_run[i] = -1;
        execution->awaited[i] = execution->hashed[i] = false;
    }
}

static void execution_end(struct execution *execution) {
    truth_cache_free(execution->truths);
    readers_free(&execution->readers);
    free(execution->published);
    free(execution->result_run);
    free(execution->awaited);
    free(execution->hashed);
    free(execution->final);
    free(execution->rows);
}

static void begin_progress(struct execution *execution) {
    const struct plan *plan = execution->plan;
    struct progress_work *work = plan_work(plan);
    for (int i = 0; i < plan->run_count; i++) {
        work[i].elsewhere = !shard_has(execution->options->shard, plan->runs[i].task);
        work[i].over |= work[i].elsewhere;
    }
    progress_begin(&execution->progress, execution->options->progress, work, plan->run_count);
    free(work);
}

enum status execute_plan(const struct units *units, const struct execute_options *options, bool *wrote,
                         struct error *error) {
    struct execution execution = {.units = units, .plan = &units->plan, .options = options};
    execution.truths = truth_cache_create();
    execution.stop_reason = "a signal came first";
    const char *output = units->whole->job->output, *trace = options->trace, *before = fail_set_subject(output);
    if (wrote) *wrote = false;
    execution_begin(&execution);
    enum status status = trace ? results_check_other(output, units->whole, "trace", trace, error) : STATUS_OK;
    if (!status && trace) status = trace_open(trace, options->overwrite, &execution.trace, error);
    if (!status)
        status = store_open(output, options->overwrite, options->resume, units, options->shard,
                            options->shard ? fmin(options->wait_s, LOCK_WAIT_S) : LOCK_WAIT_S, &execution.readers,
                            &execution.results, error);
    if (status) {
        forget_trace(&execution);
    } else {
        if (options->merge) results_join(execution.results, options->link);
        begin_progress(&execution);
        interrupt_set_handlers(answer, leave, &execution);
        status = carry_out(&execution, wrote, error);
        progress_end(&execution.progress);
    }
    interrupt_finish(status);
    if (status == STATUS_INTERRUPTED) error->text[0] = '\0'; /* `leave` has printed it */
    close_devices(&execution);
    store_close(execution.results);
    struct error ignored = {.status = STATUS_OK};
    enum status traced = trace_close(execution.trace, status ? &ignored : error);
    if (!status) status = traced;
    bool done = status == STATUS_OK || (status == STATUS_RUN && !error->text[0]);
    if (done && options->shows) print_rows(&execution);
    execution_end(&execution);
    fail_set_subject(before);
    return status;
}
