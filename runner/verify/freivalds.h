/* freivalds.h - which elements of a large product are most likely wrong? Freivalds' check, C r = f A (B r) for a random
 * r, made to tell where; f is the factor that operation.h has a product state.
 *
 * The rows of C are cut into blocks and so are its columns. For each column and each block of rows the weighed sum of
 * the elements is compared with the same of f A B, and for each row and each block of columns: an element is in
 * one sum with others of its column and in one with others of its row, so that it cannot hide behind larger ones, be
 * they in other columns or in other rows. Weights are random, between 1/2 and 1 of either sign, divided by the size of
 * the row of A, or column of B, that they stand for.
 *
 * The difference of such a sum over h elements from the truth is made up of h rounding errors of random sign: about
 * sqrt(h) of them, while an element that is wrong by d adds d/2 or more. The sums that differ most for their size are
 * suspects, and verify.c compares all their elements with the truth. So nothing right can be judged wrong, and a wrong
 * element is missed only where d is less than what rounding does to the sums among the suspects, or where it is
 * cancelled in both of its sums by other wrong ones. */
#ifndef RUNNER_FREIVALDS_H
#define RUNNER_FREIVALDS_H

#include "../plan/plan.h"

struct freivalds; /* weights and sums of f A B, for one task: the same for all its variants */

/* Reads A three times and B twice. `seed` chooses the weights. */
enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader, const struct run *run,
                              uint64_t seed, struct freivalds **result, struct error *error);

/* Boxes of C to be compared, the most suspect first.
 *
 * What NaN and infinity do to sums is kept out of them: an input that is not finite makes a whole row or column of C
 * not finite, which is seen directly. Any other element of C that is not finite is a suspect by itself where there can
 * be no overflow; where there can, up to SUSPECT_OVERFLOWS squares around such elements are suspects. */
#define SUSPECT_LINES     8 /* columns' sums, and rows' */
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
