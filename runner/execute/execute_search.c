/* execute_search.c - the `search` of a variant: successive halving of the combinations of its parameters.
 *
 *     round 1    8 combinations, in a random order, each streamed, verified and timed with 3 samples
 *     round 2    the faster 4, with 6 samples
 *     round 3    the faster 2, with 12 samples
 *     winner     run like any other variant: streamed, verified, timed in full and kept
 *
 * Combinations are timed in turns. Those that fit into memory together stay there from round to round; others are
 * streamed and verified again. A combination that was tried leaves a part without output, so that `resume` need not try
 * it again; its status is "interrupted" until the winner is known, so that no other shard regards it as final. */
#include "execute_run.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/text.h"
#include "../plan/user_kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_SAMPLES 3
#define FIRST_SHARE   0.75 /* of the budget, for the first round */

struct search_candidate {
    const struct run *run;
    uint64_t order; /* candidates begin in the order of these numbers */
    bool begun;     /* in this search or an earlier one */
    bool finished;  /* it needs no trial in this round */
    double seconds; /* its time; INFINITY: not known yet; NaN: it has none */
};

struct variant_search {
    struct execution *execution;
    struct search_candidate *candidates; /* the fastest first, once a round is over */
    int count, remaining;                /* candidates, and those that no round has dropped */
    int tried;                           /* number of candidates that have begun */
    double begun_s, budget_s;
};

static struct result_row *row_of(const struct variant_search *search, const struct search_candidate *candidate) {
    return &search->execution->rows[candidate->run->number];
}

static bool is_final(const struct variant_search *search, const struct search_candidate *candidate) {
    return atomic_load(&search->execution->final[candidate->run->number]);
}

/* Has the search used up this share of its budget? It tries at least one candidate. */
static bool is_over(const struct variant_search *search, double share) {
    return search->tried > 0 && now_s() - search->begun_s > share * search->budget_s;
}

static int by_order(const void *one, const void *other) {
    const struct search_candidate *a = one, *b = other;
    return (a->order > b->order) - (a->order < b->order);
}

