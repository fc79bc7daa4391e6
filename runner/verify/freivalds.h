/* freivalds.h - finds the elements of a large product that are most likely wrong, by Freivalds' check C r = f A (B r)
 * for random r, changed so that it locates errors. f is the product's factor (operation.h).
 *
 * The rows of C are cut into blocks, and so are its columns. For each column and each block of rows, the weighted sum
 * of the elements is compared with the same sum of f A B; likewise for each row and each block of columns. So an
 * element is in one sum with elements of its column and in one with elements of its row, and cannot hide behind larger
 * elements that are in other columns or in other rows. Weights are random, between 1/2 and 1 in size and of either
 * sign, divided by the size of the row of A, or of the column of B, that they stand for.
 *
 * The difference of a sum over h elements from the truth is made up of h rounding errors of random sign: about sqrt(h)
 * of them. An element that is wrong by d adds d/2 or more. The sums that differ most for their size are suspects, and
 * verify.c compares all their elements with the truth. So no right element is judged wrong. A wrong element is missed
 * only if d is less than what rounding does to the suspect sums, or if other wrong elements cancel it in both of its
 * sums. */
#ifndef RUNNER_FREIVALDS_H
#define RUNNER_FREIVALDS_H

#include "../plan/plan.h"

struct freivalds; /* weights and sums of f A B for one task, shared by its variants */

/* Reads the larger operand twice and the other three times; or, if they are the `same` array, that three times. `seed`
 * chooses the weights. The caller frees *result. STATUS_RUN: the host is out of memory. */
enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader, const struct run *run,
                              bool same, uint64_t seed, struct freivalds **result, struct error *error);

/* Boxes of C to be compared, the most suspect first.
 *
 * NaN and infinity are kept out of the sums. An input that is not finite makes a whole row or column of C not finite,
 * which is checked directly. Any other element of C that is not finite is a suspect by itself if it cannot have
 * overflowed; of squares around elements that may have overflowed, up to SUSPECT_OVERFLOWS are suspects. */
#define SUSPECT_LINES     8 /* sums of columns, and as many of rows */
#define SUSPECT_ODDITIES  8
#define SUSPECT_OVERFLOWS 16
#define SUSPECTS          (2 * SUSPECT_LINES + SUSPECT_ODDITIES + SUSPECT_OVERFLOWS)
struct suspects {
    int count;
    struct box box[SUSPECTS];
};

/* Reads C once. */
enum status freivalds_suspects(const struct freivalds *freivalds, const struct geometry *geometry,
                               const struct host_reader *reader, const struct run *run, struct suspects *suspects,
                               struct error *error);
void freivalds_free(struct freivalds *freivalds);

#endif
