/* shard.h - divides a job among processes that do not talk to each other: each computes the same division by itself.
 *
 * What is divided are the tasks. All variants of a task belong to one shard, because they are timed in turns on one
 * machine, and so do all tasks that are connected by results that one reads of the other: a shard never waits for
 * another. The groups are dealt out by predicted time, the longest first, each to the shard that has least to do so
 * far. The prediction assumes one nominal machine, so that nodes with other memory, cores or measured limits divide the
 * job alike. */
#ifndef RUNNER_SHARD_H
#define RUNNER_SHARD_H

#include "plan.h"

/* For each task of the plan the number of its shard, 0 .. shards-1. The caller frees. */
int *shard_split(const struct plan *plan, int shards);

/* One process's share of a job. Where a function takes a shard, NULL means the whole job. */
struct shard {
    int index, count; /* shard `index` of `count`, from 0 */
    int *of_task;     /* as shard_split returns it */
};

/* Does the shard have this task? */
bool shard_has(const struct shard *shard, int task);
/* How many runs the shard has. */
int shard_runs(const struct shard *shard, const struct plan *plan);
/* Does a task of the shard read this input of the job? */
bool shard_reads(const struct shard *shard, const struct plan *plan, int input);

#endif
