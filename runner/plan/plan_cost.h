/* plan_cost.h - the predicted seconds of everything that a run does. */
#ifndef RUNNER_PLAN_COST_H
#define RUNNER_PLAN_COST_H

#include "plan.h"

struct cost {
    double pass_s;    /* reading, copying, computing and writing, once */
    double kernel_s;  /* of that, all launches of the kernel */
    double repeats_s; /* warm-up and samples; their least number where `until` decides */
    double verify_s;
    double total_s;
    double bound_s;       /* the least that measured limits allow the launches; NaN: not known */
    const char *bound_by; /* "compute", "memory", "" */
};

/* The cost of a run that is not skipped. The check of a task's first variant also makes the truth, which the others
 * share. */
struct cost plan_cost(const struct plan *plan, const struct run *run);

/* Is a run's output compared whole, or by samples? Whole too where samples would be computed from as much. Only asked
 * where it is verified at all. */
bool plan_checks_whole(const struct task *task);
#define WHOLE_ELEMENTS                                                                                                 \
    (INT64_C(1) << 22) /* `verify: auto` compares no larger product whole; larger truths are not kept */

/* Bytes of a run's inputs, and of its samples, that its check keeps in host memory, so that it need not read them again
 * (verify/gather.h): no more than the job's memory. */
int64_t plan_held_bytes(const struct plan *plan);
#define HELD_BYTES (INT64_C(256) << 20)

#endif
