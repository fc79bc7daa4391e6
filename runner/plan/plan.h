/* plan.h - from names to numbers: which runs, in which tiles, in what order, within which memory.
 *
 *     struct job -> struct plan: arrays (inputs and results), tasks (an operation on concrete shapes), runs (a task by
 * one variant); plan_step then gives a run's steps one by one, each a pure function of its number.
 *
 * No device call and no file write happens here, no file stays open, and a plan does not change once it is made: what
 * opens, hashes, or falls short of memory belongs to the execution. A run's tiles are the same whoever executes them,
 * so a shard or a second GPU is a choice of steps. */
#ifndef RUNNER_PLAN_H
#define RUNNER_PLAN_H

#include "../storage/array.h"
#include "../storage/h5.h"

/* What the plan must know of the device it is made for; device_facts fills it. */
struct device_facts {
    enum kernel_device kind;
    char name[128];                    /* "NVIDIA H200"; the processor's */
    char id[32];                       /* "cuda:0", "cpu": the `device` column */
    int compute_capability;            /* 90; CPU: 0 */
    int multiprocessors;               /* CPU: threads */
    int host_threads;                  /* that read and write for it */
    int64_t memory_free, memory_total; /* bytes */
    int64_t cache_bytes;               /* the last level */
    double copy_bytes_per_s;           /* estimates, for predicted bounds: host to device, one way */
    double memory_bytes_per_s;
    double flops_per_s[DTYPE_COUNT];
    double read_bytes_per_s, write_bytes_per_s;
};

/* An operation on concrete shapes: one operation at one combination of swept parameters. */
struct task {
    const struct job_operation *operation;
    struct geometry geometry;
    int in[MAX_INPUTS], out; /* into plan->arrays */
    int first_run, run_count;
    bool wanted; /* the results file stores its result, or a later task reads it */
};

/* How an operand lies in its file. Tiles and pieces are cut where chunks end, and the rate is part of the prediction.
 */
struct storage {
    struct shape chunk; /* rank 0: not in chunks */
    bool filtered;      /* a chunk is read or written whole */
    double bytes_per_s; /* of reading or writing it, predicted */
};

/* How a run goes through its loops, and what that takes: chosen for a budget of device memory. */
struct tiling {
    int64_t tile[LOOPS];  /* nominal; the last tile along a loop may be smaller */
    int64_t tiles[LOOPS]; /* how many along each loop; 0 where an extent is 0 */
    int64_t steps;        /* product of tiles; 0 for an empty result; at least 1 where a reduction is over nothing */
    /* Buffers of an operand: 1 where its box never changes, else 2 (one is loaded or stored while the other computes).
     */
    int in_slots[MAX_INPUTS], out_slots;
    int64_t in_bytes[MAX_INPUTS], out_bytes, partial_bytes, workspace_bytes; /* of one buffer */
    int64_t memory_bytes;                                                    /* all of it, on the device */
    struct storage in_storage[MAX_INPUTS], out_storage;
    double traffic_bytes;                      /* read from inputs and written to the output, re-reads counted */
    double read_s, copy_s, compute_s, write_s; /* predicted busy time of each stage */
    double bound_s;                            /* the slowest of them: no pass takes less */
    const char *bound_by;                      /* "read", "copy", "compute", "write" */
    double predicted_s;                        /* of the pass, with what does not overlap */
    double cost_s; /* by which tilings are compared: predicted, and something for what hides behind the slowest */
};

/* A task by one variant. */
struct run {
    int number, task;
    const struct job_variant *variant;
    const struct kernel *kernel; /* NULL: none could be chosen; `skip` says why */
    int choice[KERNEL_MAX_PARAMETERS];
    char *label;               /* the `variant` column: "tiled,tile=16"; for `auto` what was chosen */
    enum kernel_device device; /* where it runs */
    char *skip;                /* why it will not run here (no GPU, or its kernel refuses); NULL: it will */
    char *note;                /* said on stderr and in `message`: "no GPU here: on the CPU instead"; NULL: nothing */
    struct tiling tiling;      /* within the plan's budget; meaningless when skipped */
};

struct plan {
    const struct job *job;
    bool present[2]; /* by enum kernel_device: is it there and does the job let it be used */
    struct device_facts facts[2];
    int64_t budget[2]; /* bytes on the device */
    int array_count, task_count, run_count;
    struct array *arrays;
    struct task *tasks;
    struct run *runs;
};

/* Makes the plan for a good job: opens its input files, checks shapes, types, variants and the budget. Mistakes are
 * added to job->document's complaints and give STATUS_USAGE. Never touches a device. `cuda` NULL: none is there or
 * wanted, and GPU-only variants are skipped. CPU variants run on the CPU beside a GPU's, so that one job compares them.
 */
enum status plan_make(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                      struct plan **made);
void plan_free(struct plan *plan);

/* Chooses tiles for a run and a budget of so many bytes. false: nothing fits; memory_bytes is what the smallest take.
 */
bool plan_fit(const struct plan *plan, const struct run *run, int64_t budget, struct tiling *tiling);

/* How an operation's output lies in its file. */
struct h5_layout plan_layout(const struct run_options *options);

/* One step of a run: what to load, one launch, what to store. */
struct step {
    int64_t number;
    struct tile tile;
    struct box load[MAX_INPUTS];
    bool reuse[MAX_INPUTS]; /* the previous step loaded the same box: it is still there */
    bool fresh[MAX_INPUTS]; /* no earlier step has loaded this box */
    bool first, last;       /* of the reduction into this output tile */
    struct box store;       /* of the output, after `last` */
};
void plan_step(const struct geometry *geometry, const struct tiling *tiling, int64_t number, struct step *step);
/* Do the outputs of its steps follow one another as the array has them, each a run of it? */
bool plan_stores_in_order(const struct geometry *geometry, const struct tiling *tiling);
/* What its launches ask of the device's memory, as its kernel models it (kernel->traffic_bytes, which must be there).
 */
double plan_modelled_bytes(const struct plan *plan, const struct run *run);

/* Streaming passes a tile through STAGES pinned host buffers each way, piece by piece. */
#define STAGES      4
#define STAGE_BYTES (INT64_C(16) << 20) /* 0.3 ms on the bus; a larger chunk, if filtered, has a larger stage */
/* Elements and bytes that one stage holds of an operand, of which a tile has so many bytes. */
int64_t plan_stage_elements(const struct storage *storage, int64_t element);
int64_t plan_stage_bytes(const struct storage *storage, int64_t element, int64_t tile_bytes);
/* Pinned host memory that a run on a GPU passes through. */
int64_t plan_host_bytes(const struct geometry *geometry, const struct tiling *tiling);

/* Prints what `tilerun plan` shows. */
void plan_print(const struct plan *plan, FILE *to);

#endif
