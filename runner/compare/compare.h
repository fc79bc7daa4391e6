/* compare.h - two results files side by side: which of their runs belong together, what they say of times and outputs,
 * and what differs between the two otherwise (machine, program, job, inputs). */
#ifndef RUNNER_RESULT_COMPARE_H
#define RUNNER_RESULT_COMPARE_H

#include "../show/result_file.h"
#include "ratio.h"

/* Two stored outputs, element by element. */
struct output_difference {
    bool known;     /* both are stored */
    bool alike;     /* of one shape and type */
    bool identical; /* bit for bit */
    /* The largest difference, by the largest number in either; infinity: other shapes or types, or a NaN or an infinity
     * that only one of them has. */
    double relative;
    int64_t elements; /* of an output */
};

/* Compares two data sets piece by piece, in bounded memory. STATUS_IO, STATUS_USAGE: one cannot be read. */
enum status outputs_compare(const char *base_path, const char *base_name, const char *new_path, const char *new_name,
                            struct output_difference *difference, struct error *error);

/* A run of each file. */
struct run_pair {
    const struct result_row *base, *new;
    struct ratio ratio;
    struct output_difference output;
    /* What the outputs of right runs may differ by, as `relative` measures it: the sum of both tolerances, times the
     * root of the terms that make an element, because errors are judged by the size of these terms. NaN: unknown. */
    double allowed;
    bool worse;     /* the result got worse, and `note` says how */
    char note[320]; /* "" if there is nothing to say */
};

struct compare_options {
    double threshold; /* of times: 0.05 is 5 % */
    bool outputs;     /* compare stored outputs too */
};

struct comparison {
    const struct results_file *base, *new;
    int count;
    struct run_pair *pairs; /* in the order of `base` */
    int base_only_count, new_only_count;
    const struct result_row **base_only, **new_only;
    /* The first pair that was measured on different devices; NULL: none. Such ratios say nothing of a change. */
    const struct run_pair *other_device;
    bool inputs_differ; /* outputs then differ, too, and this makes no result worse */
};

/* Pairs the runs of two open files by operation, variant, parameters, shape, dtype and kind of device; runs that are
 * alike in all of these by their order. Does not look at times and outputs yet. The caller frees with comparison_free;
 * both files must outlive it. */
void comparison_pair(const struct results_file *base, const struct results_file *new, struct comparison *comparison);
/* Then compares the times and outputs of each pair. */
enum status comparison_judge(struct comparison *comparison, const struct compare_options *options, struct error *error);
void comparison_free(struct comparison *comparison);

/* How many pairs have that verdict. */
int comparison_count(const struct comparison *comparison, enum ratio_verdict verdict);
/* How many results got worse. */
int comparison_worse(const struct comparison *comparison);

/* Something that differs between two files otherwise: "driver_version", "550.54", "560.28". */
struct context_difference {
    char *what, *base, *new; /* "": it has none */
};
struct context {
    int count;
    struct context_difference *items;
};
/* Collects what differs: program, machine, clocks, command line, job, inputs; of what only one of the files records
 * little is said. Sets comparison->inputs_differ: call it before comparison_judge. The caller frees with
 * context_free. */
struct context context_compare(struct comparison *comparison);
void context_free(struct context *context);
/* Leaves out what is called `what`. */
void context_forget(struct context *context, const char *what);

/* Print for people: the two files, what differs, and one row a pair with the runs that have no partner. `news`:
 * comparisons of one base, a column each if they are several. `sort`: what got worse first, then the slowest. */
void comparison_print_files(const struct comparison *comparison, FILE *to);
void context_print(const struct context *context, FILE *to);
void comparisons_print(const struct comparison *news, int count, bool sort, FILE *to);
void comparison_print_counts(const struct comparison *comparison, FILE *to);
void comparisons_print_json(const struct comparison *news, const struct context *contexts, int count, double threshold,
                            FILE *to);

#endif
