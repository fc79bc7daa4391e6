/* compare.h - compares two results files: pairs their runs, judges times and outputs of each pair, and lists other
 * differences (machine, program, job, inputs). */
#ifndef RUNNER_RESULT_COMPARE_H
#define RUNNER_RESULT_COMPARE_H

#include "../show/result_file.h"
#include "ratio.h"

/* The difference between two stored outputs. */
struct output_difference {
    bool known;     /* both outputs are stored */
    bool alike;     /* they have the same shape and type */
    bool identical; /* bit for bit */
    /* The largest difference of two elements, divided by the largest element of both; infinity: shapes or types differ,
     * or only one has a NaN or an infinity at some position. */
    double relative;
    int64_t elements; /* number of elements of one output */
};

/* Compares two data sets piece by piece, in bounded memory. STATUS_IO, STATUS_USAGE: one cannot be read. */
enum status outputs_compare(const char *base_path, const char *base_name, const char *new_path, const char *new_name,
                            struct output_difference *difference, struct error *error);

/* The same run in both files, and how it differs. */
struct run_pair {
    const struct result_row *base, *new;
    struct ratio ratio;
    struct output_difference output;
    /* The largest allowed `output.relative` of right runs: the sum of both tolerances, times the square root of the
     * number of terms that are summed for an element, because errors are relative to the size of these terms. NaN:
     * unknown. */
    double allowed;
    bool in_cycles; /* the ratio is one of clock cycles: time multiplied by the device's clock, known for both runs */
    bool busy;  /* other programs used the CPUs during a run, or the cores' speeds differ: neither faster nor slower */
    bool noisy; /* the interval of the ratio, or of a run's median, is wider than a quarter */
    bool bimodal;   /* the samples of a run form two groups */
    bool worse;     /* the result got worse; `note` explains it */
    char note[320]; /* sentences; "": there is nothing to note */
};

#define DEFAULT_THRESHOLD 0.03
struct compare_options {
    double threshold; /* the smallest change of a time that counts: 0.05 is 5 % */
    bool outputs;     /* compare stored outputs too */
};

/* Two files and their runs. */
struct comparison {
    const struct results_file *base, *new;
    int count;
    struct run_pair *pairs; /* sorted like `base` */
    int base_only_count, new_only_count;
    const struct result_row **base_only, **new_only;
    /* The first pair that was measured on different devices, whose ratio does not show a change of the code; NULL:
     * there is none. */
    const struct run_pair *other_device;
    bool inputs_differ; /* then different outputs do not count as worse */
};

/* Pairs the runs of two open files by operation, variant, parameters, shape, dtype and kind of device; runs that are
 * equal in all of these are paired in their order. Does not compare times and outputs yet. The caller frees with
 * comparison_free; both files must outlive it. */
void comparison_pair(const struct results_file *base, const struct results_file *new, struct comparison *comparison);
/* Compares the times and outputs of each pair, after comparison_pair. STATUS_IO, STATUS_USAGE: samples or an output
 * cannot be read. */
enum status comparison_judge(struct comparison *comparison, const struct compare_options *options, struct error *error);
/* Keeps only the runs that meet all conditions of `where` ("op=matmul", "n>=512"; show/result_view.h). Call it before
 * comparison_judge. STATUS_RUN: no run of the base is left. */
enum status comparison_filter(struct comparison *comparison, const char *const *where, int count, struct error *error);
void comparison_free(struct comparison *comparison);

/* The row of a file that is paired with this row of another file; NULL: there is none. */
const struct result_row *comparison_partner(const struct results_file *file, const struct result_row *row);
/* Judges the times of a pair by the samples of its runs. */
void run_pair_judge(struct run_pair *pair, const struct samples *base, const struct samples *new, double threshold);

/* The number of pairs with that verdict. */
int comparison_count(const struct comparison *comparison, enum ratio_verdict verdict);
/* Returns a word that qualifies a pair's verdict; "": nothing does. "cycles": clock cycles are compared, not seconds.
 * If the verdict is UNSURE: "busy": other processes used the CPUs, or the cores' speeds differ; "single": a run has one
 * sample; "floor": more samples would not help. For any verdict: "noisy", "bimodal", as in struct run_pair. */
const char *comparison_reason(const struct run_pair *pair);
/* The number of results that got worse. */
int comparison_worse(const struct comparison *comparison);

/* Another difference between two files: "driver_version", "550.54", "560.28". */
struct context_difference {
    char *what, *base, *new; /* base, new: "" if the file does not have it */
};
/* What differs between two files other than times and outputs. */
struct context {
    int count;
    struct context_difference *items;
};
/* Lists differences of program, machine, clocks, command line, job and inputs. It mostly ignores facts that only one
 * file records. Sets comparison->inputs_differ, so call it before comparison_judge. The caller frees with
 * context_free. */
struct context context_compare(struct comparison *comparison);
void context_free(struct context *context);
/* Removes the differences called `what`. */
void context_forget(struct context *context, const char *what);

/* Puts results that got worse first, then the largest ratios. A table of several new files needs the pairs unsorted. */
void comparison_sort(struct comparison *comparison);

/* Print for people: the two files, the context, a table of the pairs, and what is not in it, such as runs without a
 * partner. `news`: comparisons with the same base; if there are several, each gets a column, and `sort` orders the rows
 * as comparison_sort does. `markdown`: the table is one in GitHub's Markdown. */
void comparison_print_files(const struct comparison *comparison, FILE *to);
void context_print(const struct context *context, FILE *to);
void comparisons_print_table(const struct comparison *news, int count, bool sort, bool markdown, FILE *to);
void comparisons_print_rest(const struct comparison *news, int count, FILE *to);
/* Prints the counts of verdicts, and the geometric mean of the ratios of each operation that has several. */
void comparison_print_counts(const struct comparison *comparison, FILE *to);
/* Prints a line for each pair of each new file, with the numbers of the JSON. */
void comparisons_print_csv(const struct comparison *news, int count, FILE *to);
/* Prints all numbers of all pairs, the contexts, and the runs without a partner as one JSON object. */
void comparisons_print_json(const struct comparison *news, const struct context *contexts, int count, double threshold,
                            FILE *to);

#endif
