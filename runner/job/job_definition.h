/* job_definition.h - the inputs and operations of a job file before they are expanded. */
#ifndef RUNNER_JOB_DEFINITION_H
#define RUNNER_JOB_DEFINITION_H

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

/* The definition called `name` among the first `count`; NULL: there is none. */
const struct definition *definition_find(const struct definitions *definitions, int count, const char *name);
/* The value of a key of an operation: its own, else the one in `defaults`. NULL: neither has the key. */
const struct yaml_node *definition_get(const struct job_reader *reader, const struct definition *definition,
                                       const char *key);

/* Is the text a letter or '_', followed by letters, digits, '_', '-'? */
bool is_identifier(const char *text);

#endif
