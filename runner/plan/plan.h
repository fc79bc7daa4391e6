/* plan.h - turns a job into a plan: which runs, in which tiles, in what order, within which memory.
 *
 *     struct job -> struct plan: arrays (inputs and results), tasks (an operation on concrete shapes), runs (a task by
 *                                one variant)
 *     plan_step                  computes a step of a run from its number
 *
 * Planning calls no device, writes no file and leaves no file open. A plan does not change once it is made: opening
 * files, hashing and handling a lack of memory belong to the execution. A run's tiles do not depend on the device that
 * executes them: several GPUs take bands of its steps (stream/bands.h). */
#ifndef RUNNER_PLAN_H
#define RUNNER_PLAN_H

#include "../base/progress_text.h"
#include "../job/job.h"
#include "../storage/array.h"
#include "../storage/h5/h5.h"
#include "limits.h"

#define MAX_DEVICES 16 /* that may share a run */

/* Facts about a device, or about a team of equal devices that share runs; device_cpu_facts and device_cuda_facts fill
 * them. */
struct device_facts {
    enum kernel_device kind;
    char name[128];                    /* "NVIDIA H200"; CPU: the processor's name */
    char id[32];                       /* "cuda:0", "cpu", "cuda:0,1": the `device` column */
    int team, numbers[MAX_DEVICES];    /* number of devices; N of each "cuda:N"; other members: the first device's */
    char uuid[64];                     /* "GPU-5a..."; CPU: "" */
    int compute_capability;            /* 90; CPU: 0 */
    int multiprocessors;               /* CPU: its threads */
    int host_threads;                  /* threads that read and write for the device */
    int64_t memory_free, memory_total; /* bytes */
    int64_t cache_bytes;               /* of the last level */
    /* The rates are estimates for predictions. */
    double copy_bytes_per_s; /* host to device, one way */
    double memory_bytes_per_s;
    double flops_per_s[DTYPE_COUNT];
    double read_bytes_per_s, write_bytes_per_s;
    struct device_limits *limits; /* measured; set by plan_use_limits; NULL: not known */
};

/* Facts about a GPU for provenance; "" or NaN: unknown. */
struct device_provenance {
    char gpu_uuid[64], driver_version[64], cuda_runtime[32];
    double sm_clock_mhz, memory_clock_mhz, power_limit_w; /* highest clocks, and the power limit */
};

/* An operation at one combination of swept parameters, with concrete shapes. */
struct task {
    const struct job_operation *operation;
    struct geometry geometry;
    /* Indices into plan->arrays. The array of its first panel stands for a result in panels. */
    int in[MAX_INPUTS], out;
    int first_run, run_count;
    bool known;  /* its geometry is known; false: a reported mistake in the job leaves it unknown... */
    bool typed;  /* ...but the type of its operands is known: geometry.in[0].dtype */
    bool wanted; /* the results file stores its result, or a later task reads it */
    char *panel; /* the panel of the operation's result (units.h): "rows 16 to 31 of 64"; NULL: the whole result */
};

/* How an operand is stored in its file. Tiles and pieces end at chunk boundaries; the rate is for predictions. */
struct storage {
    struct shape chunk; /* rank 0: not chunked, or its axes are merged and it is too large to be held in memory */
    bool filtered;      /* a chunk can only be read or written as a whole */
    struct shape grain; /* shape of filtered chunks of any size: their boundaries; rank 0: boundaries do not matter */
    bool generated;     /* a random input, which is in no file */
    double file_share;  /* bytes in the file over bytes in memory: the types may differ */
    double bytes_per_s; /* predicted rate of reading or writing it, in bytes in memory */
    int readers;        /* number of operands in the job's runs that one copy of this array on the device serves */
};

/* How a run's loops are cut into tiles, and what that costs; chosen for a budget of device memory. */
struct tiling {
    int64_t tile[LOOPS];  /* tile size; the last tile along a loop may be smaller */
    int64_t tiles[LOOPS]; /* number of tiles along each loop; 0 where an extent is 0 */
    int64_t steps;        /* product of `tiles`; 0: an empty result; a reduction of no elements still has 1 */
    /* Buffers of an operand: 1 if its box never changes, else 2: one is filled while the kernel uses the other. */
    int in_slots[MAX_INPUTS], out_slots;
    int64_t in_bytes[MAX_INPUTS], out_bytes, partial_bytes, workspace_bytes; /* bytes of one buffer */
    int64_t mapped_bytes; /* the end of the workspace, for the values of a map before the operation */
    int64_t memory_bytes; /* device memory for all buffers */
    struct storage in_storage[MAX_INPUTS], out_storage;
    double kernel_s;                /* predicted time of all launches */
    bool unknown;                   /* neither roofs nor a model predict kernel_s: it is an assumption */
    double traffic_bytes;           /* bytes read from inputs, re-reads included, and written to the output */
    double read_bytes, write_bytes; /* the part of traffic_bytes that is read from files, and written to files */
    double read_s, copy_s, compute_s, write_s; /* predicted busy time of each stage */
    double generate_s;                         /* the part of read_s that generates random inputs */
    double bound_s;                            /* busy time of the slowest stage, a lower bound of the pass */
    const char *bound_by;                      /* the slowest stage: "read", "copy", "compute", "write" */
    double predicted_s;                        /* predicted time of the pass, with the parts that do not overlap */
    double cost_s;                             /* for comparing tilings: predicted_s plus a share of all busy time */
};

