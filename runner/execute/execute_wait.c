/* execute_wait.c - waits for the results of other shards, and hashes the inputs from which they are made. */
#include "execute_run.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../store/await.h"
#include <math.h>
#include <string.h>
#include <time.h>

/* A shard that waits polls at intervals of POLL_SHARE of the time waited so far, within these bounds in seconds:
 * thousands of shards may poll one file system. */
#define POLL_SHARE 0.1
#define MIN_POLL_S 0.05
#define MAX_POLL_S 5.0
#define NAP_S      0.1  /* the longest delay of a signal */
#define CHECK_S    60.0 /* interval of checks whether the other shard is running, and time for its next call to begin */

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

enum status execution_hash_task(struct execution *execution, int number, struct error *error) {
    const struct plan *plan = execution->plan;
    const struct task *task = &plan->tasks[number];
    struct readers *readers = &execution->readers;
    if (execution->hashed[number]) return STATUS_OK;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        const char *lost = readers->items[task->in[i]].unreadable;
        if (lost) return fail(error, STATUS_IO, "%s", lost);
        if (producer < 0) TRY(readers_hash(readers, task->in[i], error));
        if (producer < 0) continue;
        for (int p = producer, end = plan_producers_end(plan, producer); p < end; p++)
            TRY(execution_hash_task(execution, p, error));
        const struct task *made = &plan->tasks[producer];
        for (int k = 0; k < made->geometry.inputs; k++) { /* the key of the undivided task needs complete inputs */
            const struct array *whole = plan->arrays[made->in[k]].band.input;
            if (whole) TRY(readers_hash(readers, (int)(whole - plan->arrays), error));
        }
    }
    execution->hashed[number] = true;
    return STATUS_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Must the result be looked for in parts: is it in several parts, or made by another shard? */
static bool is_made_elsewhere(const struct execution *execution, int producer) {
    return execution->plan->tasks[producer].panel || !shard_has(execution->options->shard, producer);
}

bool execution_awaits(const struct execution *execution, int producer) {
    return is_made_elsewhere(execution, producer) && !execution->awaited[producer];
}

/* " (node n7, job 12_1)"; "" if the shard has not begun. */
static char *in_parentheses(const char *host) {
    return host ? must_printf(" (%s)", host) : must_strdup("");
}

/* Shows in the progress display what the shard waits for. */
static void show_wait(struct execution *execution, const struct awaited *awaited) {
    bool at_work, earlier;
    OWNED char *name = awaited_name(awaited), *host = awaited_host(awaited, &at_work), *where = in_parentheses(host);
    OWNED char *stop = awaited_stop(awaited, &earlier);
    OWNED char *text = must_printf("waits for %s of shard %d of %d%s%s", name, awaited_shard(awaited),
                                   execution->options->shard->count, where,
                                   !host     ? ", which has not begun"
                                   : at_work ? ""
                                   : stop    ? ", which has stopped and may begin again within a minute"
                                             : ", which seems to have stopped");
    progress_wait(&execution->progress, text);
}

/* Ends the shard without the result, and reports why. */
static enum status give_up(struct execution *execution, const struct awaited *awaited, struct error *error) {
    const struct shard *shard = execution->options->shard;
    bool at_work;
    int maker = awaited_shard(awaited);
    OWNED char *name = awaited_name(awaited), *host = awaited_host(awaited, &at_work), *where = in_parentheses(host);
    progress_note(&execution->progress,
                  "shard %d of %d has waited %g s (--wait) for %s of shard %d of %d, which %s%s. %s, then "
                  "run shard %d again with --resume",
                  shard->index, shard->count, execution->options->wait_s, name, maker, shard->count,
                  !host     ? "has not begun"
                  : at_work ? "is running"
                            : "seems to have stopped",
                  where,
                  !host     ? "Run that shard"
                  : at_work ? "Let that shard end"
                            : "Run that shard with --resume",
                  shard->index);
    execution->stop_reason = "the time limit of --wait came first";
    return fail(error, STATUS_INTERRUPTED, "waited too long");
}

/* Sleeps for this many seconds, or until a signal. */
static enum status sleep_for(double seconds, struct error *error) {
    for (double until = now_s() + seconds, remaining; (remaining = fmin(until - now_s(), NAP_S)) > 0;) {
        struct timespec nap = {.tv_nsec = (long)(remaining * 1e9)};
        nanosleep(&nap, NULL);
        TRY(interrupt_check(error));
    }
    return interrupt_check(error);
}

/* STATUS_IO: the missing part is one of this shard itself. */
static enum status fail_lost_part(const struct awaited *awaited, struct error *error) {
    OWNED char *name = awaited_name(awaited);
    return fail(error, STATUS_IO, "the part of %s, which this shard made, is gone or damaged; --resume makes it again",
                name);
}

/* STATUS_IO: this user may not read the parts of the shard that makes the result, or that shard has ended without the
 * result and will not go back into a queue: the runs that read the result are lost, as if it were an input that cannot
 * be read. A shard that ended before this one began gets some time, because both may be started again. */
static enum status check_maker(struct execution *execution, struct awaited *awaited, double passed, int *result_run,
                               struct reader *reader, struct error *error) {
    bool earlier;
    int maker = awaited_shard(awaited);
    const struct shard *shard = execution->options->shard;
    OWNED char *name = awaited_name(awaited), *stop = awaited_stop(awaited, &earlier);
    if (!awaited_check_readable(awaited, error)) {
        if (!stop || (earlier && passed < CHECK_S) || awaited_look(awaited, result_run)) return STATUS_OK;
        fail(error, STATUS_IO,
             "%s of shard %d of %d is missing, because that shard stopped (%s); run it with --resume, then shard %d",
             name, maker, shard->count, stop, shard->index);
    }
    if (!reader->unreadable) reader->unreadable = must_strdup(error->text);
    /* No task that needs the result has a key any more. */
    memset(execution->hashed, 0, (size_t)execution->plan->task_count * sizeof(bool));
    return error->status;
}

/* Waits until other shards have made an awaited result, and reports on whom it waits. STATUS_INTERRUPTED: the time
 * limit of --wait came first. STATUS_IO: the result lacks a part of this shard itself, or check_maker found it lost. */
static enum status wait_for(struct execution *execution, struct awaited *awaited, int *result_run,
                            struct reader *reader, bool *waited, struct error *error) {
    const struct execute_options *options = execution->options;
    double begun = now_s(), passed = 0, shown = 0;
    for (int maker = -1; !awaited_look(awaited, result_run); passed = now_s() - begun) {
        int missing = awaited_shard(awaited);
        if (missing == options->shard->index) return fail_lost_part(awaited, error);
        TRY(check_maker(execution, awaited, passed, result_run, reader, error));
        if (passed >= options->wait_s) return give_up(execution, awaited, error);
        if (missing != maker || passed >= shown + CHECK_S) {
            show_wait(execution, awaited);
            *waited = true;
            maker = missing;
            shown = passed;
        }
        double pause = fmin(fmax(POLL_SHARE * passed, MIN_POLL_S), MAX_POLL_S);
        TRY(sleep_for(fmin(pause, options->wait_s - passed), error));
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
        FREED_BY(awaited_end) struct awaited *awaited = awaited_begin(execution->results, producer);
        TRY(wait_for(execution, awaited, &execution->result_run[producer], &execution->readers.items[task->in[i]],
                     waited, error));
        execution->awaited[producer] = true;
    }
    return STATUS_OK;
}
