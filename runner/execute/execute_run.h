/* execute_run.h - the runs of a task: each is streamed and verified, timed in turns with its neighbours, and kept.
 *
 *     run 1   stream, verify -----+                     +- keep
 *     run 2   stream, verify -----+- time 1 2 3 1 2 3 --+- keep
 *     run 3   stream, verify -----+                     +- keep
 *
 * A trial is a run that is verified and waits to be timed, its operands in place. Trials wait while the device has
 * memory for one more and their repeats take seconds at most: a signal loses those that wait. */
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
    /* A reduction that passes NaNs on and whose results so far are all NaN; NULL: another operation, or a result was a
     * number. */
    const struct geometry *all_nan;
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
    int times_measured;
    double spent_s, since_s; /* seconds used of its timeout; when its clock was started; 0: it is stopped */
};
enum { MAX_TRIALS = 32 };

/* Everything that lasts as long as the job. */
struct execution {
    const struct units *units;
    const struct plan *plan; /* of the units; tasks and runs below are the units' own */
    const struct execute_options *options;
    struct readers readers; /* one for each of the plan's arrays */
    struct team teams[2];   /* by enum kernel_device; an empty one is not opened yet */
    struct truth_cache *truths;
    struct results *results;
    struct progress progress;
    struct trace *trace; /* NULL: not wanted */
    struct result_row *rows;
    struct result_row *published; /* rows of the whole job; NULL: nothing is published */
    atomic_bool *final;           /* by run: its row no longer changes */
    atomic_bool looked;           /* `resume` has looked for runs that were finished before */
    int *result_run;              /* by task: the run that gave its result; -1: none yet */
    bool *awaited;                /* by task: other shards make its result, and result_run is known */
    bool *hashed;                 /* by task: all inputs that its key depends on are hashed */
    int *failures;                /* by run: failures of its device or of files, after each of which it is retried */
    atomic_int clocked;           /* the run whose clock runs; -1: none */
    const char *stop_reason;      /* why runs remain, if any do */
    struct trial trials[MAX_TRIALS];
    int waiting;              /* number of trials; those that a search has released have no run */
    struct run_options brief; /* of execution_measure_briefly */
    const char *remark;       /* for the message of a run that is kept; NULL: none */
    bool failed;              /* a run was wrong or failed */
    bool stop;                /* no further run begins (`on_error: stop`) */
    int lost;                 /* number of runs lost because an input cannot be read */
    bool incomplete;          /* of `merge`: units are missing */
};

/* The clock of a trial runs while the trial is streamed, verified and timed; its timeout ends the trial. */
void execution_clock_start(struct execution *execution, struct trial *trial);
void execution_clock_stop(struct execution *execution, struct trial *trial);
/* Did the run exceed its present timeout in an earlier call? If so, fills its row. */
bool execution_timed_out(const struct execution *execution, const struct run *run, struct result_row *row);
/* Fills the row of a run that has exceeded its timeout. Any thread may call it. */
void execution_set_timeout(const struct execution *execution, const struct run *run, struct result_row *row);
/* Abandons all trials after their timing has failed, and prepares to retry them. STATUS_OK: all may be retried; *again:
 * the number of the first run to repeat. STATUS_INTERRUPTED: a signal came. Any other status is the failure's,
 * which is final. */
enum status execution_retry_trials(struct execution *execution, int *again, enum status status, struct error *error);
/* Closes the devices of a kind, which are opened again when they are needed. */
void execution_close_devices(struct execution *execution, enum kernel_device kind);

/* ---- the steps of a run ---- */

/* Settles a run that need not begin, because it is skipped or was kept in an earlier call: fills its row, after timing
 * the trials that wait (*again as in execution_time_trials). *settled false: the run must begin; if an earlier search
 * has tried it, its row is filled nevertheless. */
enum status execution_settle_run(struct execution *execution, const struct run *run, int *again, bool *settled,
                                 struct error *error);
/* Begins a run: afterwards its row is final, or one more trial waits. *again as in execution_time_trials.
 * STATUS_MEMORY: the memory does not suffice beside the trials that wait. */
enum status execution_begin_run(struct execution *execution, const struct run *run, int *again, struct error *error);
/* Streams and verifies a run: the run becomes a trial, or its row is final. */
enum status execution_begin_trial(struct execution *execution, const struct run *run, struct trial *trial,
                                  struct error *error);
