/* job.h - the job file as C structures: names resolved, parameters substituted, sweeps expanded; no numbers computed.
 *
 *     job file -> [yaml.c] tree -> [job.c] struct job -> [plan.c] runs
 *
 * job_load expands each input and operation into one entry for each combination of the swept parameters that it depends
 * on, directly or through its inputs. Entries keep the order of the file; the label names the combination
 * ("n=512,dtype=float32"; "" where there is none). The parser, the JSON schema and the reference in configs/README.md
 * are made from one table of keys, in job_keys.c. */
#ifndef RUNNER_JOB_H
#define RUNNER_JOB_H

#include "../../kernels/core/operation.h"
#include "random_terms.h"
#include "yaml.h"

/* The widths of columns in the results file's table, in bytes with a NUL: longer names and labels are refused. */
#define JOB_NAME_BYTES  64
#define JOB_LABEL_BYTES 160

/* What `select` takes of one axis, as Python writes it. */
struct job_slice {
    bool index;               /* element number `first` alone: the axis is dropped */
    bool has_end;             /* false: to the axis's end */
    int64_t first, end, step; /* negative ones count from the axis's end, as in Python; step >= 1 */
};
#define JOB_SLICE_TEXT 72
const char *job_slice_format(const struct job_slice *slice, char text[JOB_SLICE_TEXT]);

struct job_select {
    const struct yaml_node *where;
    int rank; /* 0: the key is not given */
    struct job_slice of[MAX_RANK];
};

/* "[0:100, ::2, -1]"; the caller frees. */
char *job_select_text(const struct job_select *select);

/* What a file of an input may lead to: external links, sources of virtual data sets, external storage. */
enum job_external { EXTERNAL_SAME_FOLDER, EXTERNAL_ALLOW, EXTERNAL_DENY };

/* A number as the job has it: exact, where it is an integer of 64 bits. */
struct job_number {
    bool is_integer;
    int64_t integer;
    double real;
};
#define JOB_MISSING_MOST 16
struct job_missing {
    int count;
    struct job_number of[JOB_MISSING_MOST];
};

struct job_input {
    const struct yaml_node *where;
    char *name, *label;
    bool random;
    char *file;                 /* a file: its path, relative to the current directory or absolute */
    char *file_as_written;      /* ...as it stands in the job file */
    char *dataset, *field;      /* field: of a table; NULL: none */
    enum job_external external; /* a file: the job's */
    bool concatenated;          /* `file` is a pattern: all matches are one array... */
    int concatenate;            /* ...along this axis */
    bool has_rows;
    int64_t rows[2];            /* first, count */
    struct job_select select;   /* a file */
    bool fill;                  /* a file: sources of a virtual data set that are missing are fill values */
    bool has_dtype;             /* a file: it is read as... */
    enum dtype as;              /* ...that */
    bool stored_numbers;        /* a file: its attributes are not applied (`decode: none`) */
    struct job_missing missing; /* a file: stored numbers that stand for no value */
    struct random_terms terms;  /* random */
    struct shape shape;         /* random */
    enum dtype dtype;           /* random */
};

struct job_variant {
    const struct yaml_node *where;
    char *name;  /* "tiled"; "auto" */
    char *label; /* "tiled,tile=16": the parameters that the job gives, in its order */
    int count;   /* of the parameters given; names and values (as text) not yet checked against the kernel */
    char *names[KERNEL_MAX_PARAMETERS], *values[KERNEL_MAX_PARAMETERS];
    const struct yaml_node *parameter_where[KERNEL_MAX_PARAMETERS];
};

enum job_verify { VERIFY_AUTO, VERIFY_FULL, VERIFY_SAMPLED, VERIFY_NONE };
enum job_store { STORE_FIRST, STORE_ALL, STORE_NONE };

enum job_compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_LZF, COMPRESSION_ZSTD };
enum job_keep { KEEP_AUTO, KEEP_ALWAYS, KEEP_NEVER };

