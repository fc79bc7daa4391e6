/* execute.c - the flow of a job: for each task, for each variant: stream, verify, measure, keep; then assemble. */
#include "execute_run.h"

#include "../base/clock.h"
#include "../base/cpu_load.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/process.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long to wait for a lock of another machine: Slurm may restart a job before the file system has noticed that its
 * last process ended. */
#define LOCK_WAIT_S 300.0

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* Returns `status`; but STATUS_OK, and clears the error, if it is that an input cannot be read: the runs that read the
 * input will report it. */
static enum status unless_lost(const struct execution *execution, enum status status, struct error *error) {
    if (!execution_is_unreadable(execution, status, error)) return status;
    *error = (struct error){.status = STATUS_OK};
    return STATUS_OK;
}

/* Opens the first READERS_OPEN inputs. From now on an input is the file that has its name now, even if another file
 * takes the name while the job runs. */
static enum status hold_inputs(struct execution *execution, struct error *error) {
    int inputs = execution->plan->input_count;
    for (int i = 0; i < inputs && i < READERS_OPEN; i++)
        if (shard_reads(execution->options->shard, execution->plan, i))
            TRY(unless_lost(execution, readers_open(&execution->readers, i, error), error));
    return STATUS_OK;
}

/* Hashes the inputs that keys depend on, except unreadable ones: a run that reads one is not found among the kept
 * runs. */
static enum status hash_inputs(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    bool all = results_need_inputs(execution->results);
    for (int i = plan->input_count - 1; i >= 0 && all; i--) /* bands, which come last, first */
        TRY(unless_lost(execution, readers_hash(&execution->readers, i, error), error));
    for (int t = 0; t < plan->task_count && !all; t++)
        if (shard_has(execution->options->shard, t))
            TRY(unless_lost(execution, execution_hash_task(execution, t, error), error));
    return STATUS_OK;
}

/* Publishes the results of the units. */
static enum status publish(struct execution *execution, const char *created, struct error *error) {
    const struct plan *whole = execution->units->whole;
    struct outcome outcome = execution_outcome(execution);
    OWNED int *result_run = outcome.result_run;
    FREED_BY(environment_free) struct environment environment;
    results_environment(whole, &environment);
    execution->failed = outcome.failed;
    execution->published = outcome.rows;
    struct result_summary summary = {
        .status = execution->incomplete            ? "partial"
                  : outcome.failed                 ? "failed"
                  : execution->options->restricted ? "partial"
                                                   : "complete",
        .command_line = execution->options->command_line,
        .created = created,
        .rows = outcome.rows,
        .unit_rows = execution->rows,
        .result_run = result_run,
        .environment = &environment,
    };
    OWNED char *mixed = result_mixed_conditions(outcome.rows, whole->run_count);
    if (mixed) progress_note(&execution->progress, "measured under different conditions (columns of /runs): %s", mixed);
    progress_assemble(&execution->progress);
    TRY(hash_inputs(execution, error)); /* also the inputs that no run has read */
    return store_publish(execution->results, &summary, error);
}

/* ---- the runs of a task ------------------------------------------------------------------------------------------ */

/* The trials that wait are timed when their repeats would take this long. */
#define WAIT_S 5.0

/* Must the trials that wait be timed now: would more trials make their repeats too long, or is one already timed? */
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

/* Settles or begins a run: afterwards its row is final, or one more trial waits. */
static enum status run_variant(struct execution *execution, const struct run *run, int *again, struct error *error) {
    bool settled;
    TRY(execution_settle_run(execution, run, again, &settled, error));
    return settled ? STATUS_OK : execution_begin_run(execution, run, again, error);
}