static int by_seconds(const void *one, const void *other) {
    const struct search_candidate *a = one, *b = other;
    if (isnan(a->seconds) || isnan(b->seconds)) return isnan(a->seconds) - isnan(b->seconds);
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* The trial of a run, if it waits; else NULL. */
static struct trial *trial_of(const struct variant_search *search, const struct run *run) {
    for (int i = 0; i < search->execution->waiting; i++)
        if (search->execution->trials[i].run == run) return &search->execution->trials[i];
    return NULL;
}

/* Releases a trial but leaves its place empty, because other trials cannot move. */
static void drop_trial(struct trial *trial) {
    if (!trial) return;
    execution_release_trial(trial, false);
    trial->timed = true; /* an empty place is not measured */
}

/* Sets the status of a candidate's row, and keeps the row for a later call. */
static enum status keep_status(const struct variant_search *search, const struct search_candidate *candidate,
                               const char *status, const char *message, struct error *error) {
    struct result_row *row = row_of(search, candidate);
    execution_set_status(row, status, message);
    return execution_keep_row(search->execution, candidate->run, row, error);
}

/* ---- a round ----------------------------------------------------------------------------------------------------- */

/* Takes the time of a candidate, whose trial waits, from its latest samples; settles its failure. */
static enum status settle_candidate(struct variant_search *search, struct search_candidate *candidate,
                                    struct trial *trial, struct error *error) {
    enum status status = trial->measurement.status;
    candidate->finished = true;
    candidate->seconds = status ? NAN : trial->row->kernel_median_s;
    if (!status) return keep_status(search, candidate, "interrupted", "search: tried", error);
    const char *word = trial->measurement.wrong ? "wrong" : "failed";
    *error = trial->measurement.error;
    drop_trial(trial);
    return execution_settle_failure(search->execution, candidate->run, status, word, error);
}

/* Times the candidates whose trials wait, with `samples` samples each, and settles them. If the measurement fails,
 * returns what execution_retry_trials does. */
static enum status time_candidates(struct variant_search *search, int64_t samples, struct error *error) {
    int again;
    enum status status = execution_measure_briefly(search->execution, samples, error);
    if (status) return execution_retry_trials(search->execution, &again, status, error);
    for (int i = 0; i < search->remaining; i++) {
        struct trial *trial = trial_of(search, search->candidates[i].run);
        if (trial) TRY(settle_candidate(search, &search->candidates[i], trial, error));
    }
    return STATUS_OK;
}

/* Builds, streams and verifies a candidate, which then waits to be timed, unless its row is final. STATUS_MEMORY: the
 * candidates that wait should be timed first. */
static enum status begin_candidate(struct variant_search *search, struct search_candidate *candidate,
                                   struct error *error) {
    struct execution *execution = search->execution;
    const struct run *run = candidate->run;
    int again, capability = execution->plan->facts[run->device].compute_capability;
    char name[320];
    search->tried += !candidate->begun;
    candidate->begun = true;
    candidate->seconds = INFINITY; /* no time yet */
    execution_name_run(execution, run, name);
    progress_run(&execution->progress, run->number, name);
    result_row_init(row_of(search, candidate), execution->plan, run);
    enum status status = run->kernel->user_kernel ? user_kernel_build(run->kernel, capability, NULL, error) : STATUS_OK;
    if (status == STATUS_USAGE) return execution_settle_failure(execution, run, STATUS_RUN, "failed", error);
    TRY(status);
    return execution_begin_run(execution, run, &again, error);
}

/* The first candidate that must begin in this round; NULL: no candidate must. */
static struct search_candidate *find_next(const struct variant_search *search) {
    for (int i = 0; i < search->remaining; i++) {
        struct search_candidate *candidate = &search->candidates[i];
        if (!candidate->finished && !is_final(search, candidate) && !trial_of(search, candidate->run)) return candidate;
    }
    return NULL;
}

/* Times all remaining candidates with `samples` samples each. Candidates for which the first round's budget does
 * not suffice stay untried. */
static enum status time_round(struct variant_search *search, int64_t samples, struct error *error) {
    struct execution *execution = search->execution;
    for (;;) {
        struct search_candidate *next = find_next(search);
        if (next && samples == FIRST_SAMPLES && is_over(search, FIRST_SHARE)) {
            next->finished = true;
            continue;
        }
        enum status status = STATUS_MEMORY;
        if (next && execution_fits_beside(execution, next->run)) status = begin_candidate(search, next, error);
        if (next && status == STATUS_OK) continue;
        if (status != STATUS_MEMORY) return status;
        *error = (struct error){.status = STATUS_OK};
        TRY(time_candidates(search, samples, error));
        if (!find_next(search)) return STATUS_OK;
        execution_abandon(execution);
    }
}

/* Ranks the candidates, and drops the slower half and those without a time. */
static void drop_slower(struct variant_search *search) {
    int timed = 0;
    for (int i = 0; i < search->remaining; i++) {
        struct search_candidate *candidate = &search->candidates[i];
        bool failed = is_final(search, candidate) && !result_row_done(row_of(search, candidate));
        if (failed || isinf(candidate->seconds)) candidate->seconds = NAN;
        timed += !isnan(candidate->seconds);
    }
    qsort(search->candidates, (size_t)search->remaining, sizeof *search->candidates, by_seconds);
    for (int i = (timed + 1) / 2; i < search->remaining; i++) drop_trial(trial_of(search, search->candidates[i].run));
    search->remaining = (timed + 1) / 2;
}

/* Times rounds, and halves the candidates after each, until one remains or the budget is used up. */
static enum status halve(struct variant_search *search, struct error *error) {
    const struct run_options *options = &search->execution->plan->tasks[search->candidates[0].run->task].operation->run;
    for (int64_t samples = FIRST_SAMPLES;; samples *= 2) {
        TRY(time_round(search, samples < options->repeat_max ? samples : options->repeat_max, error));
        drop_slower(search);
        if (search->remaining <= 1 || is_over(search, 1)) return STATUS_OK;
        for (int i = 0; i < search->remaining; i++)
            search->candidates[i].finished = is_final(search, &search->candidates[i]);
    }
}

/* ---- the winner -------------------------------------------------------------------------------------------------- */

/* Runs the candidates, the fastest first, until one gives a result. *winner NULL: no candidate did. */
static enum status choose_winner(struct variant_search *search, const struct search_candidate **winner,
                                 struct error *error) {
    struct execution *execution = search->execution;
    OWNED char *remark = must_printf("search: the fastest of %d combinations", search->tried);
    enum status status = STATUS_OK;
    *winner = NULL;
    execution->remark = search->tried > 0 ? remark : NULL;
    for (int i = 0; i < search->count && !*winner && !status; i++) {
        struct search_candidate *candidate = &search->candidates[i];
        const struct run *run = candidate->run;
        for (int again = run->number; again == run->number && !status && !is_final(search, candidate);) {
            again = -1;
            if (isnan(candidate->seconds)) break;
            status = begin_candidate(search, candidate, error);
            if (!status && execution->waiting > 0) status = execution_time_trials(execution, &again, error);
        }
        if (is_final(search, candidate) && result_row_done(row_of(search, candidate))) *winner = candidate;
    }
    execution->remark = NULL;
    return status;
}

/* Prints how many combinations were tried, and which is the fastest. `winner` NULL: none gave a result. */
static void report_winner(const struct variant_search *search, const struct search_candidate *winner) {
    struct execution *execution = search->execution;
    char name[320], time[32] = "", took[32];
    execution_name_run(execution, winner ? winner->run : search->candidates[0].run, name);
    double seconds = winner ? row_of(search, winner)->kernel_median_s : NAN;
    if (!isnan(seconds)) snprintf(time, sizeof time, ", %.4g ms", seconds * 1e3);
    duration_text(now_s() - search->begun_s, took);
    if (winner)
        progress_note(&execution->progress, "search of %d of %d combinations in %s: %s is the fastest%s", search->tried,
                      search->count, took, name, time);
    else
        progress_note(&execution->progress, "search of %d of %d combinations, from %s on: none gave a result",
                      search->tried, search->count, name);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Collects the runs of the search that are not skipped, and the findings of an earlier search. *known: that search was
 * complete. */
static enum status collect_candidates(struct variant_search *search, const struct run *first, int count, bool *known,
                                      struct error *error) {
    struct execution *execution = search->execution;
    bool done = false, all = true, timed = job_is_timed(&execution->plan->tasks[first->task].operation->run);
    uint64_t seed = (uint64_t)first->variant->search.seed;
    for (int i = 0; i < count; i++) {
        struct search_candidate candidate = {.run = &first[i], .seconds = NAN, .order = (uint64_t)i};
        const struct result_row *row = row_of(search, &candidate);
        bool settled;
        int again = -1;
        TRY(execution_settle_run(execution, &first[i], &again, &settled, error));
        if (settled && !result_row_done(row)) continue; /* it cannot run */
        candidate.finished = candidate.begun = !isnan(row->kernel_median_s);
        candidate.seconds = row->kernel_median_s;
        search->tried += candidate.finished;
        done |= settled;
        all &= settled || row->status[0];
        if (timed) candidate.order = XXH3_64bits_withSeed(first[i].label, strlen(first[i].label), seed);
        search->candidates[search->remaining++] = candidate;
    }
    search->count = search->remaining;
    *known = done && all;
    qsort(search->candidates, (size_t)search->count, sizeof *search->candidates, by_order);
    if (!timed)
        for (int i = 0; i < search->count; i++) search->candidates[i].seconds = i; /* the first right one wins */
    return STATUS_OK;
}

/* Settles the candidates that did not win as skipped. `known`: an earlier search has found that. */
static enum status conclude_rest(struct variant_search *search, bool known, struct error *error) {
    for (int i = 0; i < search->count; i++) {
        struct search_candidate *candidate = &search->candidates[i];
        if (is_final(search, candidate)) continue;
        execution_set_status(row_of(search, candidate), "skipped",
                             candidate->begun ? "search: slower" : "search: not tried");
        TRY(execution_conclude(search->execution, candidate->run, known, error));
    }
    return STATUS_OK;
}

/* Searches, unless an earlier search has found the winner. An untimed job takes the first right combination. */
static enum status search_runs(struct variant_search *search, const struct run *first, int count, struct error *error) {
    bool known, timed = job_is_timed(&search->execution->plan->tasks[first->task].operation->run);
    TRY(collect_candidates(search, first, count, &known, error));
    if (known || search->count == 0) return conclude_rest(search, true, error);
    const struct search_candidate *winner;
    if (timed) TRY(halve(search, error));
    execution_abandon(search->execution);
    TRY(choose_winner(search, &winner, error));
    if (timed) report_winner(search, winner);
    return conclude_rest(search, false, error);
}

enum status execution_search(struct execution *execution, const struct run *first, int *count, struct error *error) {
    const struct task *task = &execution->plan->tasks[first->task];
    int max_count = task->first_run + task->run_count - first->number;
    for (*count = 1; *count < max_count && first[*count].search == first->search;) ++*count;
    OWNED struct search_candidate *candidates = must_zeroed((size_t)*count * sizeof *candidates);
    struct variant_search search = {.execution = execution,
                                    .candidates = candidates,
                                    .begun_s = now_s(),
                                    .budget_s = first->variant->search.budget_s};
    return search_runs(&search, first, *count, error);
}
