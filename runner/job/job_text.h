/* job_text.h - the entries of a job file before they are expanded, and the job printed as text after parameters,
 * defaults and merges. */
#ifndef RUNNER_JOB_TEXT_H
#define RUNNER_JOB_TEXT_H

#include "job_read.h"

/* A variant that --only names. */
struct only_variant {
    char *label; /* or a variant's name, which selects all its labels */
    bool silent; /* a combination that lacks the variant is not reported: one was, or `only` has winners of searches */
};

/* An input or operation of the file, before its expansion. */
struct definition {
    const struct yaml_node *where; /* its name */
    const struct yaml_node *node;  /* its map */
    char *name;
    bool is_input;
    enum op op;    /* of an operation; OP_COUNT: unknown, which was reported */
    uint64_t uses; /* the set of parameters that it depends on, directly or through the definitions that it reads */
    int read_count;
    int *reads;     /* indices of the definitions that it reads under some combination */
    bool kept;      /* --only selects it, or is not given */
    int only_count; /* the variants that --only selects; 0: all */
    struct only_variant *only;
    int count;      /* combinations of the swept parameters in `uses` */
    int *instances; /* for each combination its index in job->inputs or job->operations; -1: `where` drops it */
};

struct definitions {
    int count;
    struct definition *items; /* inputs, then operations in order */
};

/* The value of a key of an operation: its own, else the one in `defaults`. NULL: neither has the key. */
const struct yaml_node *definition_get(const struct job_reader *reader, const struct definition *definition,
                                       const char *key);

/* The text for job_operation.resolved; the caller frees. */
char *job_resolve_operation(const struct job_operation *operation);
/* The text for job.resolved: YAML that loads as the same job. `overrides` may be NULL. The caller frees. */
char *job_resolve(const struct job_reader *reader, const struct definitions *definitions,
                  const struct job_overrides *overrides);

/* Is the text a letter or '_', followed by letters, digits, '_', '-'? */
bool is_identifier(const char *text);

#endif
