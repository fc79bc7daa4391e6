/* execute_run.c - the steps of a run, and what is tried again after a failure. */
#include "execute_run.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* The pause before the second try; it doubles with each try. */
#define MIN_PAUSE_S 0.5
#define MAX_PAUSE_S 30.0
#define NAP_S       0.1

/* ---- rows that are final ----------------------------------------------------------------------------------------- */

/* What became of a run, for its line of progress. The caller frees. */
static char *row_text(const struct task *task, const struct result_row *row, bool reused) {
    const bool done = result_row_done(row);
    /* The name of a panel's run contains its message. */
    const bool has_own_message = row->message[0] && !(task->panel && strcmp(row->message, task->panel) == 0);
    char *text = must_strdup(row->status);
    if (!done && row->message[0]) must_append(&text, ": %s", row->message);
    if (!isnan(row->kernel_median_s)) must_append(&text, ", %.4g ms", row->kernel_median_s * 1e3);
    if (done && !isnan(row->error)) must_append(&text, ", error %.2g", row->error);
    if (done && row->tries > 1) must_append(&text, ", %d tries", row->tries);
    if (done && has_own_message) must_append(&text, "; %s", row->message);
    if (reused) must_append(&text, " (kept from before)");
    return text;
}

enum status execution_keep_row(struct execution *execution, const struct run *run, const struct result_row *row,
                               struct error *error) {
    bool panel = execution->plan->tasks[run->task].panel;
    if ((!execution->options->shard && !panel && !run->search) || result_row_done(row)) return STATUS_OK;
    enum status status = execution_hash_task(execution, run->task, error);
    if (execution_is_unreadable(execution, status, error)) {
        /* Such a run has no key: it stays missing until --resume. */
        *error = (struct error){.status = STATUS_OK};
        return STATUS_OK;
    }
    TRY(status);
    return unit_keep_row(execution->results, run, row, error);
}

enum status execution_conclude(struct execution *execution, const struct run *run, bool reused, struct error *error) {
    const struct task *task = &execution->plan->tasks[run->task];
    const struct result_row *row = &execution->rows[run->number];
    bool done = result_row_done(row);
    TRY(execution_keep_row(execution, run, row, error));
    atomic_store(&execution->final[run->number], true);
    if (done && !run->kernel->is_roof && execution->result_run[run->task] < 0) {
        execution->result_run[run->task] = run->number;
        if (task->wanted) results_point_at_output(execution->results, run);
    }
    if (!done && !run->skip && !result_row_lost(row)) {
        execution->failed = true;
        execution->stop = execution->stop || task->operation->run.stop_on_error;
    }
    if (run->skip) return STATUS_OK; /* a line under the table names what cannot run */
    OWNED char *text = row_text(task, row, reused);
    progress_outcome(&execution->progress, run->number, text, done && !reused);
    return STATUS_OK;
}

enum status execution_settle_failure(struct execution *execution, const struct run *run, enum status status,
                                     const char *word, struct error *error) {
    struct result_row *row = &execution->rows[run->number];
    bool lost = execution_is_unreadable(execution, status, error);
    if (status != STATUS_RUN && status != STATUS_TIMEOUT && !lost) return status;
    execution->lost += lost;
    if (status != STATUS_TIMEOUT) {
        execution_set_status(row, word, error->text);
    } else {
        execution_set_timeout(execution, run, row);
        store_note_timeout(execution->results, run, row->timeout_s);
    }
    *error = (struct error){.status = STATUS_OK};
    return execution_conclude(execution, run, false, error);
}

/* ---- tries ------------------------------------------------------------------------------------------------------- */

/* How often a run is tried again after a failure of its device or of files. */
static int retries_of(const struct execution *execution, const struct run *run) {
    return execution->plan->tasks[run->task].operation->run.retries;
}

/* Pauses before another try: MIN_PAUSE_S after the first failure, twice as long after each further one, at most
 * MAX_PAUSE_S. STATUS_INTERRUPTED: a signal came. */
static enum status pause_after(int failures, struct error *error) {
    double until = now_s() + fmin(ldexp(MIN_PAUSE_S, failures - 1), MAX_PAUSE_S);
    while (now_s() < until) {
        struct timespec nap = {.tv_nsec = (long)(NAP_S * 1e9)};
        TRY(interrupt_check(error));
        nanosleep(&nap, NULL);
    }
    return interrupt_check(error);
}

void execution_close_devices(struct execution *execution, enum kernel_device kind) {
    struct team *team = &execution->teams[kind];
    while (team->count > 0) {
        struct device *device = team->devices[--team->count];
        residents_free(team->residents[team->count]);
        device->operations->close(device);
    }
}

