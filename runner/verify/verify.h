/* verify.h - is a result right? Every variant is checked before its time counts. */
#ifndef RUNNER_VERIFY_H
#define RUNNER_VERIFY_H

#include "../plan/plan.h"

struct verdict {
    bool right;
    double error; /* the largest |out - truth| / magnitude that was seen; infinity for a NaN or Inf that the
                     truth has not, or for a wrong integer */
    double tolerance;
    char message[256]; /* what is wrong and where; or how it was checked */
};

/* Truths that several variants of one task share. */
struct truth_cache;
struct truth_cache *truth_cache_create(void);
void truth_cache_free(struct truth_cache *cache);

/* Compares a run's output with the truth: everything when that is cheap (VERIFY_AUTO) or asked for (VERIFY_FULL), else
 * sampled boxes, and of a product those parts that Freivalds' check suspects. A limit is right whatever it left.
 * `reader` reads the inputs and the run's result. What is drawn at random follows from the operation's resolved text
 * and the seeds of its inputs: the same for the same job. STATUS_RUN: the host has no memory. */
enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *reader,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error);

#endif
