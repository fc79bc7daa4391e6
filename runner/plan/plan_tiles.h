/* plan_tiles.h - chooses a run's tiles by their memory, traffic and predicted time. */
#ifndef RUNNER_PLAN_TILES_H
#define RUNNER_PLAN_TILES_H

#include "plan.h"

/* Fills `tiling`, whose storages are set, for a run whose kernel and choice are set. Of all tilings whose buffers fit
 * into `budget` bytes it takes the one with the least cost. With `whole` it takes a single step wherever that fits,
 * because a kernel can be timed repeatedly only on operands that are all in place. false: none fits;
 * tiling->memory_bytes is what the smallest one needs. */
bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                int64_t budget, bool whole, struct tiling *tiling);

/* The tiles of a run on a part of the geometry that `whole` is of: as large, and the same along every loop that the
 * part has whole. */
void plan_tiles_of_part(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                        const struct tiling *whole, struct tiling *tiling);

/* Predicts the times of a run in its tiles, by facts->limits where they are known. */
void plan_predict(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                  struct tiling *tiling);

/* The launch for a full tile with NULL operands, for asking a kernel about it ahead of time. */
struct launch plan_launch(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                          const struct tiling *tiling);

#endif
