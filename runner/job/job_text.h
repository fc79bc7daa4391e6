/* job_text.h - what job.c and job_text.c share: the entries of a job file before they are expanded, and the job as text
 * after parameters, defaults and merges. */
#ifndef RUNNER_JOB_TEXT_H
#define RUNNER_JOB_TEXT_H

#include "job_read.h"

/* A variant that --only names. */
struct only_variant {
    char *label;     /* or its name alone, for all labels of that name */
    bool complained; /* that the job does not have it */
};

/* An input or operation as the file has it. */
struct definition {
    const struct yaml_node *where; /* its name */
    const struct yaml_node *node;  /* its map */
    char *name;
    bool is_input;
    enum op op;    /* operations; OP_COUNT: not known (complained) */
    uint64_t uses; /* the set of parameters that it depends on, directly or through what it reads */
    int read_count;
    int *reads;     /* the definitions that it reads, in any combination */
    bool kept;      /* by --only */
    int only_count; /* the variants to which --only restricts it; 0: it keeps all */
    struct only_variant *only;
    int first, count; /* its instances in job->inputs or job->operations, one a combination */
};

struct definitions {
    int count;
    struct definition *items; /* inputs, then operations in order */
};

/* The value of an operation's key: its own, else that of `defaults`. NULL: neither has it. */
const struct yaml_node *definition_get(const struct reader *reader, const struct definition *definition,
                                       const char *key);

/* job_operation.resolved; the caller frees. */
char *job_resolve_operation(const struct job_operation *operation);
/* job.resolved: YAML that loads as the same job; `overrides` may be NULL; the caller frees. */
char *job_resolve(const struct reader *reader, const struct definitions *definitions,
                  const struct job_overrides *overrides);

#endif
