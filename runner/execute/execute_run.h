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

#include "../verify/overflows.h"
#include "../verify/verify.h"
#include "execute.h"

#include <stdatomic.h>

/* Wraps a part's sink and reader: refuses boxes after a signal and reports bytes to the progress display. */
struct watched_part {
    struct sink sink;
    struct host_reader reader;
    struct progress *progress;
    struct overflows overflows; /* of the pass */
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
    const struct units *units;
    const struct plan *plan; /* of the units: what is said of tasks and runs below is said of units */
    const struct execute_options *options;
    struct readers readers; /* one for each of the plan's arrays */
    struct team teams[2];   /* by enum kernel_device; none in it: not opened yet */
    struct truth_cache *truths;
    struct results *results;
    struct progress progress;
    struct trace *trace; /* NULL: not wanted */
    struct result_row *rows;
    struct result_row *published; /* of the whole; NULL: nothing is */
    atomic_bool *final;           /* by run: its row does not change any more */
    atomic_bool looked;           /* for runs that were finished before */
    int *result_run;              /* by task: the run that gave its result; -1: none yet */
    bool *awaited;                /* by task: other shards make its result, and result_run is known */
    bool *hashed;                 /* by task: all inputs that its key depends on */
    const char *stop_reason;      /* why runs are left, if any are */
    struct trial trials[MOST_TRIALS];
    int waiting; /* trials */
    bool failed, stop;
    bool incomplete; /* of `merge`: units are missing */
};

/* Fills the rows of a task's runs. A status but STATUS_OK ends the job; execution_abandon must follow. */
enum status execution_take_task(struct execution *execution, const struct task *task, struct error *error);
/* For `merge`: fills all rows from the parts. STATUS_IO: parts are missing, and which was said. */
enum status execution_collect(struct execution *execution, struct error *error);
/* What became of the job: a row for each run of the whole, and for each of its tasks the run that gave its result; -1:
 * none. `failed`: a run made no result, though it could. The caller frees rows and result_run. */
struct outcome {
    struct result_row *rows;
    int *result_run;
    bool failed;
};
struct outcome execution_outcome(const struct execution *execution);
/* The name of an input of the task that has no result; NULL: all are there. */
const char *execution_lacks(const struct execution *execution, const struct task *task);
/* Hashes all that a task's key depends on: its inputs, and those of the results that it reads. */
enum status execution_hash_task(struct execution *execution, int number, struct error *error);
/* Do other shards make this task's result, so that it is not known yet? */
bool execution_awaits(const struct execution *execution, int producer);
/* Waits until the results that a run reads of other shards are there, or will not come: fills result_run. *waited:
 * the progress display is no more on that run. */
enum status execution_await(struct execution *execution, const struct run *run, bool *waited, struct error *error);
/* Frees the trials that still wait. */
void execution_abandon(struct execution *execution);
/* Sets a row's status and message. */
void execution_say(struct result_row *row, const char *status, const char *message);

/* Prints, once, what of an array has no source, how it was decoded, which of its attributes could not be applied and
 * what conversion has lost. */
void execution_say_values(struct execution *execution, struct reader *reader);
/* Adds to the row's message which of the run's inputs were decoded, and which lack sources. */
void execution_note_values(const struct execution *execution, const struct task *task, struct result_row *row);

/* After a signal: lines that say how many runs are done (a row without a status belongs to another shard), from which
 * on runs are left ("interrupted"), how many of these read a result that is not there, and how many failed. `kept`: for
 * each run, whether a part of it is there although its row is "interrupted". `go_on`: how. The caller frees. */
char *execution_summary(const struct plan *plan, const struct result_row *rows, const bool *kept, const char *go_on);

#endif
