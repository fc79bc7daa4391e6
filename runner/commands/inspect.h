/* inspect.h - what `tilerun inspect` knows of a file: shared by inspect.c, inspect_table.c and inspect_job.c. */
#ifndef RUNNER_INSPECT_H
#define RUNNER_INSPECT_H

#include "../storage/untrusted/h5list.h"
#include "command.h"

/* A data set as the input of a job. */
struct candidate {
    struct h5_entry *entry;
    struct job_input source;
    struct array array;
    char *pattern; /* --job: it and the data sets behind the next links are one array in these files; NULL: not */
    struct error unusable;        /* STATUS_OK: it can be an input, and `array` describes it */
    double bytes_per_s;           /* predicted, of its elements */
    bool described;               /* `array` or `unusable` is known */
    bool hidden;                  /* it is listed in a line for several */
    const struct candidate *like; /* it is hidden, for it is like this one, which stands for it; NULL: it is not */
    int alike;                    /* how many this one stands for, in the table... */
    const char *last_alike;       /* ...and the last of them */
};

struct view {
    char *path;
    struct h5_list list;
    int usable;           /* those that can be inputs, counted once */
    int left_out;         /* hidden, and like none in the table */
    struct candidate *of; /* one an entry */
};

/* The bytes of its elements, as a job sees them. */
double inspect_bytes(const struct candidate *it);
/* Why it cannot be an input, without the file and name that stand beside it; in short, up to a semicolon. The caller
 * frees. */
char *inspect_reason(const struct view *view, const struct candidate *it, bool in_short);
/* "12 strings, 3 filters that are not here": what there is instead of inputs. The caller frees. */
char *inspect_reasons(const struct view *view);

/* What it is for, if not for its values: "coordinates"; "" else. */
const char *inspect_use(const struct h5_entry *entry);
/* What a reader should know: axes in MATLAB's order, chunks that are slow to read. */
void inspect_print_remarks(const struct view *view);

/* Hides all but the first of those that are alike, if there are more data sets to list than a screen holds. */
void inspect_fold(struct view *view);
void inspect_print_table(struct view *view);
/* Orders pointers to candidates: what can be an input, what is for its values, the largest; then by name. */
int inspect_compare(const void *one, const void *other);
/* A job to begin with. STATUS_USAGE: a job can read nothing of the file. */
enum status inspect_print_job(struct view *view, struct error *error);

#endif
