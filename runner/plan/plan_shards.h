/* plan_shards.h - what `tilerun plan --shards N` shows: what each shard of a job would do, how evenly they are loaded,
 * and up to how many more of them make the job faster. */
#ifndef RUNNER_PLAN_SHARDS_H
#define RUNNER_PLAN_SHARDS_H

#include "plan.h"

/* A row for each shard, of many the longest, at most `width` columns wide (0: as wide as it is). `bytes_per_s`: what
 * the file system gives to all shards together, reading or writing; 0: what one nominal machine gets. */
void plan_print_shards(const struct plan *plan, int shards, double bytes_per_s, int width, FILE *to);
void plan_print_shards_json(const struct plan *plan, int shards, double bytes_per_s, FILE *to);

#endif
