/* execute_run.h - the runs of a task: each is streamed and verified, timed in turns with its neighbours, and kept.
 *
 *     run 1   stream, verify -----+                     +- keep
 *     run 2   stream, verify -----+- time 1 2 3 1 2 3 --+- keep
 *     run 3   stream, verify -----+                     +- keep
 *
 * A trial is a run that is verified and waits to be timed, its operands in place. Trials wait as long as the device has
 * memory for one more and their repeats take seconds at most: what waits is lost if a signal comes. */
#ifndef RUNNER_EXECUTE_RUN_H
#define RUNNER_EXECUTE_RUN_H

#include "../verify/verify.h"
#include "execute.h"

#include <stdatomic.h>

/* Wraps a part's sink and reader: refuses boxes after a signal and reports bytes to the progress display. */
struct watched_part {
    struct sink sink;
    struct host_reader reader;
    struct progress *progress;
};

struct trial {
    const struct run *run;
    struct result_row *row;
    struct part *part;
    struct watched_part watched;
    struct sink sink; /* of `watched` */
    struct tiling tiling;
    struct stream *stream;
    struct stage_times times;
    struct measurement measurement;
    bool timed; /* the pass was the one sample */
};
enum { MOST_TRIALS = 32 };

/* Everything that lasts as long as the job. */
struct execution {
    const struct plan *plan;
    const struct execute_options *options;
    struct readers readers;    /* one for each of the plan's arrays */
    struct device *devices[2]; /* by enum kernel_device; NULL: not opened yet */
    struct residents *residents[2];
    struct truth_cache *truths;
    struct results *results;
    struct progress progress;
    struct trace *trace; /* NULL: not wanted */
    struct result_row *rows;
    atomic_bool *final; /* by run: its row does not change any more */
    atomic_bool looked; /* for runs that were finished before */
    int *result_run;    /* by task: the run that gave its result; -1: none yet */
    struct trial trials[MOST_TRIALS];
    int waiting; /* trials */
    bool failed, stop;
};

/* Fills the rows of a task's runs. A status but STATUS_OK ends the job; execution_abandon must follow. */
enum status execution_take_task(struct execution *execution, const struct task *task, struct error *error);
/* For `merge`: fills all rows from the parts. STATUS_IO: parts are missing, and which was said. */
enum status execution_collect(struct execution *execution, struct error *error);
/* The name of an input of the task that has no result; NULL: all are there. */
const char *execution_lacks(const struct execution *execution, const struct task *task);
/* Frees the trials that still wait. */
void execution_abandon(struct execution *execution);
/* Sets a row's status and message. */
void execution_say(struct result_row *row, const char *status, const char *message);

#endif
