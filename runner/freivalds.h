/* freivalds.h - is a whole matrix product right? Freivalds' check: for a random vector r of signs, C r must equal
 * alpha A (B r), which costs three matrix-vector products instead of a matrix product. */
#ifndef RUNNER_FREIVALDS_H
#define RUNNER_FREIVALDS_H

#include "verify.h"

struct freivalds; /* r, alpha A (B r) and the norms, for one task: the same for all its variants */

/* Reads A and B once. */
enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader,
                              struct freivalds **result, struct error *error);
/* Reads C once. A miss turns verdict->right false and says which row.
 *
 * Rounding errors e_ij of C are bounded by tolerance * (|A||B|)_ij <= tolerance * |A_i| |B_j|. The signs make their sum
 * over j a sub-Gaussian variable of deviation at most tolerance * |A_i| |B|_F, so a right row misses by more than 8 of
 * those once in 10^14, while an element that is off by more than that is always seen in one of two vectors. */
enum status freivalds_check(const struct freivalds *freivalds, const struct geometry *geometry,
                            const struct host_reader *reader, struct verdict *verdict, struct error *error);
void freivalds_free(struct freivalds *freivalds);

#endif
