/* freivalds.h - is a whole matrix product right? Freivalds' check: for a random vector r of signs, C r must equal
 * alpha A (B r), which costs three matrix-vector products instead of a matrix product. */
#ifndef RUNNER_FREIVALDS_H
#define RUNNER_FREIVALDS_H

#include "verify.h"

struct freivalds; /* r, alpha A (B r) and the norms, for one task: the same for all its variants */

/* Reads A and B once. */
enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader,
                              struct freivalds **result, struct error *error);

/* Rows of C that the check can say nothing of: their inputs hold a NaN or an infinity, or the row does and may have
 * overflowed. One such element hides all others of its row. They have to be compared with the truth themselves. */
#define UNSURE_ROWS 24
struct unsure_rows {
    int64_t count;               /* of them all */
    struct box row[UNSURE_ROWS]; /* the first min(count, UNSURE_ROWS) are set: a random choice of all */
};

/* Reads C once. A miss turns verdict->right false and says which row.
 *
 * Rounding errors e_ij of C are bounded by tolerance * (|A||B|)_ij <= tolerance * |A_i| |B_j|. The signs make their sum
 * over j a sub-Gaussian variable of deviation at most tolerance * |A_i| |B|_F, so a right row misses by more than 8 of
 * those once in 10^14, while an element that is off by more than that is always seen in one of two vectors.
 *
 * That part of the tolerance of float16 and bfloat16 which stands for the rounding of the result counts by what was
 * rounded, epsilon * |C_i|, far less than epsilon * |A_i| |B|_F: else whole rows could be wrong unseen. To be added are
 * the roundings of this check's own sums and, for the narrow types, what is lost below their least number. */
enum status freivalds_check(const struct freivalds *freivalds, const struct geometry *geometry,
                            const struct host_reader *reader, struct verdict *verdict, struct unsure_rows *unsure,
                            struct error *error);
void freivalds_free(struct freivalds *freivalds);

#endif
