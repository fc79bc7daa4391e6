/* members.h - `parallel: runs`: each device of a job's team does a share of its runs by itself, at the same time as the
 * others. Each has a process, which is a shard of the job; then the shards are merged. */
#ifndef RUNNER_MEMBERS_H
#define RUNNER_MEMBERS_H

#include "../plan/plan.h"

/* In such a process: leaves only its own device in the facts of a team. */
void members_choose(struct device_facts *facts);
/* For how many devices the plan's job wants processes; 1: for none, or this is one of them. */
int members_count(const struct plan *plan);

/* Runs `tilerun ARGUMENTS --shard I/N --by runs` for each member and `tilerun merge OUTPUT` after them. `merge` has the
 * options of the latter, up to NULL. The status is the worst of them; what failed has said so itself.
 * STATUS_INTERRUPTED after a signal, which all of them get. */
enum status members_run(int members, int argc, char **argv, const char *output, const char *const *merge,
                        struct error *error);

#endif
