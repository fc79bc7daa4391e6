/* shard_option.h - the value of `--shard`: I/N, or `auto` for what the batch system says of this process; and N alone.
 */
#ifndef RUNNER_SHARD_OPTION_H
#define RUNNER_SHARD_OPTION_H

#include "../divide/shard.h"
#include "command.h"

/* Reads "3/8" (zero-based) or "auto": Slurm's array, Slurm's ranks, those of Open MPI, those of PMI, in this order.
 * STATUS_USAGE: it is neither, or no variable is set. */
enum status command_shard(const struct command *command, const char *text, int *index, int *count, struct error *error);
/* Reads the value of `--by`. STATUS_USAGE: it is neither "runs" nor "tiles". */
enum status command_shard_by(const struct command *command, const char *text, enum shard_by *by, struct error *error);
/* Reads the value of `--wait`. STATUS_USAGE: it is no number of seconds. */
enum status command_shard_wait(const struct command *command, const char *text, double *seconds, struct error *error);
#define SHARD_WAIT_S 86400.0 /* without the option; the tasks of an array may begin hours apart */
/* Reads the number of shards that an option such as "--shards" gives. STATUS_USAGE: it is none, or out of range. */
enum status command_shard_count(const struct command *command, const char *option, const char *text, int *count,
                                struct error *error);

#endif