/* Fills the rows of a task's runs. A status but STATUS_OK ends the job; execution_abandon must follow. */
static enum status run_task(struct execution *execution, const struct task *task, struct error *error) {
    const struct run *runs = execution->plan->runs;
    int end = task->first_run + task->run_count;
    for (int number = task->first_run; number < end; number++) {
        int again = -1; /* the first run to repeat */
        if (runs[number].search) {
            int count;
            TRY(execution_search(execution, &runs[number], &count, error));
            number += count - 1;
            continue;
        }
        enum status status = run_variant(execution, &runs[number], &again, error);
        bool out_of_memory = status == STATUS_MEMORY && execution->waiting > 0;
        if (out_of_memory) {
            *error = (struct error){.status = STATUS_OK};
            again = number;
        } else if (status) {
            return status;
        }
        /* No further run can wait beside the waiting trials to be timed in turns with them. */
        bool none_follows = out_of_memory || number + 1 == end || runs[number + 1].search ||
                            !execution_fits_beside(execution, &runs[number + 1]);
        if (none_follows || must_be_timed(execution)) TRY(execution_time_trials(execution, &again, error));
        if (again >= 0) number = again - 1;
    }
    return STATUS_OK;
}

/* Does the runs of all tasks that this process has, and abandons the trials that a failure leaves. */
static enum status run_all_tasks(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    enum status status = STATUS_OK;
    for (int i = 0; i < plan->task_count && !status; i++)
        if (shard_has(execution->options->shard, i)) {
            const char *previous = fail_set_subject(plan->tasks[i].operation->id);
            status = run_task(execution, &plan->tasks[i], error);
            fail_set_subject(previous);
        }
    execution_abandon(execution);
    return status;
}

/* Copies the rows of a job that is complete already, to print them (`resume`). */
static void show_finished(struct execution *execution) {
    const struct plan *whole = execution->units->whole;
    int count;
    const struct result_row *rows = results_finished_rows(execution->results, &count);
    if (count == whole->run_count) {
        execution->published = must_malloc((unsigned long)count * sizeof *rows + 1);
        if (rows) memcpy(execution->published, rows, (unsigned long)count * sizeof *rows);
    }
    progress_note(&execution->progress, "%s is complete: nothing to do", whole->job->output);
}

/* Prints the rows of the whole job, or of a shard's units. */
static void print_rows(struct execution *execution) {
    const struct execute_options *options = execution->options;
    if (execution->published)
        options->print(execution->published, execution->units->whole->run_count, stdout);
    else
        options->print(execution->rows, result_rows_own(execution->rows, execution->plan->run_count), stdout);
}

/* Drops the trace, because nothing runs; an earlier trace file stays as it is. */
static void discard_trace(struct execution *execution) {
    trace_discard(execution->trace);
    execution->trace = NULL;
}

/* Does everything between opening and closing the results file. */
static enum status run_job(struct execution *execution, bool *wrote, struct error *error) {
    const struct execute_options *options = execution->options;
    char created[TIME_TEXT];
    time_text(created);
    bool done = false;
    enum status status = hold_inputs(execution, error);
    if (!status && options->shard)
        status = results_write_manifest(execution->results, options->command_line, options->restricted, NULL, error);
    if (!status && options->resume) {
        store_recall_inputs(execution->results);
        status = hash_inputs(execution, error); /* the keys contain their hashes */
    }
    if (!status && options->resume) {
        progress_pause(&execution->progress); /* it may print a line */
        status = store_resume(execution->results, options->restricted, &done, error);
        progress_resume(&execution->progress);
        atomic_store(&execution->looked, !status);
    }
    if (status || done) discard_trace(execution);
    TRY(status);
    if (done) return show_finished(execution), STATUS_OK;
    TRY(options->merge ? execution_collect(execution, error) : run_all_tasks(execution, error));
    TRY(execution_report_lost(execution, error));
    if (options->shard)
        results_finish_manifest(execution->results);
    else
        TRY(publish(execution, created, error));
    if (wrote) *wrote = true;
    return execution->failed ? STATUS_RUN : STATUS_OK;
}

