/* division.h - the figures of a job divided among shards. Two things end the gain from more shards: the group that
 * takes the longest, since one shard does it whatever their number; and files, since all shards share one file system.
 */
#ifndef RUNNER_DIVISION_H
#define RUNNER_DIVISION_H

#include "panels.h"

struct division_terms {
    int shards;
    enum shard_by by;
    double bytes_per_s; /* that the file system gives to all shards together, reading or writing; 0: not known, so that
                         * it is what one nominal machine gets */
};

struct numbered_load {
    int shard;
    struct shard_load load;
};

struct division {
    const struct plan *plan; /* of the panels, if there are any */
    struct panels *panels;
    struct shard_groups *groups;
    int shards, idle;
    struct numbered_load *of; /* in the order of their numbers */
    struct shard_load sum;
    double longest_s, mean_s, uneven; /* uneven: longest over mean */
    double read_bytes_per_s, write_bytes_per_s;
    double files_s;                      /* of reading and writing everything */
    double all_at_once_s, one_process_s; /* how long the job takes, by all these shards and undivided */
    int useful_shards; /* the fewest whose longest does nothing beside the longest group: more gain nothing */
    int files_shards;  /* the fewest that compute no longer than files take; 0: no number does */
    bool tiles_help;   /* longest_s would be shorter with panels, and there are none */
};

#define DIVISION_UNEVEN 1.25 /* longest over mean from which on the reason is of interest */

/* Divides a plan as `run --shard` does. Free with division_free, before the plan. */
struct division *division_make(const struct plan *whole, const struct division_terms *terms);
void division_free(struct division *division);

#endif
