/* inspect.h - lists the data sets of a file as possible inputs of a job, and prints the listing. */
#ifndef RUNNER_INSPECT_H
#define RUNNER_INSPECT_H

#include "../storage/untrusted/h5list.h"
#include "command.h"

/* A data set that may be an input of a job. */
struct input_candidate {
    struct h5_entry *entry;
    struct job_input source;
    struct array array;
    struct error unusable; /* STATUS_OK: the data set can be an input, and `array` describes it */
    bool described;        /* `array` or `unusable` is known */
    bool by_field;         /* unusable as a whole, but a job can read its fields */
    double bytes_per_s;    /* predicted rate of reading */
    char *pattern; /* --job: of the files in which this link and the next ones are one array; NULL: it stands alone */
    bool hidden;   /* the candidate has no row of its own */
    const struct input_candidate *like; /* the candidate whose row represents this one; NULL: there is none */
    int alike;                          /* number of hidden candidates that this row represents... */
    const char *last_alike;             /* ...and the name of the last of them */
};

struct listing {
    char *path;
    struct h5_list list;
    struct input_candidate *candidates; /* one for each entry of the list */
    int usable;                         /* how many can be inputs, as a whole or by field */
    int left_out;                       /* how many are hidden and like no row */
};

/* Lists the data sets at or below `object`. Describes those that get a row, and those whose elements are in other
 * files, because the files may be missing. `all`: each data set gets a row. Free with listing_free in any case. */
enum status listing_make(const char *path, const char *object, bool all, struct listing *listing, struct error *error);
void listing_free(struct listing *listing);
/* Counts the data sets that cannot be inputs, by reason: "12 strings, 3 missing filters". The caller frees. */
char *listing_reasons(const struct listing *listing);

/* Describes the candidate's source as an input: sets `array` or `unusable`, and returns the status of the latter. */
enum status candidate_describe(struct input_candidate *candidate);
/* The bytes of the candidate's elements in memory, as a job sees them. */
double candidate_bytes(const struct input_candidate *candidate);
/* The reason why a candidate cannot be an input, without its file and name. `in_short`: up to a semicolon. The caller
 * frees. */
char *candidate_reason(const struct listing *listing, const struct input_candidate *candidate, bool in_short);
/* The use of a data set whose values are not meant for computing: "coordinates", "logical"; "": they are, or it cannot
 * be an input. */
const char *candidate_use(const struct h5_entry *entry);
/* Compares pointers to candidates: possible inputs first, then by kind, the largest first, then by name. */
int candidate_compare(const void *one, const void *other);

/* Prints a table of the data sets, and remarks. */
void inspect_print_table(struct listing *listing);
/* Prints the only data set of the listing, in detail. */
void inspect_print_one(struct listing *listing);
/* Prints a job to begin with. STATUS_USAGE: a job can read nothing of the file, or cannot name it. */
enum status inspect_print_job(struct listing *listing, struct error *error);

#endif
