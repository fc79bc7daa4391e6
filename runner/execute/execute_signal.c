/* execute_signal.c - after a signal: prints the rows as they are, how many runs are done, and how to continue. */
#include "execute_run.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/process.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void acknowledge_signal(void *context, int number) {
    struct execution *execution = context;
    progress_announce_signal(&execution->progress, number);
}

/* Replaces the rows of units by rows of the whole job, in the same array, and returns their number. The row of a run
 * that is divided into panels states how many of them are done. */
static int join_rows(const struct execution *execution, struct result_row *rows, const bool *kept) {
    const struct plan *whole = execution->units->whole;
    for (int r = 0; r < whole->run_count; r++) { /* a run's units never come before the run itself */
        int count, stride, done = 0;
        const struct run *first = units_of_run(execution->units, &whole->runs[r], &count, &stride);
        for (int p = 0; p < count; p++) {
            int unit = first[p * stride].number;
            done += result_row_done(&rows[unit]) || kept[unit];
        }
        if (count == 1) {
            rows[r] = rows[first->number];
        } else {
            OWNED char *panels = must_printf("%d of %d panels are done and kept", done, count);
            result_row_init(&rows[r], whole, &whole->runs[r]);
            execution_set_status(&rows[r], "interrupted", panels);
        }
        rows[r].run = r;
    }
    return whole->run_count;
}

/* Returns for each task the last run that gave a result, in this call or an earlier one; -1: none did. The caller
 * frees. */
static int *find_results(const struct plan *plan, const struct result_row *rows, const bool *kept) {
    int *result_run = must_malloc((unsigned long)plan->task_count * sizeof *result_run + 1);
    for (int i = 0; i < plan->task_count; i++) result_run[i] = -1;
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        bool is_roof = run->kernel && run->kernel->is_roof;
        if (!is_roof && (result_row_done(&rows[i]) || kept[i])) result_run[run->task] = i;
    }
    return result_run;
}

/* Lines for the user after a signal: how many runs are done (a row without a status belongs to another shard), which
 * remain ("interrupted"), how many of these read a result that does not exist, and how many failed. `kept`: for each
 * run, whether its part exists although its row is "interrupted". `go_on`: how to continue. The caller frees. */
static char *summarize(const struct plan *plan, const struct result_row *rows, const bool *kept, const char *go_on) {
    struct {
        const char *status, *words;
        int count;
    } others[] = {
        {"failed", "failed", 0}, {"timeout", "timed out", 0}, {"wrong", "wrong", 0}, {"skipped", "skipped", 0}};
    enum { OTHERS = sizeof others / sizeof *others };
    int shard_runs = 0, done = 0, remaining = 0, lacking = 0;
    const struct result_row *first = NULL; /* of those that remain */
    OWNED int *result_run = find_results(plan, rows, kept);
    for (int i = 0; i < plan->run_count; i++) {
        const char *status = rows[i].status;
        if (!status[0]) continue;
        bool is_done = result_row_done(&rows[i]) || kept[i], remains = !is_done && strcmp(status, "interrupted") == 0;
        shard_runs++;
        done += is_done;
        if (remains && !first) first = &rows[i];
        remaining += remains;
        lacking += remains && execution_lacks_result(plan, &plan->tasks[plan->runs[i].task], result_run);
        for (int k = 0; k < OTHERS && !is_done; k++) others[k].count += strcmp(status, others[k].status) == 0;
    }
    char *text = must_printf("tilerun: interrupted: %d of %d runs are done%s\n", done, shard_runs, go_on);
    if (first)
        must_append(&text, "tilerun: %d run%s, %s'%s %s%s%s'%s", remaining, remaining == 1 ? " remains" : "s remain",
                    remaining == 1 ? "" : "from ", first->operation, first->variant, first->parameters[0] ? " " : "",
                    first->parameters, remaining == 1 ? "" : " on");
    if (lacking > 0)
        must_append(&text, "; %d read%s", lacking,
                    lacking == 1 ? "s a result that does not exist yet" : " results that do not exist yet");
    if (first) must_append(&text, "\n");
    const char *before = "tilerun: other runs: ";
    for (int k = 0; k < OTHERS; k++)
        if (others[k].count > 0) must_append(&text, "%s%d %s", before, others[k].count, others[k].words), before = ", ";
    if (*before == ',') must_append(&text, "\n");
    return text;
}

