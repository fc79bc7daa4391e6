/* interrupted.c - counts, for the lines printed after a signal, the runs that are done and those that remain. */
#include "execute_run.h"

#include "../base/fail.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For each task the last run that gave a result, in this call or an earlier one; -1: none did. The caller frees. */
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

/* Prints *before and "3 failed", and sets *before to the separator ", ". Prints nothing if the count is 0. */
static void print_count(FILE *to, int count, const char *what, const char **before) {
    if (count > 0) fprintf(to, "%s%d %s", *before, count, what), *before = ", ";
}

char *execution_summary(const struct plan *plan, const struct result_row *rows, const bool *kept, const char *go_on) {
    int own = 0, done = 0, remaining = 0, lacking = 0, failed = 0, timed_out = 0, wrong = 0, skipped = 0;
    const struct result_row *first = NULL;
    int *result_run = find_results(plan, rows, kept);
    for (int i = 0; i < plan->run_count; i++) {
        const char *status = rows[i].status;
        own += status[0] != '\0';
        if (!status[0]) continue;
        if (result_row_done(&rows[i]) || kept[i])
            done++;
        else if (strcmp(status, "interrupted") == 0) {
            if (!first) first = &rows[i];
            remaining++;
            lacking += execution_lacks_result(plan, &plan->tasks[plan->runs[i].task], result_run);
        } else if (strcmp(status, "failed") == 0)
            failed++;
        else if (strcmp(status, "timeout") == 0)
            timed_out++;
        else if (strcmp(status, "wrong") == 0)
            wrong++;
        else
            skipped++;
    }
    free(result_run);
    char *text;
    FILE *to = must_stream(&text);
    fprintf(to, "tilerun: interrupted: %d of %d runs are done%s\n", done, own, go_on);
    if (first) {
        fprintf(to, "tilerun: %d run%s, %s'%s %s%s%s'%s", remaining, remaining == 1 ? " remains" : "s remain",
                remaining == 1 ? "" : "from ", first->operation, first->variant, first->parameters[0] ? " " : "",
                first->parameters, remaining == 1 ? "" : " on");
        const char *before = "; ";
        print_count(to, lacking,
                    lacking == 1 ? "reads a result that does not exist yet" : "read results that do not exist yet",
                    &before);
        fputc('\n', to);
    }
    const char *before = "tilerun: other runs: ";
    print_count(to, failed, "failed", &before);
    print_count(to, timed_out, "timed out", &before);
    print_count(to, wrong, "wrong", &before);
    print_count(to, skipped, "skipped", &before);
    if (failed + timed_out + wrong + skipped > 0) fputc('\n', to);
    fclose(to);
    return text;
}
