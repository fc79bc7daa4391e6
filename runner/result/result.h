/* result.h - the results file: its parts while the job runs, their assembly at the end.
 *
 *     OUTPUT.parts/KEY.h5     one finished run each: written under another name, then renamed
 *     OUTPUT                  assembled from them: written under another name, synced once, renamed; the parts go
 *
 * A part ends in a trailer that holds the XXH3-128 of all bytes before it; a part whose trailer does not fit (a crash
 * of the machine) is redone. KEY is a hash of the tool's version, the operation's resolved text, the variant and the
 * inputs' hashes. A part keeps its output only where somebody will read it: the operation's first right run, and
 * `store: all`. */
#ifndef RUNNER_RESULT_H
#define RUNNER_RESULT_H

#include "../plan/plan.h"
#include "../stream/measure.h"
#include "../stream/stream.h"
#include "environment.h"

/* One row of /runs; NaN and "" where there is nothing. */
struct result_row {
    int32_t run;
    char operation[JOB_NAME_BYTES], op[16], variant[96], parameters[JOB_LABEL_BYTES], device[16], dtype[16], shape[64],
        status[16];
    int32_t repeats;
    double kernel_median_s, kernel_min_s, kernel_max_s, kernel_mad_s;
    double read_s, h2d_s, d2h_s, write_s, total_s;
    double flops, bytes, gflops, gbytes_per_s;
    double error, tolerance;
    char message[256];
};

/* Fills what the plan alone knows: names, shape, work; status "", numbers NaN. */
void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run);

struct results; /* one job's output, under way */

/* Refuses an OUTPUT that exists (STATUS_USAGE) unless `overwrite` or `resume`, and a place where nothing can be
 * written; makes OUTPUT.parts/. Without `resume` old parts are removed. Takes a lock so that two jobs do not write one
 * output. */
enum status results_open(const char *output, bool overwrite, bool resume, const struct plan *plan,
                         struct results **results, struct error *error);
void results_close(struct results *results);

/* Is OUTPUT there, complete, and made by this version from the same operations and inputs (which must have been
 * hashed)? Then --resume has nothing to do. */
bool results_is_complete(const char *output, const struct plan *plan);

/* The hex key of a run (33 bytes with its NUL). Inputs must have been hashed. */
void results_key(const struct plan *plan, const struct run *run, char key[33]);

/* A part being written. */
struct part;
/* Is there a finished, undamaged part of this run that was `ok` (after results_open with resume)? Then its row. An
 * unusable one is removed and counts as none. Runs must be asked for, or done, in the order of the plan. */
bool results_find(struct results *results, const struct run *run, struct result_row *row);
enum status part_begin(struct results *results, const struct run *run, struct part **part, struct error *error);
/* A sink for stream_run: creates the output's data set with the operation's layout at the first box. */
struct sink part_sink(struct part *part, struct trace *trace);
/* Reads back what the sink wrote (verification). */
struct host_reader part_reader(struct part *part);
/* Completes it: row and samples are stored; the part is closed, checksummed, synced and renamed. Frees the part. */
enum status part_finish(struct part *part, const struct result_row *row, const struct samples *samples,
                        struct error *error);
/* Drops it. */
void part_discard(struct part *part);

/* Opens the stored output of a run's finished part, so that later operations can read it as `array`. */
enum status results_load_output(struct results *results, const struct run *run, struct array *array,
                                struct error *error);

/* What the assembly is told. */
struct result_summary {
    const char *status; /* complete | partial | failed */
    const char *command_line, *created;
    const struct result_row *rows; /* run_count of them, in the order of the plan */
    const int *result_run;         /* for each task the run whose output is the operation's result; -1: none */
    const struct environment *environment;
};
/* Writes OUTPUT from the parts and removes them. */
enum status results_assemble(struct results *results, const struct result_summary *summary, struct error *error);

/* Reads /runs of a results file (or of one that is partial). The caller frees rows. STATUS_USAGE: not such a file. */
enum status results_read_rows(const char *path, struct result_row **rows, int *count, struct error *error);

/* The table that `run` ends with and `show` prints: operation, parameters, variant, shape, median, GFLOP/s or GB/s,
 * ratio to the operation's first variant, error, status. */
void result_print_table(const struct result_row *rows, int count, FILE *to);
void result_print_csv(const struct result_row *rows, int count, FILE *to);
void result_print_json(const struct result_row *rows, int count, FILE *to);

#endif
