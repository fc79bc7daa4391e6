/* job_parameters.h - `$name` in a job file: its values, its replacement, and the combinations of swept parameters. */
#ifndef RUNNER_JOB_PARAMETERS_H
#define RUNNER_JOB_PARAMETERS_H

#include "yaml.h"

#define MAX_PARAMETERS      64    /* a set of them is a uint64_t */
#define MAX_VALUES          4096  /* of one parameter */
#define MAX_PARAMETER_BYTES 65536 /* of a scalar after substitution */

struct parameter {
    const struct yaml_node *where; /* the key that defines it; NULL: none */
    const char *name;
    bool swept; /* its value is a list, in the job file or in --set */
    int count;
    const struct yaml_node **values;
};

struct parameters {
    int count;
    struct parameter items[MAX_PARAMETERS];
    uint64_t swept; /* the set of swept parameters */
};

/* Reads the map `parameters` (NULL: none) and applies --set ("n=4096", "n=512,1024"; a parameter that is a list in the
 * map stays swept). Reports errors, but not unknown names in --set: parameters_check_sets does. A value may use earlier
 * parameters that are not swept. Returns the set of parameters that other parameters use. */
uint64_t parameters_load(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *map,
                         const char *const *sets, int set_count);
/* Adds a swept parameter; --set may choose among its values. */
void parameters_add(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *key,
                    char *const *values, int count, const char *const *sets, int set_count);
/* Reports names in --set that are not parameters. */
void parameters_check_sets(const struct parameters *parameters, struct yaml_document *document, const char *const *sets,
                           int set_count);
void parameters_free(struct parameters *parameters);

/* The set of parameters that a tree uses. If `document` is not NULL, reports names that are not set. */
uint64_t parameters_used(const struct parameters *parameters, struct yaml_document *document,
                         const struct yaml_node *tree);

/* Returns the scalar with its parameters replaced, or the scalar itself if it has none. A scalar that consists of one
 * parameter takes the type of the value, any other one the type of its new text. `choice`: the index of the value to
 * take of each parameter; NULL: the first of each. Returns NULL if a name is not set, which parameters_used has
 * reported, or if the text grows too long, which it reports. */
const struct yaml_node *parameters_replace(const struct parameters *parameters, struct yaml_document *document,
                                           const struct yaml_node *scalar, const int *choice);

/* The combinations of a set of parameters, numbered so that the first parameter changes slowest. */
int64_t combinations_count(const struct parameters *parameters, uint64_t set); /* at most INT32_MAX */
void combination_at(const struct parameters *parameters, uint64_t set, int64_t number, int choice[MAX_PARAMETERS]);
int64_t combination_number(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);
/* The label of a combination: "n=512,dtype=float32". Labels name groups in the results file, so '/', ',' and control
 * characters in a value become '_'; parameters_load reports two values of a parameter that become equal so. The caller
 * frees. */
char *combination_label(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);
/* The character that stands for `c` in labels. */
char label_character(char c);

#endif
