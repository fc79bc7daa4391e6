/* division.h - the figures of a job divided among shards. Two things end the gain from more shards: the longest path of
 * tasks of which one reads the other's result, whatever their number; and files, since all shards share one file
 * system. */
#ifndef RUNNER_DIVISION_H
#define RUNNER_DIVISION_H

#include "units.h"

struct division_terms {
    int shards;
    enum shard_by by;
    double bytes_per_s; /* that the file system gives to all shards together, reading or writing; 0: not known, so that
                         * it is what one nominal machine gets */
};

struct numbered_load {
    int shard;
    struct shard_load load;
    double waits_s; /* how long it waits for results of other shards, if all begin at once */
};

struct division {
    const struct plan *plan; /* of the panels, if there are any */
    struct units *units;
    struct shard_groups *groups;
    int shards, idle;
    struct numbered_load *of; /* in the order of their numbers */
    struct shard_load sum;
    bool waits;                       /* a shard waits for another */
    double longest_s, mean_s, uneven; /* the longest with what it waits; the mean without; longest over mean */
    double read_bytes_per_s, write_bytes_per_s;
    double files_s;                      /* of reading and writing everything */
    double all_at_once_s, one_process_s; /* how long the job takes, by all these shards and undivided */
    int useful_shards;                   /* the fewest that are done as soon as any number is: more gain nothing */
    int files_shards;                    /* the fewest that compute no longer than files take; 0: no number does */
    bool tiles_help;                     /* longest_s would be shorter with panels, and there are none */
};

/* Divides a plan as `run --shard` does. Free with division_free, before the plan. */
struct division *division_make(const struct plan *whole, const struct division_terms *terms);
void division_free(struct division *division);

#endif
