/* division.h - the figures of a job that is divided among shards. Two things limit the gain from more shards: the
 * longest chain of tasks that read each other's results, and the file system, which all shards share. */
#ifndef RUNNER_DIVISION_H
#define RUNNER_DIVISION_H

#include "units.h"

struct division_terms {
    int shards;
    enum shard_by by;
    double bytes_per_s; /* of the file system, for all shards together; 0: unknown, one nominal machine's is assumed */
};

struct numbered_load {
    int shard;
    struct shard_load load;
    double waits_s; /* waits for results of other shards, if all begin at once */
};

struct division {
    const struct plan *plan; /* the units' plan if operations are divided, else the whole */
    struct units *units;
    struct shard_groups *groups;
    int shards, idle;            /* idle: shards without runs */
    struct numbered_load *loads; /* by shard */
    struct shard_load sum;
    bool waits;               /* some shard waits for another */
    double longest_s, mean_s; /* of the longest shard, with its waits; of all shards, without waits */
    double uneven;            /* longest_s over mean_s */
    double read_bytes_per_s, write_bytes_per_s;
    double files_s;                      /* for reading and writing everything */
    double all_at_once_s, one_process_s; /* duration of the job with all shards at once, and with one process */
    int useful_shards;                   /* the fewest shards that end as soon as any larger number */
    int files_shards;                    /* the fewest shards that compute no longer than the files take; 0: unknown */
    bool tiles_help;                     /* panels, which the division lacks, would shorten longest_s */
};

/* Divides a plan as `run --shard` does. Free with division_free, before the plan. */
struct division *division_make(const struct plan *whole, const struct division_terms *terms);
void division_free(struct division *division);
RELEASED_BY(division, division_free)

#endif
