/* execute_wait.c - what a shard needs of others: the hashes of what their results were made from, and the results. */
#include "execute_run.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

/* A wait looks again when it has lasted this much longer, but not sooner and not later than so many seconds: thousands
 * of shards may look at one file system. */
#define LOOK_SHARE 0.1
#define LOOK_LEAST 0.05
#define LOOK_MOST  5.0
#define NAP_S      0.1  /* a signal is answered within this */
#define TELL_S     60.0 /* whether the other shard is at work is looked at anew so often */

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

enum status execution_hash_task(struct execution *execution, int number, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct task *task = &plan->tasks[number];
    struct reader *of = execution->readers.of;
    if (execution->hashed[number]) return STATUS_OK;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer < 0) TRY(reader_hash(&of[task->in[i]], error));
        for (int p = producer, end = producer < 0 ? p : plan_producers_end(plan, producer); p < end; p++) {
            const struct task *panel = &plan->tasks[p];
            TRY(execution_hash_task(execution, p, error));
            for (int k = 0; k < panel->geometry.inputs && panel->panel; k++) /* the whole has a key too */
                TRY(reader_hash(&of[plan_whole_input(plan, panel->in[k])], error));
        }
    }
    execution->hashed[number] = true;
    return STATUS_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Is the result in several parts, or made by other shards? */
static bool is_made_elsewhere(const struct execution *execution, int producer) {
    return execution->plan->tasks[producer].panel || !shard_has(execution->options->shard, producer);
}

bool execution_awaits(const struct execution *execution, int producer) {
    return is_made_elsewhere(execution, producer) && !execution->awaited[producer];
}

/* " (node n7, job 12_1)"; nothing if it has not begun. */
static char *words_of_place(const char *place) {
    return place ? must_printf(" (%s)", place) : must_strdup("");
}

/* Tells the progress display what is waited for. */
static void tell(struct execution *execution, const struct awaited *awaited) {
    bool at_work;
    char *name = awaited_name(awaited), *place = awaited_place(awaited, &at_work), *where = words_of_place(place);
    char *text = must_printf("waits for %s of shard %d of %d%s%s", name, awaited_shard(awaited),
                             execution->options->shard->count, where,
                             !place    ? ", which has not begun"
                             : at_work ? ""
                                       : ", which seems not to be at work");
    progress_wait(&execution->progress, text);
    free(text);
    free(where);
    free(place);
    free(name);
}

/* Says why the shard ends without the result. */
static enum status give_up(struct execution *execution, const struct awaited *awaited, struct error *error) {
    const struct shard *shard = execution->options->shard;
    bool at_work;
    int maker = awaited_shard(awaited);
    char *name = awaited_name(awaited), *place = awaited_place(awaited, &at_work), *where = words_of_place(place);
    char *text = must_printf(
        "shard %d of %d has waited %g s (--wait) for %s, which shard %d of %d makes; that %s%s. %s, then shard %d once "
        "more with --resume",
        shard->index, shard->count, execution->options->wait_s, name, maker, shard->count,
        !place    ? "has not begun"
        : at_work ? "is at work"
                  : "seems not to be at work, and was",
        where,
        !place    ? "Run it"
        : at_work ? "Let it end"
                  : "Run it with --resume",
        shard->index);
    progress_note(&execution->progress, text);
    execution->stop_reason = "the time limit of --wait came first";
    free(text);
    free(where);
    free(place);
    free(name);
    return fail(error, STATUS_INTERRUPTED, "waited too long");
}

/* A nap of so many seconds, from which a signal wakes. */
static enum status rest(double seconds, struct error *error) {
    for (double until = now_s() + seconds, left; (left = fmin(until - now_s(), NAP_S)) > 0;) {
        struct timespec nap = {.tv_nsec = (long)(left * 1e9)};
        nanosleep(&nap, NULL);
        TRY(interrupt_check(error));
    }
    return interrupt_check(error);
}

static enum status lost_own(const struct awaited *awaited, struct error *error) {
    char *name = awaited_name(awaited);
    fail(error, STATUS_IO, "the part of %s, which this shard made, is gone or damaged; --resume makes it again", name);
    free(name);
    return STATUS_IO;
}

static enum status wait_for(struct execution *execution, struct awaited *awaited, int *result_run, bool *waited,
                            struct error *error) {
    const struct execute_options *options = execution->options;
    double begun = now_s(), passed = 0, told = 0;
    for (int maker = -1; !awaited_look(awaited, result_run); passed = now_s() - begun) {
        int missing = awaited_shard(awaited);
        if (missing == options->shard->index) return lost_own(awaited, error);
        if (passed >= options->wait_s) return give_up(execution, awaited, error);
        if (missing != maker || passed >= told + TELL_S) {
            tell(execution, awaited);
            *waited = true;
            maker = missing;
            told = passed;
        }
        double pause = fmin(fmax(LOOK_SHARE * passed, LOOK_LEAST), LOOK_MOST);
        TRY(rest(fmin(pause, options->wait_s - passed), error));
    }
    return STATUS_OK;
}

enum status execution_await(struct execution *execution, const struct run *run, bool *waited, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct task *task = &plan->tasks[run->task];
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        if (producer < 0 || !execution_awaits(execution, producer)) continue;
        TRY(execution_hash_task(execution, run->task, error));
        struct awaited *awaited = awaited_begin(execution->results, producer);
        enum status status = wait_for(execution, awaited, &execution->result_run[producer], waited, error);
        awaited_end(awaited);
        TRY(status);
        execution->awaited[producer] = true;
    }
    return STATUS_OK;
}
