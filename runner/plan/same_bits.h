/* same_bits.h - checks that a run gives the same bits if one of its loops is cut into parts.
 *
 * A kernel may sum in another order when a launch has another shape (kernel->way: for instance, it splits k if there
 * are few tiles). So the launches of the parts are compared with the launch of the uncut loop: for full tiles and for
 * the last tiles along every loop. */
#ifndef RUNNER_SAME_BITS_H
#define RUNNER_SAME_BITS_H

#include "plan.h"

/* Do launches with sizes[1], sizes[2], ... along `loop` give each element the same bits as one with sizes[0], on a
 * device with that many multiprocessors? Sizes of 0 are left out. The other loops have the tiling's sizes. true for a
 * skipped run. */
bool same_bits_at_sizes(const struct geometry *geometry, const struct run *run, const struct tiling *tiling, int loop,
                        const int64_t *sizes, int count, int multiprocessors);
/* Does a run give the same bits if a loop is cut into `parts` even parts, each of which is then cut into tiles? Checks
 * common numbers of multiprocessors instead of this device's, because processes on different nodes must come to the
 * same answer. */
bool same_bits_in_parts(const struct geometry *geometry, const struct run *run, int loop, int parts);

#endif
