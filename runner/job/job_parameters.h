/* job_parameters.h - `$name` in a job file: the values of parameters, and their replacement in scalars.
 *
 * A parameter is one value, a sweep (a list, or a range {from, to, step} or {from, to, times}), or derived: a text or
 * an expression that uses other parameters, evaluated for each combination of the swept ones (job_sweep.h). */
#ifndef RUNNER_JOB_PARAMETERS_H
#define RUNNER_JOB_PARAMETERS_H

#include "yaml.h"

#define MAX_PARAMETERS      64    /* a set of them is a uint64_t */
#define MAX_VALUES          4096  /* of one parameter */
#define MAX_PARAMETER_BYTES 65536 /* of a scalar after substitution */

struct expression;
struct scalar;
struct array_names;
struct map;

/* A parameter of the job. */
struct parameter {
    const struct yaml_node *where; /* the key that defines the parameter */
    const char *name;
    bool swept; /* the value is a list or a range, in the job file or in --set */
    int count;
    const struct yaml_node **values;
    uint64_t zipped; /* the set of parameters that advance together, this one included; 0: it advances alone */
    /* A derived parameter has no values of its own: */
    const struct yaml_node *derived; /* the value as written; NULL: the parameter is not derived */
    struct expression *expression;   /* of `derived`; NULL: that is a text */
    uint64_t uses;                   /* the set of swept parameters that the value depends on */
    bool failed;                     /* the parameter has no value, which was reported */
    const struct yaml_node *latest;  /* the latest value; NULL: it has not been computed yet */
    int choice[MAX_PARAMETERS];      /* of the parameters in `uses`, for `latest` */
};

/* All parameters of the job. A set of them is a uint64_t with a bit for each. */
struct parameters {
    struct yaml_document *document; /* errors are added to it */
    const char *const *sets;        /* of --set: "n=4096", "n=512,1024", "n=[...]", "n={from: ...}" */
    int set_count;
    int count;
    struct parameter items[MAX_PARAMETERS];
    uint64_t swept;  /* the set of swept parameters */
    uint64_t wrong;  /* the set of parameters of which a value was reported: others that use it report no more */
    uint64_t used;   /* the set of parameters that parameters_check has found in use */
    bool incomplete; /* a missing file or a wrong name of anything was reported: names that seem unknown may be it */
};

/* Reads the map `parameters`, which may be NULL, and applies --set; a parameter that is swept in the map stays swept. A
 * value may use earlier parameters. Reports errors, but not unknown names in --set: parameters_check_sets does. */
void parameters_load(struct parameters *parameters, const struct yaml_node *map);
/* Adds a swept parameter; --set may choose among its values. */
void parameters_add(struct parameters *parameters, const struct yaml_node *key, char *const *values, int count);
/* Reports names in --set that are not parameters. */
void parameters_check_sets(const struct parameters *parameters);
void parameters_free(struct parameters *parameters);

/* The index of the parameter called `name`, a text of `length` bytes; -1: there is no such parameter. */
int parameters_find(const struct parameters *parameters, const char *name, int length);
/* The index of the parameter of which a scalar consists, "$n"; -1: the scalar has other text, or names no parameter. */
int parameters_alone(const struct parameters *parameters, const struct yaml_node *scalar);
/* The value of the parameter that a scalar consists of, if the value has a position in a file; else the scalar. */
const struct yaml_node *parameters_written(const struct parameters *parameters, const struct yaml_node *scalar,
                                           const int *choice);
/* Was it reported that no parameter has this name? */
bool parameters_reported_unset(const struct parameters *parameters, const char *name);
/* The set of parameters that a tree uses: those that it names, and the swept ones on which their values depend. */
uint64_t parameters_used(const struct parameters *parameters, const struct yaml_node *tree);
/* Like parameters_used, but adds the set to parameters->used, and reports names that are not set. */
uint64_t parameters_check(struct parameters *parameters, const struct yaml_node *tree);

/* Returns the scalar with its parameters replaced, or the scalar itself if it has none. A scalar that consists of one
 * parameter takes the type of the value, any other one the type of its new text. `choice`: the index of the value to
 * take of each parameter; NULL: the first of each. Reports a text that grows too long, and a derived parameter without
 * a value, and returns NULL; also if a name is not set, which parameters_check has reported. */
const struct yaml_node *parameters_replace(struct parameters *parameters, const struct yaml_node *scalar,
                                           const int *choice);
/* The value of a parameter under a choice. NULL: it has no value, which was reported. */
const struct yaml_node *parameters_value(struct parameters *parameters, int index, const int *choice);
/* A node with the value and the type of a scalar, at `where`. */
const struct yaml_node *parameters_node(const struct parameters *parameters, const struct yaml_node *where,
                                        const struct scalar *scalar);
/* Makes a map of an expression over arrays, under a choice; the caller frees the map with map_free. NULL: the
 * expression cannot be computed, which was reported at `where`, the node with its text. */
struct map *parameters_map(struct parameters *parameters, const struct yaml_node *where,
                           const struct expression *expression, const struct array_names *arrays, const int *choice);

/* Evaluates an expression under a choice. false: it has no value, which was reported at `where`, the node with the
 * expression's text. */
bool parameters_evaluate(struct parameters *parameters, const struct yaml_node *where,
                         const struct expression *expression, const int *choice, struct scalar *value);
/* Evaluates a condition under a choice. false: it is neither true nor false, which was reported at `where`, the node
 * with the condition's text. */
bool parameters_hold(struct parameters *parameters, const struct yaml_node *where, const struct expression *expression,
                     const int *choice, bool *holds);
/* Parses the text of a scalar as an expression, which the caller frees. NULL: it is none, which was reported. */
struct expression *parameters_parse(const struct parameters *parameters, const struct yaml_node *where);

/* Reports values of a swept parameter that are the same, or give the same label. */
void parameters_check_values(const struct parameters *parameters, const struct parameter *parameter);
/* The expression that a parameter's value is; the caller frees. NULL: the value is a text, or has a fault, which was
 * reported and sets *good to false. */
struct expression *parameters_expression(const struct parameters *parameters, const struct yaml_node *value,
                                         bool *good);
/* A copy of a text in which each `$` is doubled, so that it does not begin a parameter. The caller frees. */
char *parameters_escape(const char *text, size_t length);
/* The character that stands for `c` in labels. */
char label_character(char c);
/* Do two values give the same label? */
bool same_in_label(const char *a, const char *b);

#endif
