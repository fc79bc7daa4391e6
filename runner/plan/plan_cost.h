/* plan_cost.h - predicts the time of everything that a run does. */
#ifndef RUNNER_PLAN_COST_H
#define RUNNER_PLAN_COST_H

#include "plan.h"

struct cost {
    double pass_s;    /* one pass: read, copy, compute, write */
    double kernel_s;  /* the part of pass_s in which the kernel runs */
    double repeats_s; /* warm-up and samples; with `until`, the least number of samples */
    double verify_s;
    double total_s;       /* of pass, repeats and verification */
    double bound_s;       /* lower bound of the launches by measured limits; NaN: not known */
    const char *bound_by; /* "compute", "memory", "" */
};

/* The cost of a run that is not skipped. Verification of a task's first variant includes computing the truth, which the
 * other variants share. */
struct cost plan_cost(const struct plan *plan, const struct run *run);

/* Does verification compare every element of a task's output, instead of samples? It does also if samples would cost as
 * much. Only for a task that is verified. */
bool plan_checks_all_elements(const struct task *task);
/* `verify: auto` compares every element of a product up to this size; a larger truth is not cached. */
#define FULL_CHECK_ELEMENTS (INT64_C(1) << 22)

/* Bytes of inputs and samples that verification may cache in host memory (verify/box_cache.h), so that it does not read
 * them again; no more than the job's memory. */
int64_t plan_held_bytes(const struct plan *plan);
#define HELD_BYTES (INT64_C(256) << 20)

#endif
