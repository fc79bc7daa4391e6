/* swept.h - swept parameters as columns of their own. */
#ifndef RUNNER_SWEPT_H
#define RUNNER_SWEPT_H

#include "row.h"

enum swept_kind { SWEPT_INTEGER, SWEPT_REAL, SWEPT_TEXT };

/* One swept parameter, `p_NAME` in tables. */
struct swept_column {
    char name[JOB_NAME_BYTES]; /* "n" */
    enum swept_kind kind;      /* of all its values: integers, numbers, else texts */
    /* By row. A row that does not depend on the parameter has "" and NaN; a text has NaN. An integer beyond 2^53 is
     * rounded in `number`. */
    char (*text)[JOB_LABEL_BYTES];
    double *number;
};
struct swept {
    int count;
    struct swept_column *columns;
};
/* Takes the rows' labels ("n=512,dtype=float32") apart; columns in the order in which the labels name them. The caller
 * frees with swept_free. */
struct swept swept_of(const struct result_row *rows, int count);
void swept_free(struct swept *swept);

#endif
