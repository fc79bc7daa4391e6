/* columns.h - defines the columns of /runs in HDF5, CSV and JSON: the fixed ones of every file and, after `parameters`,
 * one for each swept parameter of the rows. */
#ifndef RUNNER_COLUMNS_H
#define RUNNER_COLUMNS_H

#include "swept.h"

enum column_kind { COLUMN_TEXT, COLUMN_INT32, COLUMN_INT64, COLUMN_REAL };

/* A column of /runs, or one made of labels or tags in its form. */
struct column {
    char name[4 + JOB_NAME_BYTES]; /* "status"; "p_n"; "v_tile"; "tag.card" */
    enum column_kind kind;
    size_t size;                      /* bytes of an element; of a text, with its NUL */
    size_t offset;                    /* of the field in struct result_row, for a fixed column */
    const struct swept_column *swept; /* the swept parameter, or a tag, the same in all rows; NULL: a fixed column */
};

/* The columns of every file, in their order. */
extern const struct column fixed_columns[];
extern const int fixed_column_count;

struct columns {
    int count;
    struct column *items;
    struct swept swept;
};
/* Makes the columns of /runs for some rows. The caller frees with columns_free. */
struct columns columns_of(const struct result_row *rows, int count);
/* A tag of the file that rows are from. */
struct tag {
    char *name, *text;
};
/* Makes a column "tag.NAME" for each of `count` tags, for `rows` rows. The caller frees with columns_free. */
struct columns columns_of_tags(const struct tag *tags, int count, int rows);
/* Makes a column "v_NAME" for each parameter of the rows' variants. The caller frees with columns_free. */
struct columns columns_of_variants(const struct result_row *rows, int count);
void columns_free(struct columns *columns);

/* The value of a row in a column. */
struct column_value {
    enum column_kind kind;
    bool absent;      /* the row does not depend on the parameter: NaN or "" in HDF5 */
    const char *text; /* not NUL-terminated: `length` excludes a truncated last character */
    size_t length;
    int64_t integer;
    double real;
};
/* Reads the value of a row in a column. `number`: the row's index in the rows for which the column was made. */
struct column_value column_cell(const struct column *column, const struct result_row *row, int number);

#endif
