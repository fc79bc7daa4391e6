/* job.h - the job file as C structures: names resolved, parameters substituted, sweeps expanded. Shapes, files and
 * numbers are the plan's business.
 *
 *     job file -> [yaml.c] tree -> [job.c] struct job -> [plan.c] runs
 *
 * job_load expands each input and operation into one entry for each combination of the swept parameters that it depends
 * on, directly or through its inputs. Entries keep the order of the file; the label names the combination
 * ("n=512,dtype=float32"; "" if there is none). The parser, the JSON schema and the reference in configs/README.md are
 * generated from one table of keys in job_keys.c. */
#ifndef RUNNER_JOB_H
#define RUNNER_JOB_H

#include "../../kernels/core/operation.h"
#include "../base/fail.h"
#include "../base/job_input.h"
#include "yaml.h"

/* The widths of the name and label columns in the results file, in bytes with a NUL. Longer ones are errors. */
#define JOB_NAME_BYTES  64
#define JOB_LABEL_BYTES 160

/* The kernel's own parameters and JOB_THREADS, which every CPU variant has. */
#define JOB_MAX_PARAMETERS (KERNEL_MAX_PARAMETERS + 1)
#define JOB_THREADS        "threads"

/* A number of a launch: an expression over the sizes that the operation has (of m, n, k, batch, rows, cols, outer,
 * length, inner and count). Its parameters are already replaced by their values. */
struct job_launch_number {
    const struct yaml_node *where;
    char *text;
};

#define JOB_LAUNCH_AXES 3 /* of a grid or block in CUDA */

/* A variant's own source file. */
struct job_source {
    const struct yaml_node *where, *map; /* the value of `source`; the variant's map */
    char *path, *as_written;             /* relative to the current directory, or absolute; as in the job */
    char *kernel;                        /* the function in it */
    bool cuda;                           /* a .cu file */
    int block_count, grid_count;         /* of a .cu file; 0: not given */
    struct job_launch_number block[JOB_LAUNCH_AXES], grid[JOB_LAUNCH_AXES], shared; /* shared.text NULL: not given */
};

/* `search` of a variant: its combinations are tried, and the fastest one is the variant. */
struct job_search {
    int group;       /* of the operation's variants, from 1; 0: no search */
    double budget_s; /* for all tries */
    int64_t seed;    /* of the order in which they are tried */
};

/* A variant of an operation, with one value of each of its parameters. */
struct job_variant {
    const struct yaml_node *where;
    const struct yaml_node *entry; /* of the list `variants`; NULL: there is no list, so the variant is `auto` */
    struct job_source *source;     /* NULL: a built-in variant */
    struct job_search search;
    char *name;  /* "tiled"; "auto" */
    char *label; /* "tiled,tile=16": the name and the parameters that the job gives, in its order */
    int count;   /* parameters given; names and values are texts that are not yet checked against the kernel */
    char *names[JOB_MAX_PARAMETERS], *values[JOB_MAX_PARAMETERS];
    const struct yaml_node *parameter_where[JOB_MAX_PARAMETERS];
};

/* The words of `verify`, `store` and `keep_tiles`, in the order of job_keys.c. */
enum job_verify { VERIFY_AUTO, VERIFY_FULL, VERIFY_SAMPLED, VERIFY_NONE };
enum job_store { STORE_FIRST, STORE_ALL, STORE_NONE };
enum job_keep { KEEP_AUTO, KEEP_ALWAYS, KEEP_NEVER };

/* How an operation's variants are run, timed, verified and stored (SCOPE_RUN). */
struct run_options {
    int64_t warmup;
    int64_t repeat_min, repeat_max; /* equal: a fixed number of repeats */
    double repeat_until; /* stop at this relative half width of the median's 95 % interval; 0: no such rule */
    bool cold;           /* cache: cold */
    enum job_verify verify;
    double tolerance; /* NaN: the operation's default */
    enum job_store store;
    bool stop_on_error;
    double timeout_s; /* of a run; INFINITY: no limit */
    int retries;      /* after a failure of a device or a file */
    enum job_keep keep_tiles;
    struct shape chunks; /* rank 0: not given */
    enum job_compression compression;
    int level; /* of gzip and zstd */
    bool shuffle, fletcher32;
};

/* Is the run timed? If not, it makes one launch, which produces its result. */
static inline bool job_is_timed(const struct run_options *options) {
    return options->warmup > 0 || options->repeat_max > 1;
}

/* The value of `key` in an input's or operation's map, or entry `item` of it if it is a list that has the entry;
 * `where` if the map lacks the key. */
const struct yaml_node *job_value(const struct yaml_node *map, const char *key, int item,
                                  const struct yaml_node *where);

/* An operand of an operation: an input or an earlier operation. */
struct job_reference {
    bool is_input;
    int index; /* into job->inputs or job->operations */
};

