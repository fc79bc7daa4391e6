/* columns.h - the columns of /runs, as HDF5, CSV and JSON have them: those of every file, and after `parameters`
 * one for each swept parameter of the rows. */
#ifndef RUNNER_COLUMNS_H
#define RUNNER_COLUMNS_H

#include "swept.h"

enum column_kind { COLUMN_TEXT, COLUMN_INT32, COLUMN_INT64, COLUMN_REAL };

struct column {
    char name[2 + JOB_NAME_BYTES]; /* "status"; "p_n" */
    enum column_kind kind;
    size_t size;   /* bytes of an element; of a text with its NUL */
    size_t offset; /* in struct result_row, unless it is a swept parameter's */
    const struct swept_column *swept;
};

/* Those of every file, in its order. */
extern const struct column fixed_columns[];
extern const int fixed_column_count;

struct columns {
    int count;
    struct column *of;
    struct swept swept;
};
/* The columns of some rows. The caller frees with columns_free. */
struct columns columns_of(const struct result_row *rows, int count);
void columns_free(struct columns *columns);

/* What a row has in a column. */
struct cell {
    enum column_kind kind;
    bool absent;      /* the row does not depend on the parameter: NaN or "" in HDF5 */
    const char *text; /* not terminated: a last character that was cut is left out */
    size_t length;
    int64_t integer;
    double real;
};
/* `number`: the row's number among the rows that the columns are of. */
struct cell column_cell(const struct column *column, const struct result_row *row, int number);

#endif
