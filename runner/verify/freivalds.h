/* freivalds.h - finds the elements of a large product that are most likely wrong, by Freivalds' check C r = f A (B r)
 * for random r, extended so that it locates errors. f is the product's factor (operation.h).
 *
 * The rows of C are cut into blocks, and so are its columns. For each column and each block of rows, the weighted sum
 * of the elements is compared with the same sum of f A B; likewise for each row and each block of columns. So an
 * element is in one sum with elements of its column and in one with elements of its row, and larger elements in other
 * rows and columns cannot hide it. The weights are random, between 1/2 and 1 in size and of either sign, divided by the
 * size of the row of A, or of the column of B, that they belong to.
 *
 * A sum over h elements contains h rounding errors. Their signs are random, so together they are about sqrt(h) times as
 * large as one. An element that is wrong by d adds d/2 or more. The sums that differ most, relative to their size, are
 * suspects, and verify.c compares all their elements with the truth. So no right element is judged wrong. A wrong
 * element is missed only if d is less than the rounding error of the suspect sums, or if other wrong elements cancel it
 * in both of its sums. */
#ifndef RUNNER_FREIVALDS_H
#define RUNNER_FREIVALDS_H

#include "../plan/plan.h"

/* The next number of a pseudo-random sequence (SplitMix64). */
uint64_t splitmix(uint64_t *state);

struct freivalds; /* weights and sums of f A B for one task, shared by its variants */

/* Chooses the weights by `seed` and computes the sums of f A B. Reads the larger operand twice and the other one three
 * times; if both are the `same` array, reads that three times. The caller frees *result with freivalds_free.
 * STATUS_RUN: the host is out of memory; other statuses are the reader's. */
enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader, const struct run *run,
                              bool same, uint64_t seed, struct freivalds **result, struct error *error);

/* Boxes of C to be compared, the most suspect first.
 *
 * NaN and infinity are excluded from the sums. A non-finite input makes a whole row or column of C non-finite, which is
 * checked directly. Any other non-finite element of C is a suspect by itself if it cannot have overflowed. Around
 * elements that may have overflowed, up to SUSPECT_OVERFLOWS squares are suspects. */
#define SUSPECT_LINES     8 /* parts of rows; the same number of parts of columns */
#define SUSPECT_NONFINITE 8
#define SUSPECT_OVERFLOWS 16
#define SUSPECTS          (2 * SUSPECT_LINES + SUSPECT_NONFINITE + SUSPECT_OVERFLOWS)
struct suspects {
    int count;
    struct box box[SUSPECTS];
};

/* Finds the suspects; reads C once. */
enum status freivalds_suspects(const struct freivalds *freivalds, const struct geometry *geometry,
                               const struct host_reader *reader, const struct run *run, struct suspects *suspects,
                               struct error *error);
/* NULL: does nothing. */
void freivalds_free(struct freivalds *freivalds);

#endif