/* Prints that a run is tried again. */
static void report_retry(struct execution *execution, const struct run *run, const char *why) {
    char name[320];
    execution_name_run(execution, run, name);
    progress_note(&execution->progress, "%s: try %d of %d failed and is repeated: %s", name,
                  execution->failures[run->number], retries_of(execution, run) + 1, why);
}

/* Prepares to retry `count` runs that have failed and hold nothing any more; returns what execution_retry_trials does.
 * Reports the retry, closes files and a failed device, abandons the trials that wait on a failed device, clears the
 * error and waits a moment. */
static enum status try_again(struct execution *execution, const struct run *const runs[], int count, int *again,
                             enum status status, struct error *error) {
    bool may = count > 0 && (status == STATUS_IO || status == STATUS_DEVICE);
    int max_failures = 0;
    for (int i = 0; i < count && may; i++) may = execution->failures[runs[i]->number] < retries_of(execution, runs[i]);
    if (!may) return status;
    for (int i = 0; i < count; i++) {
        int failures = ++execution->failures[runs[i]->number];
        report_retry(execution, runs[i], error->text);
        if (failures > max_failures) max_failures = failures;
    }
    *error = (struct error){.status = STATUS_OK};
    *again = runs[0]->number;
    if (status == STATUS_DEVICE) {
        if (execution->waiting > 0) *again = execution->trials[0].run->number;
        execution_abandon(execution);
        execution_close_devices(execution, runs[0]->device);
    }
    readers_close_before(&execution->readers, INT_MAX);
    readers_forgive(&execution->readers);
    results_forget_keys(execution->results); /* some may lack the hash of what could not be read */
    return pause_after(max_failures, error);
}

/* ---- time and keep ----------------------------------------------------------------------------------------------- */

/* Checks that the inputs have not changed, and hashes them for the part's key. Most were hashed while they were
 * read. */
static enum status settle_inputs(struct execution *execution, const struct task *task, struct error *error) {
    struct reader *readers = execution->readers.items;
    for (int i = 0; i < task->geometry.inputs; i++) TRY(reader_check(&readers[task->in[i]], error));
    return execution_hash_task(execution, (int)(task - execution->plan->tasks), error);
}

/* Keeps a timed trial as a part: completes its row, checks that its inputs have not changed, and frees the trial. */
static enum status keep_trial(struct execution *execution, struct trial *trial, struct error *error) {
    const struct run *run = trial->run;
    const struct task *task = &execution->plan->tasks[run->task];
    bool is_roof = run->kernel->is_roof, checked = strcmp(trial->row->verify, "none") != 0;
    if (!job_is_timed(&task->operation->run)) snprintf(trial->row->flags, sizeof trial->row->flags, FLAG_COLD);
    result_row_bound(trial->row, run->kernel, &task->geometry, execution->plan->facts[run->device].limits);
    const char *library = run->kernel->library ? run->kernel->library() : NULL;
    bool slow = library && strstr(library, "reference") == library; /* a weak baseline */
    const char *remark = run->note     ? run->note
                         : task->panel ? task->panel
                         : slow        ? "by the slow reference library"
                                       : "";
    execution_set_status(trial->row, checked ? "ok" : "unchecked", remark);
    if (is_roof)
        snprintf(trial->row->message, sizeof trial->row->message, ROOF_MESSAGE "not a %s",
                 operations[task->geometry.op]->name);
    execution_add_values(execution, task, trial->row);
    if (trial->times_measured > 1) {
        char again[32];
        snprintf(again, sizeof again, "measured %d times", trial->times_measured);
        execution_add_remark(trial->row, again);
    }
    if (execution->remark) execution_add_remark(trial->row, execution->remark);
    bool is_result = !is_roof && execution->result_run[run->task] < 0;
    TRY(settle_inputs(execution, task, error));
    struct part *part = trial->part;
    trial->part = NULL;
    TRY(unit_keep(part, trial->row, &trial->measurement.samples, error));
    /* A panel's array stands for the whole result, which is not on the device. */
    execution_release_trial(trial,
                            is_result && !task->panel && execution->plan->arrays[task->out].last_reader > run->task);
    return execution_conclude(execution, run, false, error);
}

enum status execution_retry_trials(struct execution *execution, int *again, enum status status, struct error *error) {
    const struct run *runs[MAX_TRIALS];
    int count = 0;
    for (int i = 0; i < execution->waiting; i++)
        if (execution->trials[i].run) runs[count++] = execution->trials[i].run;
    execution_abandon(execution);
    return try_again(execution, runs, count, again, status, error);
}

