/* execute_merge.c - instead of doing the runs of a job: takes what shards have made of them. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <stdlib.h>
#include <string.h>

/* What follows from a run's row. A run that could not run at all does not make the job fail, but one that was left out
 * after a failure does. */
static void take_row(struct execution *execution, const struct run *run) {
    const struct result_row *row = &execution->rows[run->number];
    int *result_run = &execution->result_run[run->task];
    bool skipped = strcmp(row->status, "skipped") == 0, is_roof = run->kernel && run->kernel->is_roof;
    if (result_row_done(row)) {
        if (!is_roof && *result_run < 0) *result_run = run->number;
    } else if (!skipped || execution_lacks(execution, &execution->plan->tasks[run->task])) {
        execution->failed = true;
    }
    atomic_store(&execution->final[run->number], true);
}

enum status execution_collect(struct execution *execution, struct error *error) {
    const struct plan *plan = execution->plan;
    bool *missing = must_malloc((unsigned long)(plan->run_count + 1) * sizeof *missing);
    int lacks = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < plan->run_count && !status; i++) {
        const struct run *run = &plan->runs[i];
        status = interrupt_check(error);
        missing[i] = !status && !results_find_row(execution->results, run, &execution->rows[i]);
        lacks += missing[i];
        if (!status && !missing[i]) take_row(execution, run);
    }
    if (!status && lacks > 0) {
        progress_pause(&execution->progress); /* it prints lines */
        status = results_lack(execution->results, missing, error);
        progress_resume(&execution->progress);
    } else if (!status && execution->options->later) {
        status =
            fail(error, STATUS_IO,
                 "output %s: %s has begun another job since these shards; its parts would be lost: finish that job's "
                 "shards, or remove their folders",
                 plan->job->output, execution->options->later);
    }
    free(missing);
    return status;
}
