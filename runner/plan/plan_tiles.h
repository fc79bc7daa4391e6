/* plan_tiles.h - which tiles a run works in: the part of plan.c that knows about memory and traffic. */
#ifndef RUNNER_PLAN_TILES_H
#define RUNNER_PLAN_TILES_H

#include "plan.h"

/* Fills `tiling`, whose storages are set, for a run whose kernel and choice are: of all tilings whose buffers fit into
 * `budget` bytes the one with the least predicted time; with `whole` a single step wherever that fits, since a kernel
 * can be timed again and again only on operands that are in place. false: none fits; `memory_bytes` is then what the
 * smallest one needs. */
bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                int64_t budget, bool whole, struct tiling *tiling);

/* The launch for a full tile, whose operands are nowhere yet: what a kernel is asked about ahead of time. */
struct launch plan_launch(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                          const struct tiling *tiling);

#endif
