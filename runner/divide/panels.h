/* panels.h - divides operations into panels, so that more processes than there are operations can work on a job.
 *
 *     plan, whole                               the same plan, divided by 3
 *     product   A (m,k) * B (k,n)               product   A[0..21] * B,  A[22..42] * B,  A[43..63] * B
 *     sum       of X, over all                  sum       of X, over all
 *
 * A panel is a task: its operation on a band of each input that has the divided loop, whose result is a band of the
 * operation's result. It is streamed, verified, timed, kept and resumed as any other. Loops that a result lacks are not
 * divided, so that each element is summed in one process and one order, and tiles are as large as the whole's: where
 * all variants say so (kernel->divisible) the panels together have the bits of the whole. An operation that reads
 * another's result stays whole. If it reads one that is divided, it reads all panels: what that result is, is the array
 * of the first one's task, which has the shape of the whole. */
#ifndef RUNNER_PANELS_H
#define RUNNER_PANELS_H

#include "shard.h"

struct panels {
    const struct plan *whole;
    struct plan plan;  /* divided: the job, its inputs and facts are those of the whole */
    int *whole_task;   /* for each task of `plan` the task that it is a panel of, or that it is */
    struct box *place; /* for each task of `plan`: its result within the whole's */
    int *first;        /* for each task of the whole, the first of `plan`; [whole->task_count]: behind the last */
};

/* Whole operations leave a shard with so many times the mean, so that SHARD_AUTO divides them; and it does so only if
 * the job then takes no more than this share of the time. */
#define PANELS_UNEVEN 1.25
#define PANELS_GAIN   0.9
bool panels_uneven(const struct shard_groups *groups, int shards);

/* Divides a plan for so many shards. Operations that take a small share of the predicted time stay whole. Free with
 * panels_free, before the whole. */
struct panels *panels_make(const struct plan *whole, int shards, enum shard_by by);
void panels_free(struct panels *panels);
/* Is any operation divided? */
bool panels_divide(const struct panels *panels);
/* The run of the whole that a run of `plan` belongs to. */
const struct run *panels_whole_run(const struct panels *panels, const struct run *run);

#endif
