/* job_parameters.h - `$name` in a job file: what it stands for, and the combinations of those that are swept. */
#ifndef RUNNER_JOB_PARAMETERS_H
#define RUNNER_JOB_PARAMETERS_H

#include "yaml.h"

#define MAX_PARAMETERS      64    /* a set of them is a uint64_t */
#define MAX_VALUES          4096  /* of one parameter */
#define MAX_PARAMETER_BYTES 65536 /* of a scalar after substitution */

struct parameter {
    const struct yaml_node *where; /* its key; NULL: none */
    const char *name;
    bool swept; /* a list, in the job file or by --set */
    int count;
    const struct yaml_node **values;
};

struct parameters {
    int count;
    struct parameter items[MAX_PARAMETERS];
    uint64_t swept; /* the set of those that are swept */
};

/* Reads the map `parameters` (NULL: none) and what --set replaces ("n=4096", "n=512,1024"; a parameter that is a list
 * in the map stays swept). Complains, but not about what --set says of others: parameters_check_sets does. A value may
 * use earlier parameters that are not swept. Returns the set of parameters that others use. */
uint64_t parameters_load(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *map,
                         const char *const *sets, int set_count);
/* Adds a swept parameter, of which --set may choose values. */
void parameters_add(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *key,
                    char *const *values, int count, const char *const *sets, int set_count);
/* Complains about what --set gives to no parameter. */
void parameters_check_sets(const struct parameters *parameters, struct yaml_document *document, const char *const *sets,
                           int set_count);
void parameters_free(struct parameters *parameters);

/* The set of parameters that a tree uses. If `document` is given, complains about names that are not set. */
uint64_t parameters_used(const struct parameters *parameters, struct yaml_document *document,
                         const struct yaml_node *tree);

/* The scalar with its parameters replaced: itself when it has none; one that is only a parameter takes that one's type,
 * any other is typed by its new text. `choice` has the number of the chosen value of each parameter; NULL: the first.
 * NULL: a name is not set (parameters_used has complained) or the text grows too long (complains). */
const struct yaml_node *parameters_replace(const struct parameters *parameters, struct yaml_document *document,
                                           const struct yaml_node *scalar, const int *choice);

/* The combinations of a set of parameters, the first parameter changing slowest. */
int64_t combinations_count(const struct parameters *parameters, uint64_t set); /* INT32_MAX: that many or more */
void combination_at(const struct parameters *parameters, uint64_t set, int64_t number, int choice[MAX_PARAMETERS]);
int64_t combination_number(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);
/* "n=512,dtype=float32". Labels name groups in the results file: '/' and ',' in a value, and control characters, become
 * '_', and parameters_load refuses two values of a parameter that come to the same. The caller frees. */
char *combination_label(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);
/* A value's character as labels have it. */
char label_character(char c);

#endif
