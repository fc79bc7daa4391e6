/* shard_option.h - the options that concern shards: `--shard`, `--shards`, `--by`, and the default of `--wait`. */
#ifndef RUNNER_SHARD_OPTION_H
#define RUNNER_SHARD_OPTION_H

#include "../divide/shard.h"
#include "option.h"

/* For option_row.parse, with a `struct shard` as field: "3/8" (shard 3 of 8, from 0) or "auto", which reads the
 * variables of a Slurm array, Slurm's ranks, Open MPI or PMI, in this order. STATUS_USAGE: the argument is neither, or
 * no variable is set. */
enum status option_shard(const struct option_row *row, const char *argument, void *field, struct error *error);
/* For option_row.parse: stores a number of shards, from 1 to MAX_SHARDS, as an int. */
enum status option_shard_count(const struct option_row *row, const char *argument, void *field, struct error *error);

#define DEFAULT_WAIT_S 86400.0 /* tasks of an array may begin hours apart */

/* An option that takes "runs" or "tiles" and stores it as an enum shard_by. */
#define ROW_BY(structure, member, help)                                                                                \
    { "by", 0, "runs|tiles", help, PARSE_CHOICE(structure, member), CHOICES("runs", "tiles"), .number = SHARD_BY_RUNS }

#endif
