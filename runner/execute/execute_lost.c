/* execute_lost.c - finds and reports runs that are lost because an input cannot be read. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/text.h"
#include <string.h>

bool execution_is_unreadable(const struct execution *execution, enum status status, const struct error *error) {
    for (int i = 0; i < execution->readers.count && status == STATUS_IO; i++) {
        const char *unreadable = execution->readers.items[i].unreadable;
        if (unreadable && strcmp(unreadable, error->text) == 0) return true;
    }
    return false;
}

/* "--only ra,rc": the operations with complete results; NULL: there are none, or too many for a line. The caller
 * frees. */
static char *only_whole(const struct execution *execution) {
    const struct plan *plan = execution->plan;
    OWNED char *ids = must_strdup("");
    for (int t = 0; t < plan->task_count;) {
        const struct job_operation *operation = plan->tasks[t].operation;
        bool complete = true, first = t == 0 || strcmp(plan->tasks[t - 1].operation->id, operation->id) != 0;
        for (; t < plan->task_count && strcmp(plan->tasks[t].operation->id, operation->id) == 0; t++)
            complete &= execution->result_run[t] >= 0;
        if (complete && first) must_append(&ids, "%s%s", *ids ? "," : "", operation->id);
    }
    return *ids && strlen(ids) < 200 ? must_printf("--only %s", ids) : NULL;
}

const char *execution_unreadable(const struct execution *execution) {
    const char *why = NULL;
    for (int i = execution->readers.count - 1; i >= 0; i--)
        if (execution->readers.items[i].unreadable) why = execution->readers.items[i].unreadable;
    return why ? why : execution->options->unreadable;
}

enum status execution_report_lost(const struct execution *execution, struct error *error) {
    OWNED char *output = text_shell_word(execution->units->whole->job->output);
    const char *left_out = execution->options->merge ? NULL : execution->options->unreadable;
    if (execution->lost == 0 && left_out)
        return fail(error, STATUS_IO,
                    "%s; the other operations of this shard are done and kept. Once the input can be read, --resume "
                    "does the missing operations; `tilerun merge %s --partial` publishes the finished ones",
                    left_out, output);
    if (execution->lost == 0) return STATUS_OK;
    int missing = 0, runs = 0;
    for (int i = 0; i < execution->plan->run_count; i++) {
        const struct run *run = &execution->plan->runs[i];
        if (!shard_has(execution->options->shard, run->task)) continue;
        runs++;
        missing += !run->skip && !result_row_done(&execution->rows[i]);
    }
    if (missing == runs) return fail(error, STATUS_IO, "%s", execution_unreadable(execution));
    OWNED char *only = only_whole(execution);
    OWNED char *rest = execution->options->shard
                           ? must_printf("; `tilerun merge %s --partial` publishes the finished runs", output)
                       : only ? must_printf("; `--resume %s` publishes the finished runs", only)
                              : must_strdup("");
    return fail(
        error, STATUS_IO,
        "%s: %d of %d runs are missing, the others are kept; once the input can be read, --resume does the missing "
        "runs%s",
        execution_unreadable(execution), missing, runs, rest);
}
