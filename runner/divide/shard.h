/* shard.h - divides a job among processes that do not talk to each other: each computes the same division by itself.
 *
 * The tasks are divided. All variants of a task belong to one shard, because they are timed in turns on one machine.
 * Tasks of which one reads the other's result form a group. Groups are dealt out by predicted time, the longest first,
 * each to the shard with the least work so far. A group that takes longer than a shard's mean is spread over several
 * shards if the job then ends sooner; a shard then waits for results of others (deal.c). The predictions assume one
 * nominal machine, so that nodes with different memory, cores or measured limits divide the job alike. */
#ifndef RUNNER_SHARD_H
#define RUNNER_SHARD_H

#include "../plan/plan.h"

/* The predicted cost of some runs on the nominal machine. */
struct shard_load {
    int runs;
    double seconds;                 /* total time, as `plan` predicts it for a run */
    double pass_s;                  /* total time without repeats */
    double compute_s;               /* total time if reading and writing files took no time */
    double read_bytes, write_bytes; /* of files, by the passes */
};
/* Adds `more` to *sum. */
void shard_load_add(struct shard_load *sum, const struct shard_load *more);

/* Tasks that are connected by results. */
struct shard_group {
    int first, tasks; /* the number of its first task, and how many there are */
    struct shard_load load;
};
struct shard_groups {
    const struct plan *plan;
    double seconds; /* of all groups together */
    int count;
    struct shard_group *groups; /* the longest first */
    int *group_of_task;         /* by task: the index of its group */
    struct shard_load *loads;   /* by task: the cost of its runs */
};
/* Groups the tasks of a plan. The caller frees the result with shard_groups_free, before the plan. */
struct shard_groups *shard_groups_find(const struct plan *plan);
void shard_groups_free(struct shard_groups *all);
RELEASED_BY(shard_groups, shard_groups_free)

/* Returns for each task of the plan the number of its shard, 0 .. shards-1. The results that a task reads are made by
 * its own shard or one with a lower number. shard_split makes the groups itself. The caller frees. */
int *shard_deal(const struct shard_groups *all, int shards);
int *shard_split(const struct plan *plan, int shards);
/* Returns for each shard the predicted time in seconds at which it ends, if all begin at 0. A shard does its tasks in
 * the plan's order and waits for results of other shards. The caller frees. */
double *shard_ends(const struct shard_groups *all, const int *shard_of_task, int shards);
/* The time in seconds at which the last shard ends. */
double shard_last_end(const struct shard_groups *all, const int *shard_of_task, int shards);

/* Describes the nominal machine for the plan's runs: "a GPU of 19 TFLOP/s (float32) and 1500 GB/s". */
const char *shard_machine(const struct plan *plan, char text[96]);
/* The nominal machine's rates of reading and writing files. */
#define SHARD_READ_BYTES_PER_S  3e9
#define SHARD_WRITE_BYTES_PER_S 1.5e9

#define MAX_SHARDS 100000

/* The units that are dealt out: whole operations, or also panels of them (units.h). SHARD_AUTO: panels if there are
 * fewer groups of operations than shards, or if whole operations leave the shards uneven. SHARD_CHECKPOINTED: one
 * process does all, long operations by panels, so that finished panels survive an interruption. */
enum shard_by { SHARD_AUTO, SHARD_BY_RUNS, SHARD_BY_TILES, SHARD_CHECKPOINTED };

/* One process's share of a job. A shard that is NULL means the whole job. */
struct shard {
    int index, count; /* shard `index` of `count`, from 0 */
    int divided; /* the number of shards for which the units were made; not `count` if another division's are reused */
    enum shard_by by;
    int *shard_of_task; /* by task, as shard_split returns it */
};

/* Does the shard have this task? */
bool shard_has(const struct shard *shard, int task);
/* The number of the shard's runs. */
int shard_runs(const struct shard *shard, const struct plan *plan);
/* The number of shards that have a task. */
int shard_busy(const struct shard *shard, const struct plan *plan);
/* Does a task of the shard read this input of the job? */
bool shard_reads(const struct shard *shard, const struct plan *plan, int input);

#endif
