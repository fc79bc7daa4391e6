/* plan.h - turns names into numbers: which runs, in which tiles, in what order, within which memory.
 *
 *     struct job -> struct plan: arrays (inputs and results), tasks (an operation on concrete shapes), runs (a task by
 *                                one variant)
 *     plan_step                  gives a run's steps one by one, each a pure function of its number
 *
 * Planning calls no device, writes no file and leaves no file open. A plan does not change once it is made: opening
 * files, hashing and running short of memory belong to the execution. A run's tiles do not depend on the device that
 * executes them: several GPUs take bands of its steps (stream/bands.h). */
#ifndef RUNNER_PLAN_H
#define RUNNER_PLAN_H

#include "../base/progress_text.h"
#include "../storage/array.h"
#include "../storage/h5/h5.h"
#include "limits.h"

#define MOST_DEVICES 16 /* that share a run */

/* What the plan must know of a device, or of several of a kind that share runs; device_facts of that device fills it.
 */
struct device_facts {
    enum kernel_device kind;
    char name[128];                    /* "NVIDIA H200"; CPU: the processor's name */
    char id[32];                       /* "cuda:0", "cpu", "cuda:0,1": the `device` column */
    int team, numbers[MOST_DEVICES];   /* how many there are, their N of "cuda:N"; what follows is of the first */
    char uuid[64];                     /* "GPU-5a..."; CPU: "" */
    int compute_capability;            /* 90; CPU: 0 */
    int multiprocessors;               /* CPU: its threads */
    int host_threads;                  /* threads that read and write for the device */
    int64_t memory_free, memory_total; /* bytes */
    int64_t cache_bytes;               /* of the last level */
    double copy_bytes_per_s;           /* estimate for predictions, as are all rates below: host to device, one way */
    double memory_bytes_per_s;
    double flops_per_s[DTYPE_COUNT];
    double read_bytes_per_s, write_bytes_per_s;
    struct device_limits *limits; /* measured, from plan_use_limits on; NULL: not known */
};

/* A GPU's facts for provenance; "" or NaN: unknown. */
struct device_provenance {
    char gpu_uuid[64], driver_version[64], cuda_runtime[32];
    double sm_clock_mhz, memory_clock_mhz, power_limit_w; /* highest clocks in MHz, limit in W; NaN: unknown */
};

/* An operation at one combination of swept parameters, with concrete shapes. */
struct task {
    const struct job_operation *operation;
    struct geometry geometry;
    /* Indices into plan->arrays. Of a result in panels, that of the first stands for the whole. */
    int in[MAX_INPUTS], out;
    int first_run, run_count;
    bool wanted; /* the results file stores its result, or a later task reads it */
    char *panel; /* which part of the operation's result it makes (units.h): "rows 16 to 31 of 64"; NULL: the whole */
};

/* How an operand lies in its file. Tiles and pieces are cut where chunks end; the rate enters the prediction. */
struct storage {
    struct shape chunk; /* rank 0: not chunked, or of merged axes and too large to pass through memory whole */
    bool filtered;      /* a chunk is read or written whole */
    struct shape grain; /* of filtered chunks of any size: where they end; rank 0: nowhere that matters */
    bool generated;     /* the input is in no file */
    double file_share;  /* its bytes in the file over those that are computed with: another type */
    double bytes_per_s; /* predicted rate of reading or writing it, in bytes that are computed with */
    int readers;        /* operands of the job's runs that it is, this one included: one copy serves all */
};

/* How a run cuts its loops into tiles, and what that costs; chosen for a budget of device memory. */
struct tiling {
    int64_t tile[LOOPS];  /* nominal size; the last tile along a loop may be smaller */
    int64_t tiles[LOOPS]; /* number of tiles along each loop; 0 where an extent is 0 */
    int64_t steps;        /* product of tiles; 0 for an empty result; at least 1 if a reduction has no elements */
    /* Buffers of an operand: 1 if its box never changes, else 2: one is copied while the kernel uses the other. */
    int in_slots[MAX_INPUTS], out_slots;
    int64_t in_bytes[MAX_INPUTS], out_bytes, partial_bytes, workspace_bytes; /* bytes of one buffer */
    int64_t memory_bytes;                                                    /* device memory for all buffers */
    struct storage in_storage[MAX_INPUTS], out_storage;
    double kernel_s;                           /* predicted time of all launches */
    double traffic_bytes;                      /* read from inputs, re-reads included, and written to the output */
    double read_bytes, write_bytes;            /* of that, what files have */
    double read_s, copy_s, compute_s, write_s; /* predicted busy time of each stage */
    double generate_s;                         /* of read_s, the time of making inputs that are in no file */
    double bound_s;                            /* the busiest stage's time: no pass takes less */
    const char *bound_by;                      /* "read", "copy", "compute", "write" */
    double predicted_s;                        /* of the pass, including what does not overlap */
    double cost_s;                             /* compares tilings: predicted_s plus a share of all busy time */
};

