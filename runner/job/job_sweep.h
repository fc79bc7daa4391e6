/* job_sweep.h - the combinations of swept parameters: which there are (`zip`, `where`), their numbers and labels.
 *
 * Parameters in one list of `zip` advance together: they count as one in every set, and a set that has one of them has
 * all (parameters_used returns all). */
#ifndef RUNNER_JOB_SWEEP_H
#define RUNNER_JOB_SWEEP_H

#include "job_parameters.h"

#define MAX_COMBINATIONS (1 << 20) /* of a set of parameters: `where` is evaluated for each */

/* Whether the conditions of `where` hold, for each combination of the swept parameters that they use. */
struct where_conditions {
    uint64_t uses;   /* the set of swept parameters in the conditions; 0: every combination is run */
    int64_t count;   /* combinations of `uses` */
    int64_t dropped; /* those for which a condition is false */
    bool *holds;     /* for each combination; NULL: every combination is run */
};

/* Reads `zip`, lists of names of swept parameters with equally many values; NULL: there is none. Also reports values
 * that a swept parameter, or a zipped list, has twice. */
void sweep_zip(struct parameters *parameters, const struct yaml_node *zip);
/* Reads `where`, an expression or a list of them, and evaluates it for every combination; NULL: there is none. Reports
 * a `where` that is false for all. The caller frees conditions->holds. */
void sweep_where(struct parameters *parameters, const struct yaml_node *where, struct where_conditions *conditions);
/* Is there a combination that agrees with `choice` on `set` and for which all conditions hold? */
bool sweep_keeps(const struct parameters *parameters, const struct where_conditions *conditions, uint64_t set,
                 const int choice[MAX_PARAMETERS]);

/* Reports derived parameters that have no value for a combination that is run. */
void sweep_check_derived(struct parameters *parameters, const struct where_conditions *conditions);

/* The combinations of a set of parameters, numbered so that the first parameter changes slowest. choice[i]: the index
 * of the value of parameter i. */
int64_t combinations_count(const struct parameters *parameters, uint64_t set); /* at most INT32_MAX */
void combination_at(const struct parameters *parameters, uint64_t set, int64_t number, int choice[MAX_PARAMETERS]);
int64_t combination_number(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);
/* The label of a combination: "n=512,dtype=float32". Labels name groups in the results file, so '/', ',' and control
 * characters in a value become '_'; parameters_check_values reports values that become equal. The caller
 * frees. */
char *combination_label(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]);

#endif