/* An operation at one combination of the swept parameters. */
struct job_operation {
    const struct yaml_node *where, *node;       /* its id and its map in the job file */
    bool unread, options_unread, result_unread; /* a mistake was reported: in `inputs`; in its options; in `dtype` */
    char *id, *label;
    enum op op;
    struct op_options options;
    int input_count;
    struct job_reference inputs[MAX_INPUTS];
    int variant_count;
    struct job_variant *variants;
    struct run_options run;
    bool has_dtype; /* the result is stored as... */
    enum dtype as;  /* ...this type */
    /* `to`: the file that the result is stored in, relative to the current directory or absolute, and the data set in
     * it, "/group/name". NULL: the results file. */
    char *to_file, *to_name;
    const struct yaml_node *to_where;
    char *resolved; /* canonical one-line text of op, options, run options: for `--resolved` and the resume key */
};

/* An attribute of the results file. */
struct job_tag {
    char *name;
    const struct yaml_node *value; /* a scalar */
};

enum job_device { JOB_DEVICE_AUTO, JOB_DEVICE_CPU, JOB_DEVICE_CUDA };

/* The whole job. */
struct job {
    struct yaml_document *document;
    char *path, *name, *description;
    char *output; /* relative to the current directory or absolute */
    enum job_device device;
    int *device_numbers;    /* the numbers N of `cuda:N` */
    int device_count;       /* their number; 0: any device; -1: cuda:all */
    int64_t memory_bytes;   /* 0: memory_fraction applies */
    double memory_fraction; /* of the device's free memory */
    bool sync;
    enum job_external external;
    int input_count, operation_count;
    struct job_input *inputs;
    struct job_operation *operations; /* an operation's inputs come before it */
    bool tolerant;                    /* an unreadable input only removes the operations that need it... */
    char *unreadable;                 /* ...and the reason; NULL: no operation was removed */
    char *remarks;                    /* lines about probable slips that are no mistakes; NULL: there are none */
    int64_t combinations, excluded;   /* of the parameters in `where`: all, and those for which it is false */
    char *notes;
    int tag_count, variable_count;
    struct job_tag *tags;
    char **variables; /* names of environment variables to record, in order */
    char *resolved;   /* the whole job as YAML after parameters, defaults and merges: /job_resolved */
    char *verbatim;   /* if the document is a resolved text: the user's original text; else NULL */
};

/* Overrides from the command line. NULL or 0: not given. */
struct job_overrides {
    const char *output, *device, *memory;
    const char *const *sets; /* "n=4096" or "n=512,1024" */
    int set_count;
    const char *only; /* "product:tiled,total": these operations (job_only.h) and the ones that they read */
    bool winners;     /* `only` has winners of searches: a combination need not have those of another one */
    const char *repeat, *warmup, *verify; /* for all operations */
    bool tolerant;                        /* see struct job */
};

/* Reads a job; "-" is the standard input, whose paths are relative to the current directory. Never returns NULL;
 * yaml_error_count(job->document) is 0 if the job is valid. Errors in overrides count too, without a line. plan_make
 * checks shapes, files and variants later, and adds to the same list of errors. */
struct job *job_load(const char *path, const struct job_overrides *overrides);
/* Like job_load, but reads the job from `text`. `path`: its file, which messages name and whose folder paths are
 * relative to. */
struct job *job_parse(const char *path, const char *text, const struct job_overrides *overrides);
void job_free(struct job *job);
RELEASED_BY(job, job_free)
/* Removes the inputs that are marked, by number, and the operations that need them, directly or through others. Returns
 * the number of these operations. */
int job_remove(struct job *job, const bool *inputs);

/* Parses a device of the job file or of --device, "cuda:1" or "cuda:0,cuda:1", into job->device, device_numbers and
 * device_count. STATUS_USAGE: it is malformed. */
enum status job_parse_device(const char *text, struct job *job, struct error *error);
/* Parses a size of the job file or of --memory: "8GiB" into *bytes, "90%" into *fraction; the other one becomes 0.
 * STATUS_USAGE: it is malformed, or less than JOB_MIN_MEMORY. */
#define JOB_MIN_MEMORY (64 << 10)
enum status job_parse_memory(const char *text, int64_t *bytes, double *fraction, struct error *error);
/* Parses a duration, "90s" or "10min"; "none" is INFINITY. STATUS_USAGE: it is malformed, or not within 1 ms and 1e9
 * s. */
enum status job_parse_duration(const char *text, double *seconds, struct error *error);
/* Parses an index, or "first:end:step" with optional parts. false: the text is neither. */
bool job_parse_slice(const char *text, struct job_slice *slice);

/* Prints text as a value in a job file. It is double-quoted if `quoted` is set or if YAML would not read it back
 * unchanged, and each `$` is doubled, so that it does not begin a parameter. */
void job_print_text(FILE *to, const char *text, bool quoted);

/* Generate configs/job.schema.json and the reference in configs/README.md from the table of keys. */
void job_print_schema(FILE *to);
void job_print_reference(FILE *to);

#endif