/* A task by one variant. */
struct run {
    int number, task;
    const struct job_variant *variant;
    const struct kernel *kernel; /* NULL: none could be chosen, and `skip` says why */
    int choice[KERNEL_MAX_PARAMETERS];
    char *label;               /* the `variant` column: "tiled,tile=16"; for `auto` the chosen variant */
    enum kernel_device device; /* the device that it runs on */
    char *skip;                /* why it will not run (no GPU, or its kernel refuses); NULL: it will */
    char *note;                /* printed to stderr and in `message`: "no GPU here: on the CPU instead"; NULL: none */
    struct tiling tiling;      /* within the plan's budget; undefined if `skip` is set */
};

struct plan {
    const struct job *job;
    bool present[2]; /* by enum kernel_device: the device exists and the job may use it */
    struct device_facts facts[2];
    int64_t budget[2]; /* device memory, in bytes */
    int input_count, array_count, task_count, run_count;
    /* The inputs (the job's, then those of them that are read both decoded and packed a second time, then bands), the
     * result of each task, in their order, and results that were moved packed a second time, decoded. */
    struct array *arrays;
    struct task *tasks;
    struct run *runs;
};

/* Makes the plan for a valid job: opens its input files, checks shapes, types, variants and the budget. Mistakes are
 * added to job->document's complaints and give STATUS_USAGE. Calls no device. `cuda` NULL: no GPU exists or is wanted,
 * so that GPU-only variants are skipped. CPU variants run on the CPU even beside a GPU, so that one job compares both.
 * The caller frees *made with plan_free whatever the status. */
enum status plan_make(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                      struct plan **made);
void plan_free(struct plan *plan);
/* "cuda:0-2,5": the first `count` devices of a team. */
void plan_device_text(const struct device_facts *facts, int count, char *text, size_t size);
/* Frees what a plan holds, not the plan. */
void plan_clear(struct plan *plan);

/* The task that makes an array; -1: it is an input. */
int plan_producer(const struct plan *plan, int array);
/* The input of the whole job that an input, perhaps a band, is of: packed as it is. */
int plan_whole_input(const struct plan *plan, int array);
/* Behind the tasks, from `task` on, that make the result which that task's array stands for: it alone, or all panels of
 * an operation (units.h). */
int plan_producers_end(const struct plan *plan, int task);

/* Predicts the runs on a device anew, from measured limits, which the plan frees; NULL changes nothing. Tiles stay as
 * they are. They are always chosen by assumed rates, because where tiles end may show in the last bits of a sum, and a
 * measurement must not. */
void plan_use_limits(struct plan *plan, enum kernel_device kind, struct device_limits *limits);

/* Chooses a run's tiles within `budget` bytes. false: none fit; tiling->memory_bytes is what the smallest ones need. */
bool plan_fit(const struct plan *plan, const struct run *run, int64_t budget, struct tiling *tiling);

/* The predicted rate of reading an input, in bytes of its elements a second. */
double plan_read_rate(const struct array *input, const struct device_facts *facts);
/* Where boxes of an input end that open no chunk twice, along the axes that its operation sees. */
struct grid plan_grid(const struct array *input, const struct operand *operand, const struct storage *storage);
/* The layout of an operation's output in its file. */
struct h5_layout plan_layout(const struct run_options *options);

/* One step of a run: what to load, one launch, what to store. */
struct step {
    int64_t number;
    struct tile tile;
    struct box load[MAX_INPUTS];
    bool reuse[MAX_INPUTS]; /* the previous step loaded the same box, which is still on the device */
    bool fresh[MAX_INPUTS]; /* no earlier step has loaded this box */
    bool first, last;       /* first, last step of the reduction into this output tile */
    struct box store;       /* box of the output, stored after the `last` launch into it */
};
void plan_step(const struct geometry *geometry, const struct tiling *tiling, int64_t number, struct step *step);
/* Do the steps' store boxes follow one another in the array's row-major order, each a contiguous run of elements? */
bool plan_stores_in_order(const struct geometry *geometry, const struct tiling *tiling);
/* Bytes that a run's launches move in device memory, as kernel->traffic_bytes (not NULL) models them. */
double plan_modelled_bytes(const struct plan *plan, const struct run *run);

/* Streaming passes a tile through STAGING_BUFFERS pinned host buffers each way, piece by piece. */
#define STAGING_BUFFERS 4
#define STAGING_BYTES   (INT64_C(16) << 20) /* 0.3 ms on the bus; the stage of a larger filtered chunk is larger */
/* What one stage holds of an operand, in elements and in bytes. `element`: bytes of an element; `tile_bytes`: of a
 * tile. */
int64_t plan_staging_elements(const struct storage *storage, int64_t element);
int64_t plan_staging_bytes(const struct storage *storage, int64_t element, int64_t tile_bytes);
/* Bytes of pinned host memory that a run on a GPU uses. */
int64_t plan_host_bytes(const struct geometry *geometry, const struct tiling *tiling);

/* What the progress display needs of each run; the caller frees. */
struct progress_work *plan_work(const struct plan *plan);

#endif