/* Writes why a shard ends into its manifest, for `merge` and `show`; ignores a failure to write it. */
static void note_stop(const struct execution *execution, enum status status, const struct error *error) {
    const struct execute_options *options = execution->options;
    bool stopped = status && status != STATUS_RUN && status != STATUS_INTERRUPTED && error->text[0];
    if (options->shard && stopped)
        results_write_manifest(execution->results, options->command_line, options->restricted,
                               execution->lost       ? execution_unreadable(execution)
                               : options->unreadable ? options->unreadable
                                                     : error->text,
                               IGNORED);
}

/* Allocates what an execution records of the plan's arrays, tasks and runs; execution_end frees it. */
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
    execution->awaited = must_zeroed((unsigned long)plan->task_count * sizeof(bool));
    execution->hashed = must_zeroed((unsigned long)plan->task_count * sizeof(bool));
    execution->failures = must_zeroed((unsigned long)plan->run_count * sizeof(int));
    atomic_init(&execution->clocked, -1);
    for (int i = 0; i < plan->task_count; i++) execution->result_run[i] = -1;
}

static void execution_end(struct execution *execution) {
    truth_cache_free(execution->truths);
    readers_free(&execution->readers);
    free(execution->published);
    free(execution->result_run);
    free(execution->awaited);
    free(execution->hashed);
    free(execution->failures);
    free(execution->final);
    free(execution->rows);
}

/* Begins the progress display, in which runs of other shards have no work. */
static void begin_progress(struct execution *execution) {
    const struct plan *plan = execution->plan;
    OWNED struct progress_work *work = plan_work(plan);
    for (int i = 0; i < plan->run_count; i++) {
        work[i].not_here = plan->runs[i].skip || !shard_has(execution->options->shard, plan->runs[i].task);
        work[i].nothing_left |= work[i].not_here;
    }
    progress_begin(&execution->progress, execution->options->progress, work, plan->run_count);
}

enum status execute_plan(const struct units *units, const struct execute_options *options, bool *wrote,
                         struct error *error) {
    struct execution execution = {.units = units, .plan = &units->plan, .options = options};
    const struct cpu_load load = cpu_load_now();
    cpu_load_earlier(&load); /* it is the baseline of later measurements */
    execution.truths = truth_cache_create();
    execution.stop_reason = "a signal came first";
    const char *output = units->whole->job->output, *trace = options->trace, *before = fail_set_subject(output);
    if (wrote) *wrote = false;
    execution_begin(&execution);
    enum status status = trace ? results_check_other(output, units->whole, "trace", trace, error) : STATUS_OK;
    if (!status && trace) status = trace_open(trace, options->overwrite, &execution.trace, error);
    const struct store_policy policy = {
        options->overwrite, options->resume, options->merge,
        options->link,      options->single, options->shard ? fmin(options->wait_s, LOCK_WAIT_S) : LOCK_WAIT_S};
    if (!status)
        status = store_open(output, &policy, units, options->shard, &execution.readers, &execution.results, error);
    if (status) {
        discard_trace(&execution);
    } else {
        begin_progress(&execution);
        execution_watch_signals(&execution);
        process_divert_stdout();
        status = run_job(&execution, wrote, error);
        process_restore_stdout();
        note_stop(&execution, status, error);
        progress_end(&execution.progress);
    }
    interrupt_finish(status);
    if (status == STATUS_INTERRUPTED) error->text[0] = '\0'; /* execute_signal.c has printed it */
    for (int kind = 0; kind < 2; kind++) execution_close_devices(&execution, kind);
    store_close(execution.results);
    enum status traced = trace_close(execution.trace, status ? IGNORED : error);
    if (!status) status = traced;
    bool done = status == STATUS_OK || (status == STATUS_RUN && !error->text[0]) || execution.lost > 0;
    if (done && options->shows) print_rows(&execution);
    execution_end(&execution);
    fail_set_subject(before);
    return status;
}
