/* verify.h - checks a run's output. Every variant is checked before it is timed. */
#ifndef RUNNER_VERIFY_H
#define RUNNER_VERIFY_H

#include "../plan/plan.h"
#include "../stream/stream.h"

struct verdict {
    bool right;
    double error; /* the largest |out - truth| / magnitude seen; infinity: a wrong NaN, Inf or integer; NaN: not
                     verified */
    double tolerance;
    const char *how;   /* "full", "sampled", "none" */
    char message[256]; /* which element is wrong, its value and its truth; "" if none */
};

/* Truths that the variants of one task share. */
struct truth_cache;
struct truth_cache *truth_cache_create(void);
void truth_cache_free(struct truth_cache *cache);

/* Before a run's pass: what its check is computed from is taken out of the pass where that is cheaper than to read it
 * again (gather.h). */
struct watch verify_begin(const struct plan *plan, const struct run *run, struct truth_cache *cache);

/* After the pass: compares a run's output, as it is stored, with the truth: every element if that is cheap
 * (VERIFY_AUTO) or asked for (VERIFY_FULL); else sampled boxes, and of a product also the boxes that Freivalds' check
 * suspects. A limit counts as right without a check. `reader` reads the inputs and the run's result. Random choices
 * follow from the operation's resolved text and the seeds of its inputs, so they are the same for the same job.
 * STATUS_RUN: the host is out of memory; other statuses are the reader's. */
enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *reader,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error);

#endif
