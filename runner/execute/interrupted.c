/* interrupted.c - after a signal: how many runs are done, and what is left to do. */
#include "execute_run.h"

#include "../base/fail.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Marks the tasks that have a result, or had one before. */
static bool *find_results(const struct plan *plan, const struct result_row *rows, const bool *kept) {
    bool *has_result = must_malloc((unsigned long)plan->task_count * sizeof *has_result + 1);
    for (int i = 0; i < plan->task_count; i++) has_result[i] = false;
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        bool is_roof = run->kernel && run->kernel->is_roof;
        if (!is_roof && (result_row_done(&rows[i]) || kept[i])) has_result[run->task] = true;
    }
    return has_result;
}

static bool waits(const struct plan *plan, const struct task *task, const bool *has_result) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer >= 0 && !has_result[producer]) return true;
    }
    return false;
}

/* Appends "3 failed", after ": " or ", "; nothing if there are none. */
static void count(FILE *to, int number, const char *words, const char **before) {
    if (number > 0) fprintf(to, "%s%d %s", *before, number, words), *before = ", ";
}

char *execution_summary(const struct plan *plan, const struct result_row *rows, const bool *kept, const char *go_on) {
    int own = 0, done = 0, left = 0, waiting = 0, failed = 0, wrong = 0, skipped = 0;
    const struct result_row *first = NULL;
    bool *has_result = find_results(plan, rows, kept);
    for (int i = 0; i < plan->run_count; i++) {
        const char *status = rows[i].status;
        own += status[0] != '\0';
        if (!status[0]) continue;
        if (result_row_done(&rows[i]) || kept[i])
            done++;
        else if (strcmp(status, "interrupted") == 0) {
            if (!first) first = &rows[i];
            left++;
            waiting += waits(plan, &plan->tasks[plan->runs[i].task], has_result);
        } else if (strcmp(status, "failed") == 0)
            failed++;
        else if (strcmp(status, "wrong") == 0)
            wrong++;
        else
            skipped++;
    }
    free(has_result);
    char *text = NULL;
    size_t length;
    FILE *to = must_stream(&text, &length);
    fprintf(to, "tilerun: interrupted: %d of %d runs are done%s\n", done, own, go_on);
    if (first) {
        fprintf(to, "tilerun: left: %d run%s, %s'%s %s%s%s'", left, left == 1 ? "" : "s", left == 1 ? "" : "from ",
                first->operation, first->variant, first->parameters[0] ? " " : "", first->parameters);
        if (left > 1) fputs(" on", to);
        const char *comma = ", ";
        count(to, waiting,
              waiting == 1 ? "of which reads a result that is not there yet"
                           : "of which read results that are not there yet",
              &comma);
        fputc('\n', to);
    }
    const char *before = "tilerun: besides: ";
    count(to, failed, "failed", &before);
    count(to, wrong, wrong == 1 ? "was wrong" : "were wrong", &before);
    count(to, skipped, skipped == 1 ? "was skipped" : "were skipped", &before);
    if (failed + wrong + skipped > 0) fputc('\n', to);
    fclose(to);
    return text;
}