/* Fills a row for each run of the shard, or of the job, as the run is now, and `kept`: for each run, whether its part
 * exists although its row is "interrupted". `hanging`: the run that does not stop at its timeout; -1: no run hangs. */
static void fill_rows(const struct execution *execution, int hanging, struct result_row *rows, bool *kept) {
    const struct plan *plan = execution->plan;
    const bool *seen = atomic_load(&execution->looked) ? results_seen(execution->results) : NULL;
    const char *reason = hanging < 0 ? execution->stop_reason : "an earlier run could not be stopped at its timeout";
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
        if (i == hanging)
            execution_set_timeout(execution, run, &rows[i]);
        else if (run->skip)
            execution_set_status(&rows[i], "skipped", run->skip);
        else
            execution_set_status(&rows[i], "interrupted",
                                 kept[i] ? "finished before and kept; a signal came first" : reason);
    }
}

/* "; `tilerun run --resume ...` continues", or nothing if no later call can continue the job. Names the shard in the
 * stead of `auto`, which only a batch system resolves. The caller frees. */
static char *how_to_continue(const struct execute_options *options) {
    static const char run_words[] = "tilerun run"; /* --resume follows them, because -- may precede the job */
    if (options->merge) return must_strdup("; the same command continues");
    if (options->single) return must_strdup("");
    static const char *const autos[] = {" --shard auto", " --shard=auto"};
    const char *resume = options->resume ? "" : " --resume", *rest = options->command_line + sizeof run_words - 1;
    const size_t length = strlen(autos[0]);
    for (int i = 0; options->shard && i < 2; i++) {
        const char *at = strstr(rest, autos[i]);
        if (at && (at[length] == ' ' || !at[length]))
            return must_printf("; `%s%s%.*s --shard %d/%d%s` continues", run_words, resume, (int)(at - rest), rest,
                               options->shard->index, options->shard->count, at + length);
    }
    return must_printf("; `%s%s%s` continues", run_words, resume, rest);
}

/* Notes that the run's launch does not stop at its timeout, and returns a line that reports it. The caller frees. */
static char *note_hanging(const struct execution *execution, const struct run *run) {
    char name[320];
    execution_name_run(execution, run, name);
    store_note_timeout(execution->results, run, execution->plan->tasks[run->task].operation->run.timeout_s);
    return must_printf("tilerun: %s does not stop at its timeout; the process ends to stop it%s\n", name,
                       execution->options->single ? "" : ", and --resume continues with the others");
}

/* Ends the job after a signal, or at the deadline of a run that does not stop at its timeout: releases the lock on the
 * output, and prints the rows, the hanging run and how many runs are done. Other threads may still change rows that are
 * not final, so it prints new rows in their stead. */
static void end_after_signal(void *context) {
    const struct execution *execution = context;
    const struct plan *plan = execution->plan;
    OWNED struct result_row *rows = must_malloc((unsigned long)plan->run_count * sizeof *rows + 1);
    OWNED bool *kept = must_malloc((unsigned long)plan->run_count * sizeof *kept + 1);
    OWNED char *table = NULL, *hung = NULL;
    int hanging = interrupt_by_deadline() ? atomic_load(&execution->clocked) : -1;
    if (hanging >= 0) hung = note_hanging(execution, &plan->runs[hanging]);
    store_leave(execution->results);
    fill_rows(execution, hanging, rows, kept);
    OWNED char *go_on = how_to_continue(execution->options);
    OWNED char *sentences = summarize(plan, rows, kept, go_on);
    FILE *to = must_stream(&table);
    int count = execution->options->shard ? result_rows_own(rows, plan->run_count) : join_rows(execution, rows, kept);
    execution->options->print(rows, count, to);
    fclose(to);
    interrupt_write(process_results_descriptor(), table);
    if (hung) interrupt_write(STDERR_FILENO, hung);
    interrupt_write(STDERR_FILENO, sentences);
}

void execution_watch_signals(struct execution *execution) {
    interrupt_set_handlers(acknowledge_signal, end_after_signal, execution);
}
