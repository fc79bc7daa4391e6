/* execute_merge.c - the outcome of a job: makes the rows of its runs from those of their units, which `merge` finds in
 * the parts of shards. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <string.h>

enum status execution_collect(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    OWNED bool *missing = must_malloc((unsigned long)(plan->run_count + 1) * sizeof *missing);
    int lacks = 0;
    for (int i = 0; i < plan->run_count; i++) {
        TRY(interrupt_check(error));
        missing[i] = !store_find(execution->results, &plan->runs[i], &execution->rows[i]);
        lacks += missing[i];
        if (!missing[i]) atomic_store(&execution->final[i], true);
    }
    const char *unreadable = execution->options->unreadable;
    execution->incomplete = lacks > 0 || unreadable;
    if (lacks > 0) {
        progress_pause(&execution->progress); /* it prints lines */
        results_print_missing(execution->results, missing);
        progress_resume(&execution->progress);
    }
    if (execution->incomplete && !execution->options->partial)
        return unreadable
                   ? fail(error, STATUS_IO, "%s; `merge --partial` publishes the other runs", unreadable)
                   : fail(error, STATUS_IO, "output %s: %d of %d runs are missing%s", plan->job->output, lacks,
                          plan->run_count, lacks < plan->run_count ? "; `merge --partial` publishes the others" : "");
    if (execution->options->later)
        return fail(error, STATUS_IO,
                    "output %s: %s belongs to another, later job, whose finished runs would be lost: finish that job's "
                    "shards, or remove their folders",
                    plan->job->output, execution->options->later);
    return STATUS_OK;
}

bool execution_lacks_result(const struct plan *plan, const struct task *task, const int *result_run) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer >= 0 && result_run[producer] < 0) return true;
    }
    return false;
}

/* A run that cannot run here does not make the job fail, but one that was skipped after a failure does. */
struct outcome execution_outcome(const struct execution *execution) {
    const struct plan *whole = execution->units->whole;
    struct outcome outcome = {.rows = must_malloc((unsigned long)whole->run_count * sizeof *outcome.rows + 1)};
    outcome.result_run = must_malloc((unsigned long)whole->task_count * sizeof *outcome.result_run + 1);
    for (int t = 0; t < whole->task_count; t++) outcome.result_run[t] = -1;
    for (int r = 0; r < whole->run_count; r++) {
        const struct run *run = &whole->runs[r];
        struct result_row *row = &outcome.rows[r];
        if (!results_run_row(execution->results, run, execution->rows, row)) {
            result_row_init(row, whole, run);
            execution_set_status(row, "interrupted", "no shard has finished it, or all of its panels");
            continue;
        }
        bool is_roof = run->kernel && run->kernel->is_roof, skipped = strcmp(row->status, "skipped") == 0;
        if (!result_row_done(row))
            outcome.failed |= !skipped || execution_lacks_result(whole, &whole->tasks[run->task], outcome.result_run);
        else if (!is_roof && outcome.result_run[run->task] < 0)
            outcome.result_run[run->task] = r;
    }
    return outcome;
}
