/* same_bits.h - may a loop of a run be cut, and the result still have the same bits?
 *
 * A kernel may sum in another way when a launch has another shape (kernel->way: it splits k where there are few
 * tiles). So the parts' launches are compared with the whole's: of full tiles and of the last ones along every loop. */
#ifndef RUNNER_SAME_BITS_H
#define RUNNER_SAME_BITS_H

#include "plan.h"

/* Do launches of these sizes along `loop`, of which sizes[0] is the whole's, give their elements the same bits on a
 * device of so many multiprocessors? The other loops have the tiling's sizes. A run that is skipped has no bits. */
bool same_bits_at_sizes(const struct geometry *geometry, const struct run *run, const struct tiling *tiling, int loop,
                        const int64_t *sizes, int count, int multiprocessors);
/* The same for a loop that is cut into `parts` even parts, each of which is then cut into tiles, for any device of
 * today's numbers of multiprocessors: processes on different nodes must all find the same. */
bool same_bits_in_parts(const struct geometry *geometry, const struct run *run, int loop, int parts);

#endif
