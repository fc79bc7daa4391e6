/* result.h - the results file: its parts while the job runs, their assembly at the end.
 *
 *     OUTPUT.parts/KEY.h5     one finished run each: written under another name, then renamed
 *     OUTPUT                  assembled from them: written under another name, synced once, renamed; the parts go
 *
 * A part ends in a trailer that holds the XXH3-128 of all bytes before it; a part whose trailer does not fit (a crash
 * of the machine: parts are not synced) is redone. KEY is a hash of the tool's version, the operation's resolved text,
 * the variant and the inputs' hashes. A part keeps its output only where somebody will read it: the operation's first
 * right run, and `store: all`.
 *
 * An OUTPUT in which runs failed, or were left out, is a store of finished runs like the parts: --resume copies from it
 * what was `ok` and replaces it, so that for the time of the assembly both are there. */
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
    /* What the run was measured on; a resumed job may have gone on elsewhere. */
    char device_name[128];
    int32_t threads;     /* of the host; 0: unknown */
    double sm_clock_mhz; /* median over the repeats */
    char message[256];
};

/* Fills what the plan alone knows: names, shape, work; status "", numbers NaN. */
void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run);

struct results; /* one job's output, under way */

/* Refuses what is not to be replaced at OUTPUT (STATUS_USAGE), and a place where nothing can be written; makes
 * OUTPUT.parts/ and takes a lock, so that two jobs do not write one output. A directory, a device, the job file and
 * what its inputs read are never replaced; `overwrite` replaces any other file and throws finished parts away; `resume`
 * keeps them, and replaces nothing but results; with both, parts are kept and any file is replaced. With neither, an
 * OUTPUT that exists and finished parts are refused. A symbolic link is written through. */
enum status results_open(const char *output, bool overwrite, bool resume, const struct plan *plan,
                         struct readers *readers, struct results **results, struct error *error);
void results_close(struct results *results);
/* Gives up the place, as results_close does, but frees nothing: other threads may still use `results`. */
void results_leave(struct results *results);

/* For `resume`, once all inputs have been hashed: refuses an OUTPUT some of whose runs are not this job's, as it, its
 * inputs and this program are now (STATUS_USAGE), unless `overwrite` was given. *done: OUTPUT lacks no run; with
 * `restricted` it may be called partial. Else results_find will find what it holds. */
enum status results_resume(struct results *results, bool restricted, bool *done, struct error *error);

/* Refuses the job file and what its inputs read as OUTPUT, as results_open does, without touching anything. */
enum status results_check_output(const char *output, const struct plan *plan, struct error *error);
/* Refuses them, OUTPUT and its parts as the place of another file that is to be written (`kind`, for messages). */
enum status results_check_other(const char *output, const struct plan *plan, const char *kind, const char *name,
                                struct error *error);

/* A part being written. */
struct part;
/* Is there a finished, undamaged part of this run that was `ok` (after results_open with resume), or is it in the
 * former OUTPUT? Then its row. An unusable part is removed and counts as none. Runs must be asked for, or done, in the
 * order of the plan. */
bool results_find(struct results *results, const struct run *run, struct result_row *row);
enum status part_begin(struct results *results, const struct run *run, struct part **part, struct error *error);
/* A sink for stream_run: creates the output's data set with the operation's layout at the first box. */
struct sink part_sink(struct part *part, struct trace *trace);
/* Reads what the run reads, and back what the sink wrote (verification). */
struct host_reader part_reader(struct part *part);
/* Completes it: row and samples are stored; the part is closed, checksummed and renamed, not synced: the
 * checksum tells what a crash of the machine left of it. Frees the part. */
enum status part_finish(struct part *part, const struct result_row *row, const struct samples *samples,
                        struct error *error);
/* Drops it. */
void part_discard(struct part *part);

/* Makes the stored output of a finished run the place of its task's result, for later operations to open and read. */
void results_load_output(struct results *results, const struct run *run);

/* What the assembly is told. */
struct result_summary {
    const char *status; /* complete | partial | failed */
    const char *command_line, *created;
    const struct result_row *rows; /* run_count of them, in the order of the plan */
    const int *result_run;         /* for each task the run whose output is the operation's result; -1: none */
    const struct environment *environment;
};
/* Writes OUTPUT from the parts and removes them. Where it fails (STATUS_IO), all parts are as they were. */
enum status results_assemble(struct results *results, const struct result_summary *summary, struct error *error);

/* What the rows that are ok were measured on, where that is not one thing for all on the CPU and one for all on a GPU
 * (a job resumed elsewhere): "H200 with 16 threads; H200 with 8 threads". NULL: it is. The caller frees. */
char *result_mixed_conditions(const struct result_row *rows, int count);

/* Reads /runs of a results file (or of one that is partial). The caller frees rows. STATUS_USAGE: not such a file. */
enum status results_read_rows(const char *path, struct result_row **rows, int *count, struct error *error);

/* The table that `run` ends with and `show` prints: operation, parameters, variant, shape, median, GFLOP/s or GB/s,
 * ratio to the operation's first variant, error, status. */
void result_print_table(const struct result_row *rows, int count, FILE *to);
void result_print_csv(const struct result_row *rows, int count, FILE *to);
void result_print_json(const struct result_row *rows, int count, FILE *to);

#endif
