/* units.h - the plan as it is carried out: its tasks are units, each of which one process does in one go. A task of the
 * job is one unit, or, where more processes than there are operations work on a job, or where an operation takes long,
 * several panels.
 *
 *     plan, whole                               the same plan, the product in three units
 *     product   A (m,k) * B (k,n)               product   A[0..21] * B,  A[22..42] * B,  A[43..63] * B
 *     sum       of X, over all                  sum       of X, over all
 *
 * A panel is the operation on a band of each input that has the divided loop, and its result is a band of the
 * operation's result. It is streamed, verified, timed, kept and resumed as any other unit. Loops that a result lacks
 * are not divided, so that each element is summed in one process and one order, and tiles are as large as the whole's:
 * where all variants say so (kernel->divisible) the panels together have the bits of the whole. An operation that reads
 * another's result stays whole. If it reads one that is divided, it reads all panels: what that result is, is the array
 * of the first one's task, which has the shape of the whole. */
#ifndef RUNNER_UNITS_H
#define RUNNER_UNITS_H

#include "shard.h"

struct units {
    const struct plan *whole;
    struct plan plan;  /* its tasks are units; the job and facts are those of the whole, whose inputs come first */
    int *whole_task;   /* for each unit the task that it is, or is a panel of */
    struct box *place; /* for each unit: its result within the whole's */
    int *first;        /* for each task of the whole its first unit; [whole->task_count]: behind the last */
};

/* Whole operations leave a shard with so many times the mean, so that SHARD_AUTO divides them; and it does so only if
 * the job then takes no more than this share of the time. */
#define UNITS_UNEVEN 1.25
#define UNITS_GAIN   0.9
bool units_uneven(const struct shard_groups *groups, int shards);

/* Divides a plan for so many shards. Operations that take a small share of the predicted time stay whole. Free with
 * units_free, before the whole. */
struct units *units_make(const struct plan *whole, int shards, enum shard_by by);
void units_free(struct units *units);
/* Is any operation divided? */
bool units_divide(const struct units *units);
/* The run of the whole that a unit's run belongs to. */
const struct run *units_whole_run(const struct units *units, const struct run *run);
/* The run of the whole's run in the first of its units; those in the others follow `*stride` runs apart. */
const struct run *units_of_run(const struct units *units, const struct run *whole, int *count, int *stride);

#endif
