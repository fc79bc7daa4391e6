/* swept.h - splits labels of swept parameters into columns. */
#ifndef RUNNER_SWEPT_H
#define RUNNER_SWEPT_H

#include "row.h"

enum swept_kind { SWEPT_INTEGER, SWEPT_REAL, SWEPT_TEXT };

/* One swept parameter, `p_NAME` in tables. */
struct swept_column {
    char name[JOB_NAME_BYTES]; /* "n" */
    enum swept_kind kind;      /* the narrowest kind that holds all values */
    /* For each row. A row that does not depend on the parameter has "" and NaN; a text has NaN. `number` rounds
     * integers beyond 2^53. */
    char (*text)[JOB_LABEL_BYTES];
    double *number;
};
struct swept {
    int count;
    struct swept_column *columns;
};
/* Splits the rows' labels ("n=512,dtype=float32") into columns, in the order in which the labels name them. The caller
 * frees with swept_free. */
struct swept swept_of(const struct result_row *rows, int count);
/* Like swept_of, but splits the labels of variants ("tiled,tile=16"). */
struct swept swept_of_variants(const struct result_row *rows, int count);
/* Adds a column that has the same text in all rows. */
void swept_add(struct swept *swept, const char *name, const char *text, int rows);
void swept_free(struct swept *swept);

#endif
