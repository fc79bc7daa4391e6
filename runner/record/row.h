/* row.h - defines a row of the table /runs: everything that is recorded about one run, and where its samples and
 * outputs lie. A row is initialized from the plan and stored in HDF5. */
#ifndef RUNNER_ROW_H
#define RUNNER_ROW_H

#include "../base/samples.h"
#include "../plan/plan.h"
#include "../storage/h5/h5io.h"

/* One row of /runs; unknown values are NaN and "". status: ok | unchecked (it ran but was not verified) | wrong |
 * failed | timeout | skipped | interrupted. */
struct result_row {
    int32_t run;
    char operation[JOB_NAME_BYTES], op[16], variant[96], parameters[JOB_LABEL_BYTES], device[32], dtype[16], shape[64],
        status[16];
    int32_t repeats, busy_samples; /* busy_samples: taken while other programs used the CPUs or their cores */
    double kernel_median_s, kernel_min_s, kernel_max_s, kernel_mad_s;
    double kernel_ci_low_s, kernel_ci_high_s; /* the 95 % interval of the median */
    double read_s, h2d_s, d2h_s, write_s, total_s;
    double file_bytes;                     /* bytes read from the inputs' files */
    double overflowed, wrapped, truncated; /* number of elements that conversions changed (kernels/core/convert.h) */
    double flops, bytes, gflops, gbytes_per_s;
    /* The lower bound of the time by this device's measured limits, what limits it ("compute", "memory"), and the bound
     * as a percentage of the median. */
    double bound_s;
    char bound_by[16];
    double percent_of_bound;
    double error, tolerance;
    int32_t tries;    /* more than 1 after failures of a device or a file; 0: the run was not begun */
    double timeout_s; /* NaN: no limit, or unknown */
    char verify[16];  /* "full", "sampled", "none" */
    char flags[96];   /* problems of the times, comma-separated (samples_flags): "throttled,outliers" */
    /* The device that the run was measured on: a resumed job may continue on another machine. */
    char device_name[128];
    int32_t threads;                                        /* host threads; 0: unknown */
    double sm_clock_mhz;                                    /* median over the repeats; NaN: unknown */
    double probe_s;                                         /* median of probe_seconds beside them; NaN: unknown */
    double registers, spill_bytes, shared_bytes, occupancy; /* struct footprint; NaN: on a CPU, or unknown */
    char message[256];
};

/* Does the run have a result: is its status ok or unchecked? */
bool result_row_done(const struct result_row *row);
/* The message of a roof's run, which has no result to store, begins with this. */
#define ROOF_MESSAGE "a roof, "
/* Is the run a combination that lost its search? If the combination was tried, its row has the time. */
bool result_row_lost(const struct result_row *row);
/* Flags of samples_flags that other files test. */
#define FLAG_BUSY    "busy"
#define FLAG_NOISY   "noisy"
#define FLAG_BIMODAL "bimodal"
#define FLAG_COARSE  "below_resolution"
/* Is the run's time that of a first launch (`--once`), which includes the loading of libraries and kernels? */
#define FLAG_COLD "cold"
bool result_row_is_cold(const struct result_row *row);

/* Moves the rows with a status, which are those of this shard, to the front and returns their number. */
int result_rows_own(struct result_row *rows, int count);

/* Initializes a row from the plan: names, shape and work. status becomes "", measured numbers NaN. */
void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run);

/* Sets repeats, the statistics of the kernel's time, and the rates. */
void result_row_times(struct result_row *row, const struct samples *samples);
/* Sets bound_s, bound_by and percent_of_bound, after the times are known. `limits` NULL: they stay unknown. */
void result_row_bound(struct result_row *row, const struct kernel *kernel, const struct geometry *geometry,
                      const struct device_limits *limits);

/* Lists the devices and numbers of host threads with which the rows were measured, if rows of one kind of device differ
 * (after a job was resumed on another machine): "H200 with 16 threads; H200 with 8 threads". Ignores variants for which
 * the job chooses the threads. NULL: no rows differ. The caller frees. */
char *result_mixed_conditions(const struct result_row *rows, int count);

/* Writes the row of a part as its table /runs, without columns for swept parameters. */
enum status result_write_row(hid_t file, const struct result_row *row, struct error *error);
/* Writes rows as the table `name` of a file. */
enum status result_write_rows(hid_t file, const char *name, const struct result_row *rows, int count,
                              struct error *error);
/* Reads the table /runs; `path` is for messages. STATUS_USAGE: there is no such table, or it is damaged. The caller
 * frees *rows. */
enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error);

/* The data sets that store a run's samples. */
enum {
    SAMPLE_SECONDS,
    SAMPLE_TURN,
    SAMPLE_CLOCK_MHZ,
    SAMPLE_POWER_W,
    SAMPLE_TEMPERATURE_C,
    SAMPLE_MARKS,
    SAMPLE_KINDS
};
struct sample_kind {
    const char *in_part; /* the data set's name in a part: "power_w" */
    const char *suffix;  /* what follows /samples/RUN in the results file: "_power_w" */
};
extern const struct sample_kind sample_kinds[SAMPLE_KINDS];

/* The path of an object in a results file: "/outputs/n=512/product". The caller frees. */
char *result_path_of(const char *root, const char *label, const char *name);

#endif
