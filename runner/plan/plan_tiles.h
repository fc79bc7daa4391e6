/* plan_tiles.h - which tiles a run works in: the part of plan.c that knows about memory and traffic. */
#ifndef RUNNER_PLAN_TILES_H
#define RUNNER_PLAN_TILES_H

#include "plan.h"

/* Fills the tile part of `run` (run->kernel, choice and the storages are set): of all tilings whose buffers fit into
 * `budget` bytes the one with the least predicted time; with `whole` a single step wherever that fits, since a kernel
 * can be timed again and again only on operands that are in place. false: none fits; `run->memory_bytes` is then what
 * the smallest one needs. */
bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, int64_t budget, bool whole,
                struct run *run);

/* The launch for the run's full tile, whose operands are nowhere yet: what a kernel is asked about ahead of time. */
struct launch plan_launch(const struct geometry *geometry, const struct device_facts *facts, const struct run *run);

#endif
