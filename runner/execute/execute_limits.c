/* execute_limits.c - timeouts of runs: starts and stops the clock of a trial, and fills the rows of late runs. */
#include "../base/clock.h"
#include "../base/interrupt.h"
#include "../base/text.h"
#include "execute_run.h"

#include <math.h>

/* A launch that has exceeded its timeout gets as much time again, within these bounds, before the process ends: if the
 * launch ends by then, the other runs continue without --resume. */
#define MIN_GRACE_S 2.0
#define MAX_GRACE_S 30.0

static const struct run_options *options_of(const struct execution *execution, const struct run *run) {
    return &execution->plan->tasks[run->task].operation->run;
}

void execution_clock_start(struct execution *execution, struct trial *trial) {
    double timeout_s = options_of(execution, trial->run)->timeout_s;
    trial->since_s = now_s();
    atomic_store(&execution->clocked, trial->run->number);
    interrupt_set_deadline(trial->since_s + timeout_s - trial->spent_s,
                           fmin(fmax(timeout_s, MIN_GRACE_S), MAX_GRACE_S));
}

void execution_clock_stop(struct execution *execution, struct trial *trial) {
    interrupt_set_deadline(INFINITY, 0);
    atomic_store(&execution->clocked, -1);
    if (trial->since_s > 0) trial->spent_s += now_s() - trial->since_s;
    trial->since_s = 0;
}

void execution_set_timeout(const struct execution *execution, const struct run *run, struct result_row *row) {
    double timeout_s = options_of(execution, run)->timeout_s;
    char text[32], message[128];
    snprintf(message, sizeof message, "took longer than its timeout, %s", duration_text(timeout_s, text));
    execution_set_status(row, "timeout", message);
}

bool execution_timed_out(const struct execution *execution, const struct run *run, struct result_row *row) {
    double exceeded_s = store_timed_out(execution->results, run), timeout_s = options_of(execution, run)->timeout_s;
    char text[32], message[128];
    if (!(exceeded_s >= timeout_s)) return false;
    snprintf(message, sizeof message, "took longer than %s in an earlier call; a longer timeout repeats it",
             duration_text(exceeded_s, text));
    execution_set_status(row, "timeout", message);
    return true;
}
