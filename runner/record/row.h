/* row.h - what is known of a run: a row of /runs, begun from the plan, kept in HDF5. */
#ifndef RUNNER_ROW_H
#define RUNNER_ROW_H

#include "../plan/plan.h"
#include "../storage/h5/h5io.h"

/* One row of /runs; unknown values are NaN and "". status: ok | unchecked (it ran and nothing verified it) | wrong |
 * failed | skipped | interrupted. */
struct result_row {
    int32_t run;
    char operation[JOB_NAME_BYTES], op[16], variant[96], parameters[JOB_LABEL_BYTES], device[32], dtype[16], shape[64],
        status[16];
    int32_t repeats;
    double kernel_median_s, kernel_min_s, kernel_max_s, kernel_mad_s;
    double kernel_ci_low_s, kernel_ci_high_s; /* the 95 % interval of the median */
    double read_s, h2d_s, d2h_s, write_s, total_s;
    double file_bytes;                     /* that the inputs' files were asked for */
    double overflowed, wrapped, truncated; /* elements that a conversion has changed (kernels/core/convert.h) */
    double flops, bytes, gflops, gbytes_per_s;
    /* The least time that this device's measured limits allow the work, what limits it ("compute", "memory"), and how
     * much of the median that is. */
    double bound_s;
    char bound_by[16];
    double percent_of_bound;
    double error, tolerance;
    char verify[16]; /* "full", "sampled", "none" */
    char flags[64];  /* what makes the times doubtful, comma-separated: "throttled,outliers" */
    /* What the run was measured on; a resumed job may have continued on another machine. */
    char device_name[128];
    int32_t threads;     /* host threads; 0: unknown */
    double sm_clock_mhz; /* median over the repeats; NaN: unknown */
    char message[256];
};

/* Did the run make a result: is its status ok or unchecked? */
bool result_row_done(const struct result_row *row);

/* Moves the rows that have a status to the front, and returns how many they are: those of this shard. */
int result_rows_own(struct result_row *rows, int count);

/* Fills what the plan knows: names, shape and work. status becomes "", measured numbers NaN. */
void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run);

/* Fills bound_s, bound_by and percent_of_bound, once the times are known. `limits` NULL: they stay unknown. */
void result_row_bound(struct result_row *row, const struct kernel *kernel, const struct geometry *geometry,
                      const struct device_limits *limits);

/* Compares what the rows that made results were measured on (device name and host threads), CPU and GPU rows apart. If
 * they differ (a job resumed on another machine) the list of what they name, "H200 with 16 threads; H200 with 8
 * threads"; else NULL. The caller frees. */
char *result_mixed_conditions(const struct result_row *rows, int count);

/* Writes a part's row as its table /runs: it needs no columns for swept parameters. */
enum status result_write_row(hid_t file, const struct result_row *row, struct error *error);
/* Writes rows as a table of a file: "runs". */
enum status result_write_rows(hid_t file, const char *name, const struct result_row *rows, int count,
                              struct error *error);
/* Reads that table; `path` is for messages. The caller frees *rows. */
enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error);

#endif
