/* plan_shards.h - what `tilerun plan --shards N` shows: what each shard of a job would do, how evenly they are loaded,
 * and up to how many more of them make the job faster. */
#ifndef RUNNER_PLAN_SHARDS_H
#define RUNNER_PLAN_SHARDS_H

#include "../divide/division.h"

/* A row for each shard, of many the longest, at most `width` columns wide (0: as wide as it is). */
void plan_print_shards(const struct plan *plan, const struct division_terms *terms, int width, FILE *to);
void plan_print_shards_json(const struct plan *plan, const struct division_terms *terms, FILE *to);

#endif
