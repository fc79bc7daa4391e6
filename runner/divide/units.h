/* units.h - the plan as it is carried out: its tasks are units, each of which one process does in one go. A task of the
 * job is one unit, or several panels if more processes than operations work on the job, or if the operation takes long.
 *
 *     plan, whole                               the same plan, the product in three units
 *     product   A (m,k) * B (k,n)               product   A[0..21] * B,  A[22..42] * B,  A[43..63] * B
 *     sum       of X, over all                  sum       of X, over all
 *
 * A panel is the operation on a band of each input that has the divided loop; its result is a band of the operation's
 * result. It is streamed, verified, timed, kept and resumed like any other unit. Only loops of the result are divided,
 * so that one process sums each element in one order, and tiles are as large as the whole's: if all variants are
 * kernel->divisible, the panels together have the bits of the whole. An operation that reads another's result stays
 * whole. If that result is divided, it reads all panels, through the array of the first panel's task, which has the
 * shape of the whole. */
#ifndef RUNNER_UNITS_H
#define RUNNER_UNITS_H

#include "shard.h"

struct units {
    const struct plan *whole;
    struct plan plan;  /* its tasks are units; job, facts and the first inputs are the whole's */
    int *whole_task;   /* by unit: the task of the whole that it is, or is a panel of */
    struct box *boxes; /* by unit: its result's place in the whole's result */
    int *first;        /* by task of the whole: its first unit; [whole->task_count]: the end */
};

/* SHARD_AUTO divides operations if whole ones leave a shard with more than UNITS_UNEVEN times the mean, and only if the
 * job then takes at most UNITS_GAIN of its time. */
#define UNITS_UNEVEN 1.25
#define UNITS_GAIN   0.9
/* Do whole operations leave a shard with more than UNITS_UNEVEN times the mean? */
bool units_uneven(const struct shard_groups *groups, int shards);

/* Divides a plan for `shards` shards. Operations that take a small share of the predicted time stay whole. The caller
 * frees the result with units_free, before the whole. */
struct units *units_make(const struct plan *whole, int shards, enum shard_by by);
void units_free(struct units *units);
RELEASED_BY(units, units_free)
/* Is any operation divided? */
bool units_divide(const struct units *units);
/* The run of the whole that a unit's run belongs to. */
const struct run *units_whole_run(const struct units *units, const struct run *run);
/* The first of the *count runs that do a run of the whole, one in each of its units; they are *stride runs apart. */
const struct run *units_of_run(const struct units *units, const struct run *whole, int *count, int *stride);

#endif
