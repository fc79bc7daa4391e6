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
#include "random_terms.h"
#include "yaml.h"

/* The widths of the name and label columns in the results file, in bytes with a NUL. Longer ones are errors. */
#define JOB_NAME_BYTES  64
#define JOB_LABEL_BYTES 160

/* One entry of `select`: the elements to take along one axis, with Python's meaning. */
struct job_slice {
    bool index;               /* only element `first`, and the axis is dropped */
    bool has_end;             /* false: to the end of the axis */
    int64_t first, end, step; /* negative: counted from the end of the axis; step >= 1 */
};
#define JOB_SLICE_TEXT 72
const char *job_slice_format(const struct job_slice *slice, char text[JOB_SLICE_TEXT]);

struct job_select {
    const struct yaml_node *where;
    int rank; /* number of entries; 0: the key is not given */
    struct job_slice of[MAX_RANK];
};

/* "[0:100, ::2, -1]"; the caller frees. */
char *job_select_text(const struct job_select *select);

/* Which other files an input's file may refer to by external links, virtual data sets and external storage. */
enum job_external { EXTERNAL_SAME_FOLDER, EXTERNAL_ALLOW, EXTERNAL_DENY };

/* A number in a job file; exact if it is a 64-bit integer. */
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
    bool random; /* generated (the last three members); false: read from a file (the members in between) */
    char *file;  /* relative to the current directory, or absolute */
    char *file_as_written;
    char *dataset, *field;      /* field: of a table; NULL: none */
    enum job_external external; /* copied from the job */
    bool concatenated;          /* `file` is a pattern, and its matches are concatenated... */
    int concatenate;            /* ...along this axis */
    bool has_rows;
    int64_t rows[2]; /* first, count */
    struct job_select select;
    bool fill;                  /* missing sources of a virtual data set are read as fill values */
    bool has_dtype;             /* elements are converted... */
    enum dtype as;              /* ...to this type */
    bool stored_numbers;        /* scale_factor, _FillValue and the like are not applied (`decode: none`) */
    struct job_missing missing; /* stored numbers that mean "no value" */
    struct random_terms terms;
    struct shape shape;
    enum dtype dtype;
};

struct job_variant {
    const struct yaml_node *where;
    char *name;  /* "tiled"; "auto" */
    char *label; /* "tiled,tile=16": the name and the parameters that the job gives, in its order */
    int count;   /* parameters given; names and values are texts that are not yet checked against the kernel */
    char *names[KERNEL_MAX_PARAMETERS], *values[KERNEL_MAX_PARAMETERS];
    const struct yaml_node *parameter_where[KERNEL_MAX_PARAMETERS];
};

enum job_verify { VERIFY_AUTO, VERIFY_FULL, VERIFY_SAMPLED, VERIFY_NONE };
enum job_store { STORE_FIRST, STORE_ALL, STORE_NONE };

enum job_compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_LZF, COMPRESSION_ZSTD };
enum job_keep { KEEP_AUTO, KEEP_ALWAYS, KEEP_NEVER };

struct run_options {
    int64_t warmup;
    int64_t repeat_min, repeat_max; /* equal: a fixed number of repeats */
    double repeat_until; /* stop at this relative half width of the median's 95 % interval; 0: no such rule */
    bool cold;           /* cache: cold */
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

/* Is the run timed? If not, it makes one launch, which produces its result. */
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
    bool has_dtype; /* the result is stored as... */
    enum dtype as;  /* ...this type */
    /* `to`: the file that the result is stored in, relative to the current directory or absolute, and the data set in
     * it, "/group/name". NULL: the results file. */
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
    int *device_numbers;    /* the numbers N of `cuda:N` */
    int device_count;       /* of them; 0: any device; -1: cuda:all */
    int64_t memory_bytes;   /* 0: memory_fraction applies */
    double memory_fraction; /* of the device's free memory */
    bool sync;
    enum job_external external;
    int input_count, operation_count;
    struct job_input *inputs;
    struct job_operation *operations; /* an operation's inputs come before it */
    char *resolved;                   /* the whole job as YAML after parameters, defaults and merges: /job_resolved */
    char *
        verbatim; /* the user's original text, if the document is a resolved text; NULL: the document is the original */
};

/* Overrides from the command line. NULL or 0: not given. */
struct job_overrides {
    const char *output, *device, *memory;
    const char *const *sets; /* "n=4096" or "n=512,1024" */
    int set_count;
    const char *only; /* "product:tiled,total": these operations (job_only.h) and the ones that they read */
    const char *repeat, *warmup, *verify; /* for all operations */
};

/* Reads a job. Never returns NULL; yaml_error_count(job->document) is 0 if the job is valid. Errors in overrides count
 * too, without a line. plan_make checks shapes, files and variants later, and adds to the same list of errors. */
struct job *job_load(const char *path, const struct job_overrides *overrides);
/* The same for the text of a job. `path` is its file: messages name it, and paths are relative to its folder. */
struct job *job_parse(const char *path, const char *text, const struct job_overrides *overrides);
void job_free(struct job *job);

/* Parse a device, "cuda:1", and a size, "8GiB" or "90%", of the job file or of --device and --memory. false: malformed;
 * `message` explains. */
bool job_parse_device(const char *text, struct job *job, char message[256]);
bool job_parse_memory(const char *text, int64_t *bytes, double *fraction, char message[256]);

/* Prints text as a value in a job file. It is double-quoted if `quoted` is set or if YAML would not read it back
 * unchanged, and each `$` is doubled, so that it does not begin a parameter. */
void job_print_text(FILE *to, const char *text, bool quoted);

/* Generate configs/job.schema.json and the reference in configs/README.md from the table of keys. */
void job_print_schema(FILE *to);
void job_print_reference(FILE *to);

#endif