/* Can the run wait beside the waiting trials: on the same device, within its memory? */
bool execution_fits_beside(const struct execution *execution, const struct run *run);
/* Times and keeps all trials. If the trial whose output is the task's result cannot be timed, the later trials, which
 * have dropped their outputs, must be repeated: *again becomes the number of the first. If trials are retried, *again
 * is as in execution_retry_trials. */
enum status execution_time_trials(struct execution *execution, int *again, struct error *error);
/* Frees what a trial holds. `keep`: its output stays on the device as a resident. */
void execution_release_trial(struct trial *trial, bool keep);
/* Keeps the row of a run without a result as a part, if another process needs the row: in a shard, for `merge`; of a
 * panel, for the shards that read the panels; in a search, for `resume`. */
enum status execution_keep_row(struct execution *execution, const struct run *run, const struct result_row *row,
                               struct error *error);
/* Reports a final row, and records what follows from it for later runs. */
enum status execution_conclude(struct execution *execution, const struct run *run, bool reused, struct error *error);
/* Handles a failure. If the run itself failed or its input cannot be read, its row gets the status `word` and becomes
 * final; after a timeout it gets `timeout`, which is also noted for `resume`. *error is then cleared. Any other failure
 * is returned, and ends the job. */
enum status execution_settle_failure(struct execution *execution, const struct run *run, enum status status,
                                     const char *word, struct error *error);
/* Searches among the runs of the search that `first` begins; *count: their number. The fastest is then run like any
 * other, and the others are skipped (execute_search.c). No trial waits before or after it. */
enum status execution_search(struct execution *execution, const struct run *first, int *count, struct error *error);

/* Lets a signal end the job in order: the table and how to continue are printed (execute_signal.c). */
void execution_watch_signals(struct execution *execution);
/* For `merge`: fills all rows from the parts. STATUS_IO: prints which parts are missing, and `partial` is not given; or
 * a later job has parts too. */
enum status execution_collect(struct execution *execution, struct error *error);
/* The outcome of the job: a row for each run of the whole, and for each of its tasks the run that gave its result; -1:
 * no run did. `failed`: a run that could run made no result. The caller frees rows and result_run. */
struct outcome {
    struct result_row *rows;
    int *result_run;
    bool failed;
};
struct outcome execution_outcome(const struct execution *execution);
/* Does the task read a result that does not exist? `result_run`: by task, the run that gave its result; -1: no run
 * did. */
bool execution_lacks_result(const struct plan *plan, const struct task *task, const int *result_run);
/* Hashes all that a task's key depends on: its inputs, and the inputs of the results that it reads. */
enum status execution_hash_task(struct execution *execution, int number, struct error *error);
/* Is this task's result made by other shards and not known yet? */
bool execution_awaits(const struct execution *execution, int producer);
/* Waits until the results of other shards that a run reads exist, or will never exist, and fills result_run. *waited:
 * the progress display no longer shows the run. */
enum status execution_await(struct execution *execution, const struct run *run, bool *waited, struct error *error);
/* Times the waiting trials in turns; with the option `retry` it times undecided ones again. Fills the times of their
 * rows, and raises roofs of the device that they prove too low. */
enum status execution_measure(struct execution *execution, struct error *error);
/* Times the waiting trials with `samples` samples each, and fills the times of their rows. */
enum status execution_measure_briefly(struct execution *execution, int64_t samples, struct error *error);
/* Writes the name of a run, "product tiled n=512". */
void execution_name_run(const struct execution *execution, const struct run *run, char name[320]);
/* Is the error that an input of the job cannot be read, so that only the runs that read it are lost? */
bool execution_is_unreadable(const struct execution *execution, enum status status, const struct error *error);
/* Why an input cannot be read; NULL: none has failed so far. */
const char *execution_unreadable(const struct execution *execution);
/* STATUS_IO: runs are lost, or operations were left out; the error names the unreadable input, the number of lost runs,
 * and how to get the others. */
enum status execution_report_lost(const struct execution *execution, struct error *error);
/* Frees the trials that still wait. */
void execution_abandon(struct execution *execution);
/* Sets a row's status and message. */
void execution_set_status(struct result_row *row, const char *status, const char *message);
/* Adds a remark to a row's message. */
void execution_add_remark(struct result_row *row, const char *text);

/* Prints, once for an array, its missing sources, how it was decoded, which attributes could not be applied, and what
 * its conversion has lost. */
void execution_report_values(struct execution *execution, struct reader *reader);
/* Adds to the row's message which inputs of the run were decoded, and which lack sources. */
void execution_add_values(const struct execution *execution, const struct task *task, struct result_row *row);

#endif
