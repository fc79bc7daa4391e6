/* shard.h - divides a job among processes that do not talk to each other: each computes the same division by itself.
 *
 * What is divided are the tasks. All variants of a task belong to one shard, because they are timed in turns on one
 * machine. Tasks that are connected by results which one reads of the other are a group. The groups are dealt out by
 * predicted time, the longest first, each to the shard that has least to do so far; a group that is longer than a
 * shard's mean is spread over several where the job then ends sooner, and a shard waits for what it reads of another
 * (deal.c). The prediction assumes one nominal machine, so that nodes with other memory, cores or measured limits
 * divide the job alike. */
#ifndef RUNNER_SHARD_H
#define RUNNER_SHARD_H

#include "../plan/plan.h"

/* What some runs take on the nominal machine. */
struct shard_load {
    int runs;
    double seconds;                 /* predicted, as `plan` predicts a run's total */
    double pass_s;                  /* the same without repeats */
    double compute_s;               /* the same if files were read and written in no time */
    double read_bytes, write_bytes; /* of files, by the passes */
};
void shard_load_add(struct shard_load *sum, const struct shard_load *more);

/* Tasks that are connected by results. */
struct shard_group {
    int first, tasks; /* the number of its first task, and how many there are */
    struct shard_load load;
};
struct shard_groups {
    const struct plan *plan;
    int count;
    struct shard_group *groups; /* the longest first */
    int *of_task;               /* for each task of the plan the index of its group, */
    struct shard_load *loads;   /* and what its runs take */
};
/* The caller frees with shard_groups_free, before the plan. */
struct shard_groups *shard_groups_find(const struct plan *plan);
void shard_groups_free(struct shard_groups *all);

/* For each task of the plan the number of its shard, 0 .. shards-1. What a task reads is made by its own shard or by
 * one of a lower number. The caller frees. */
int *shard_deal(const struct shard_groups *all, int shards);
int *shard_split(const struct plan *plan, int shards);
/* For each shard the seconds from the start of all until it has done its tasks, in the plan's order, with the time that
 * it waits for results of others. The caller frees. */
double *shard_ends(const struct shard_groups *all, const int *of_task, int shards);

/* What the plan's runs take for the nominal machine, in words: "a GPU of 19 TFLOP/s (float32) and 1500 GB/s". */
const char *shard_machine(const struct plan *plan, char text[96]);
/* Its rates of reading and writing files. */
#define SHARD_READ_BYTES_PER_S  3e9
#define SHARD_WRITE_BYTES_PER_S 1.5e9

#define MOST_SHARDS 100000

/* What is dealt out: whole operations, or panels of them (units.h) as well; SHARD_AUTO: panels if there are fewer
 * groups of operations than shards, or if whole ones leave the shards uneven. SHARD_CHECKPOINTED: one process does all,
 * long operations by panels, so that what it has finished is kept if it is interrupted. */
enum shard_by { SHARD_AUTO, SHARD_BY_RUNS, SHARD_BY_TILES, SHARD_CHECKPOINTED };

/* One process's share of a job. Where a function takes a shard, NULL means the whole job. */
struct shard {
    int index, count; /* shard `index` of `count`, from 0 */
    int divided; /* the number of shards that units_make was told: another division's, where its units are reused */
    enum shard_by by;
    int *of_task; /* as shard_split returns it */
};

/* Does the shard have this task? */
bool shard_has(const struct shard *shard, int task);
/* How many runs the shard has. */
int shard_runs(const struct shard *shard, const struct plan *plan);
/* How many of all the shards have something to do. */
int shard_busy(const struct shard *shard, const struct plan *plan);
/* Does a task of the shard read this input of the job? */
bool shard_reads(const struct shard *shard, const struct plan *plan, int input);

#endif