/* A task by one variant. */
struct run {
    int number, task;
    const struct job_variant *variant;
    const struct kernel *kernel; /* NULL: none could be chosen; `skip` has the reason */
    int choice[KERNEL_MAX_PARAMETERS];
    int search;                /* the group of its variant's `search`, whose runs are neighbours; 0: none */
    int threads;               /* of a launch on the CPU, if the job sets their number; 0: all */
    char *label;               /* the `variant` column: "tiled,tile=16"; for `auto` the chosen variant */
    enum kernel_device device; /* the kind of device that it runs on */
    char *skip;                /* why it is skipped (no GPU, or its kernel refuses the tiles); NULL: it is not */
    char *note;                /* a remark for stderr and the `message` column; NULL: none */
    struct tiling tiling;      /* within the plan's budget; undefined if `skip` is set */
};

struct plan {
    const struct job *job;
    bool present[2]; /* by enum kernel_device: the device exists and the job may use it */
    struct device_facts facts[2];
    int64_t budget[2]; /* device memory, in bytes */
    int input_count, array_count, task_count, run_count;
    /* In order: the job's inputs; second entries of inputs that are read both decoded and as stored (plan_decode.c);
     * bands of inputs; the result of each task; second, decoded entries of results that keep stored numbers. */
    struct array *arrays;
    struct task *tasks;
    struct run *runs;
    const struct kernel **user_kernels; /* user kernels, which the plan owns */
    int user_kernel_count;
};

/* Makes the plan for a valid job: opens its input files, checks shapes, types, variants and the budget. STATUS_USAGE:
 * it has added errors to job->document. Calls no device. `cuda` NULL: no GPU exists or is wanted, so GPU variants are
 * skipped. CPU variants run on the CPU even if there is a GPU, so that one job can compare both. The caller frees *made
 * with plan_free, also after an error. */
enum status plan_make(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                      struct plan **made);
void plan_free(struct plan *plan);
RELEASED_BY(plan, plan_free)
/* Writes the ids of the first `count` devices of a team: "cuda:0-2,5". */
void plan_device_text(const struct device_facts *facts, int count, char *text, size_t size);
/* Frees the members of a plan, but not the plan itself. */
void plan_clear(struct plan *plan);

/* The index of the task that computes an array; -1: it is an input. */
int plan_producer(const struct plan *plan, int array);
/* The end of the tasks from `task` on that compute the same result: task + 1, or one past the last panel of the
 * operation (units.h). */
int plan_producers_end(const struct plan *plan, int task);

/* Predicts the runs on a device again from measured limits, which the plan then owns; NULL: changes nothing. Does not
 * change tiles: they are always chosen by assumed rates, because their boundaries affect the last bits of sums, which
 * must not depend on a measurement. */
void plan_use_limits(struct plan *plan, enum kernel_device kind, struct device_limits *limits);

/* Chooses a run's tiles within `budget` bytes. false: no tiles fit; tiling->memory_bytes is the least that is
 * needed. */
bool plan_fit(const struct plan *plan, const struct run *run, int64_t budget, struct tiling *tiling);

/* The predicted rate of reading an input, in bytes of decoded elements per second. */
double plan_read_rate(const struct array *input, const struct device_facts *facts);
/* The chunk boundaries of an input along its operation's axes: boxes that end there read no chunk twice. */
struct grid plan_grid(const struct array *input, const struct operand *operand, const struct storage *storage);
/* The HDF5 layout of an operation's output. */
struct h5_layout plan_layout(const struct run_options *options);

/* One step of a run: the boxes to load, one launch, the box to store. */
struct step {
    int64_t number;
    struct tile tile;
    struct box load[MAX_INPUTS];
    bool reuse[MAX_INPUTS]; /* the previous step loaded the same box, which is still on the device */
    bool fresh[MAX_INPUTS]; /* no earlier step has loaded this box */
    bool first, last;       /* this is the first, or last, step of the reduction into its output tile */
    struct box store;       /* box of the output, stored after the `last` step */
};
/* Computes step `number` of a run, from 0. */
void plan_step(const struct geometry *geometry, const struct tiling *tiling, int64_t number, struct step *step);
/* Do the steps store contiguous boxes, one after the other in the array's row-major order? */
bool plan_stores_in_order(const struct geometry *geometry, const struct tiling *tiling);
/* Bytes that a run's launches move in device memory, as modelled by kernel->traffic_bytes, which must not be NULL. */
double plan_modelled_bytes(const struct plan *plan, const struct run *run);

/* A tile passes through STAGING_BUFFERS pinned host buffers in each direction, piece by piece. */
#define STAGING_BUFFERS 4
#define STAGING_BYTES   (INT64_C(16) << 20) /* of a buffer: 0.3 ms on the bus; larger if a filtered chunk is larger */
/* The part of an operand that one staging buffer holds, in elements and in bytes. `element_bytes`: bytes of an element;
 * `tile_bytes`: bytes of a tile. */
int64_t plan_staging_elements(const struct storage *storage, int64_t element_bytes);
int64_t plan_staging_bytes(const struct storage *storage, int64_t element_bytes, int64_t tile_bytes);
/* Bytes of pinned host memory that a run on a GPU uses. */
int64_t plan_host_bytes(const struct geometry *geometry, const struct tiling *tiling);

/* The predictions for each run that the progress display needs; the caller frees. */
struct progress_work *plan_work(const struct plan *plan);

#endif
