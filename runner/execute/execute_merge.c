/* execute_merge.c - what became of a job: the rows of its runs from those of their units, which `merge` finds in the
 * parts that shards have made. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <stdlib.h>
#include <string.h>

enum status execution_collect(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    bool *missing = must_malloc((unsigned long)(plan->run_count + 1) * sizeof *missing);
    int lacks = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < plan->run_count && !status; i++) {
        status = interrupt_check(error);
        missing[i] = !status && !store_find_any(execution->results, &plan->runs[i], &execution->rows[i]);
        lacks += missing[i];
        if (!status && !missing[i]) atomic_store(&execution->final[i], true);
    }
    if (!status && lacks > 0) {
        progress_pause(&execution->progress); /* it prints lines */
        results_print_missing(execution->results, missing);
        progress_resume(&execution->progress);
        execution->incomplete = true;
        if (!execution->options->partial)
            status = fail(error, STATUS_IO,
                          "output %s: %d of %d runs are missing; with --partial merge publishes the others",
                          plan->job->output, lacks, plan->run_count);
    }
    if (!status && execution->options->later)
        status =
            fail(error, STATUS_IO,
                 "output %s: %s has begun another job since these shards; its parts would be lost: finish that job's "
                 "shards, or remove their folders",
                 plan->job->output, execution->options->later);
    free(missing);
    return status;
}

/* Does the task read a result that was not made? */
static bool lacks_input(const struct plan *plan, const struct task *task, const int *result_run) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer >= 0 && result_run[producer] < 0) return true;
    }
    return false;
}

/* A run that could not run at all does not make the job fail, but one that was left out after a failure does. */
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
            execution_say(row, "interrupted", "no shard has finished it, or all of its panels");
            continue;
        }
        bool limit = run->kernel && run->kernel->is_roof, skipped = strcmp(row->status, "skipped") == 0;
        if (!result_row_done(row))
            outcome.failed |= !skipped || lacks_input(whole, &whole->tasks[run->task], outcome.result_run);
        else if (!limit && outcome.result_run[run->task] < 0)
            outcome.result_run[run->task] = r;
    }
    return outcome;
}
