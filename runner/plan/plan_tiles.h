/* plan_tiles.h - chooses a run's tiles by memory, traffic and predicted time. */
#ifndef RUNNER_PLAN_TILES_H
#define RUNNER_PLAN_TILES_H

#include "plan.h"

/* Chooses `tiling` for a run: of all tilings whose buffers fit into `budget` bytes the one with the least cost. With
 * `prefer_one_step` a single step is preferred if it fits, because a kernel can be timed repeatedly only while all its
 * operands are on the device. The run's kernel and choice and the tiling's storages must be set. false: no tiling fits;
 * tiling->memory_bytes is the minimum that is needed. */
bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                int64_t budget, bool prefer_one_step, struct tiling *tiling);

/* Makes the tiling of a run on a part of a geometry whose tiling is `undivided`: the tiles have the same size and,
 * along loops that the part does not cut, the same boundaries. */
void plan_tiles_of_part(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                        const struct tiling *undivided, struct tiling *tiling);

/* Predicts the times of a run with these tiles, by facts->limits if they are known. */
void plan_predict(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                  struct tiling *tiling);

/* A launch with NULL operands, for asking a kernel about it during planning: for a tile of `count` elements along each
 * loop on so many multiprocessors (plan_launch_of), or for a full tile of the run on its device (plan_launch). */
struct launch plan_launch_of(const struct geometry *geometry, const struct run *run, const int64_t count[LOOPS],
                             int multiprocessors);
struct launch plan_launch(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                          const struct tiling *tiling);

#endif
