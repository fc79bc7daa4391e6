/* shard_option.h - the value of `--shard`: I/N, or `auto` for what the batch system says of this process. */
#ifndef RUNNER_SHARD_OPTION_H
#define RUNNER_SHARD_OPTION_H

#include "command.h"

#define MOST_SHARDS 100000

/* Reads "3/8" (zero-based) or "auto": Slurm's array, Slurm's ranks, those of Open MPI, those of PMI, in this order.
 * STATUS_USAGE: it is neither, or no variable is set. */
enum status command_shard(const struct command *command, const char *text, int *index, int *count, struct error *error);

#endif