enum status execution_time_trials(struct execution *execution, int *again, struct error *error) {
    enum status status = execution_measure(execution, error);
    if (status) return execution_retry_trials(execution, again, status, error);
    for (int i = 0; i < execution->waiting; i++) {
        struct trial *trial = &execution->trials[i];
        const struct run *run = trial->run;
        if (trial->measurement.status == STATUS_OK) {
            status = keep_trial(execution, trial, error);
            if (!status) continue;
            execution_abandon(execution);
            return try_again(execution, &run, 1, again, status, error);
        }
        bool would_be_result = execution->result_run[run->task] < 0;
        status = trial->measurement.status;
        *error = trial->measurement.error;
        const char *word = trial->measurement.wrong ? "wrong" : "failed";
        execution_release_trial(trial, false);
        TRY(execution_settle_failure(execution, run, status, word, error));
        if (!would_be_result) continue;
        /* The later trials of the task have dropped their outputs, because this trial was to give the result. */
        *again = run->number + 1;
        break;
    }
    execution_abandon(execution);
    return STATUS_OK;
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

/* The name of an input of the task that has no result; NULL: all inputs exist. */
static const char *lacking_input(const struct execution *execution, const struct task *task) {
    const struct plan *plan = execution->plan;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer >= 0 && execution->result_run[producer] < 0 && !execution_awaits(execution, producer))
            return plan->arrays[task->in[i]].name;
    }
    return NULL;
}

static const char stopped[] = "an earlier run failed (on_error: stop)";

/* Why a run is not begun; NULL: it is begun. `text` has room for the reason. */
static const char *reason_to_skip(const struct execution *execution, const struct run *run, char text[256]) {
    if (run->skip) return run->skip;
    const char *lacks = lacking_input(execution, &execution->plan->tasks[run->task]);
    if (lacks) {
        snprintf(text, 256, "its input '%s' has no result", lacks);
        return text;
    }
    return execution->stop ? stopped : NULL;
}

bool execution_fits_beside(const struct execution *execution, const struct run *run) {
    const struct plan *plan = execution->plan;
    int64_t bytes = run->skip ? 0 : run->tiling.memory_bytes;
    if (execution->waiting == MAX_TRIALS) return false;
    for (int i = 0; i < execution->waiting; i++) {
        if (!run->skip && execution->trials[i].run->device != run->device) return false;
        bytes += execution->trials[i].tiling.memory_bytes;
    }
    return execution->waiting == 0 || run->skip || bytes <= plan->budget[run->device];
}

enum status execution_settle_run(struct execution *execution, const struct run *run, int *again, bool *settled,
                                 struct error *error) {
    struct result_row *row = &execution->rows[run->number];
    char name[320], why[256];
    *settled = true;
    execution_name_run(execution, run, name);
    atomic_store(&execution->final[run->number], false); /* the run may be a repeated one */
    if (!run->skip) progress_run(&execution->progress, run->number, name);
    trace_run(execution->trace, name);
    result_row_init(row, execution->plan, run);
    const char *skip = reason_to_skip(execution, run, why);
    bool may_be_kept = execution->options->resume && (!skip || skip == stopped);
    if (may_be_kept && store_find(execution->results, run, row)) {
        TRY(execution_time_trials(execution, again, error));
        *settled = *again >= 0 || !run->search || result_row_done(row); /* false: an earlier search has tried it */
        return *again >= 0 || !*settled ? STATUS_OK : execution_conclude(execution, run, true, error);
    }
    if (may_be_kept && execution_timed_out(execution, run, row)) return execution_conclude(execution, run, true, error);
    if (skip) return execution_set_status(row, "skipped", skip), execution_conclude(execution, run, false, error);
    *settled = false;
    return STATUS_OK;
}

enum status execution_begin_run(struct execution *execution, const struct run *run, int *again, struct error *error) {
    struct result_row *row = &execution->rows[run->number];
    char name[320], why[256];
    execution_name_run(execution, run, name);
    bool waited = false;
    enum status status = execution_await(execution, run, &waited, error);
    if (status) return execution_settle_failure(execution, run, status, "failed", error);
    const char *skip = reason_to_skip(execution, run, why);
    if (skip) return execution_set_status(row, "skipped", skip), execution_conclude(execution, run, false, error);
    if (waited) progress_run(&execution->progress, run->number, name);
    status = execution_begin_trial(execution, run, &execution->trials[execution->waiting], error);
    if (!status && !row->status[0]) return execution->waiting++, STATUS_OK;
    if (status && !(status = try_again(execution, &run, 1, again, status, error))) return STATUS_OK;
    if (status) return execution_settle_failure(execution, run, status, "failed", error);
    return execution_conclude(execution, run, false, error);
}
