/* shard_option.h - reads the arguments of `--shard`, `--shards` and `--wait`. */
#ifndef RUNNER_SHARD_OPTION_H
#define RUNNER_SHARD_OPTION_H

#include "../divide/shard.h"
#include "option.h"

/* For option_row.parse, with a `struct shard` as field: "3/8" (shard 3 of 8, from 0) or "auto", which reads the
 * variables of a Slurm array, Slurm's ranks, Open MPI or PMI, in this order. STATUS_USAGE: it is neither, or no
 * variable is set. */
enum status option_shard(const struct option_row *row, const char *argument, void *field, struct error *error);
/* A number of shards, into an int. */
enum status option_shard_count(const struct option_row *row, const char *argument, void *field, struct error *error);
/* A whole number of seconds, into a double. */
enum status option_seconds(const struct option_row *row, const char *argument, void *field, struct error *error);

#define DEFAULT_WAIT_S 86400.0 /* tasks of an array may begin hours apart */

/* An option that takes "runs" or "tiles" and stores it as an enum shard_by. */
#define ROW_BY(structure, member, help)                                                                                \
    { "by", 0, "runs|tiles", help, PARSE_CHOICE(structure, member), CHOICES("runs", "tiles"), .number = SHARD_BY_RUNS }

#endif