struct run_options {
    int64_t warmup;
    int64_t repeat_min, repeat_max; /* equal: a fixed number */
    double repeat_until;            /* relative half width of the median's 95 % interval; 0: no such rule */
    bool cold;                      /* cache: cold */
    enum job_verify verify;
    double tolerance; /* NaN: the operation's default */
    enum job_store store;
    bool stop_on_error;
    enum job_keep keep_tiles;
    struct shape chunks; /* rank 0: not given */
    enum job_compression compression;
    int level; /* of gzip and zstd */
    bool shuffle, fletcher32;
};

/* Are trials made for their times? The one trial of a run that is not timed makes its result and no more. */
static inline bool job_is_timed(const struct run_options *options) {
    return options->warmup > 0 || options->repeat_max > 1;
}

/* An operand of an operation: an input or an earlier operation. */
struct job_reference {
    bool is_input;
    int index; /* into job->inputs or job->operations */
};

struct job_operation {
    const struct yaml_node *where, *inputs_where;
    char *id, *label;
    enum op op;
    struct op_options options;
    int input_count;
    struct job_reference inputs[MAX_INPUTS];
    int variant_count;
    struct job_variant *variants;
    struct run_options run;
    bool has_dtype; /* its result is stored as... */
    enum dtype as;  /* ...that */
    /* `to`: the file that its result goes to, relative to the current directory or absolute, and the data set in it,
     * "/group/name"; NULL: the results file. */
    char *to_file, *to_name;
    const struct yaml_node *to_where;
    char *resolved; /* canonical one-line text of op, options, run options: for `--resolved` and the resume key */
};

enum job_device { JOB_DEVICE_AUTO, JOB_DEVICE_CPU, JOB_DEVICE_CUDA };

struct job {
    struct yaml_document *document;
    char *path, *name, *description;
    char *output; /* relative to the current directory or absolute */
    enum job_device device;
    int *device_numbers;    /* `cuda:N`, lists; device_count 0: any */
    int device_count;       /* -1: cuda:all */
    int64_t memory_bytes;   /* 0: memory_fraction counts */
    double memory_fraction; /* of what is free on the device */
    bool sync;
    enum job_external external;
    int input_count, operation_count;
    struct job_input *inputs;
    struct job_operation *operations; /* an operation's inputs come before it */
    char *resolved;                   /* the whole job as YAML after parameters, defaults and merges: /job_resolved */
    char *verbatim; /* what its user wrote, if what was parsed is its resolved text; NULL: the document */
};

/* What the command line overrides in a job. NULL or 0: nothing. */
struct job_overrides {
    const char *output, *device, *memory;
    const char *const *sets; /* "n=4096" or "n=512,1024" */
    int set_count;
    const char *only;                     /* "product:tiled,total": these operations (job_only.h) and what they read */
    const char *repeat, *warmup, *verify; /* of all operations */
};

/* Reads a job. Never NULL; yaml_error_count(job->document) says whether it is good (mistakes in overrides count too,
 * without a place). job_load does not check shapes, files and what variants take: plan_make does, and adds to the same
 * complaints. */
struct job *job_load(const char *path, const struct job_overrides *overrides);
/* The same for a job's text, that stands in the file `path`: messages name it, and paths are relative to its folder. */
struct job *job_parse(const char *path, const char *text, const struct job_overrides *overrides);
void job_free(struct job *job);

/* Parse "cuda:1" and "8GiB" or "90%", from the job file or from --device and --memory. false: malformed; `message` says
 * how. */
bool job_parse_device(const char *text, struct job *job, char message[256]);
bool job_parse_memory(const char *text, int64_t *bytes, double *fraction, char message[256]);

/* Prints text as a job file's value: in double quotes where `quoted`, or where YAML would not read it back unchanged;
 * `$`, which would begin a parameter, is doubled. */
void job_print_text(FILE *to, const char *text, bool quoted);

/* From the table of keys: configs/job.schema.json, and the reference part of configs/README.md. */
void job_print_schema(FILE *to);
void job_print_reference(FILE *to);

#endif
