/* verify.h - verifies a run's output. Every variant is verified before it is timed. */
#ifndef RUNNER_VERIFY_H
#define RUNNER_VERIFY_H

#include "../plan/plan.h"
#include "../stream/stream.h"

/* Elements that are wrong, and the smallest box of the array that holds them: from `first` to `last` of each axis. */
struct wrong_elements {
    int64_t count;
    int rank;
    int64_t first[MAX_RANK], last[MAX_RANK];
};

struct verdict {
    bool right;
    double error;     /* largest |out - truth| / magnitude; infinity: a wrong NaN, Inf or integer; NaN: not verified */
    double tolerance; /* the largest allowed error */
    const char *how;  /* "full", "sampled", "none" */
    int64_t compared; /* number of elements */
    struct wrong_elements wrong;
    char message[256]; /* position, value and truth of a wrong element, and what `wrong` holds; "": none */
};

/* Caches the reference results ("truths") that the variants of one task are compared with. The caller frees it with
 * truth_cache_free. */
struct truth_cache;
struct truth_cache *truth_cache_create(void);
void truth_cache_free(struct truth_cache *cache);

/* Prepares verification, before a run's pass. The returned callbacks copy boxes of the inputs during the pass, where
 * that is cheaper than to read them again (box_cache.h). */
struct box_observer verify_begin(const struct plan *plan, const struct run *run, struct truth_cache *cache);

/* Verifies a run's stored output, after the pass. It compares every element with the truth if that is cheap
 * (VERIFY_AUTO) or requested (VERIFY_FULL); otherwise sampled boxes and, of a product, the boxes that Freivalds' check
 * suspects. A roof counts as right without a check. `reader` reads the inputs and the run's result. Random choices
 * depend only on the operation's resolved text and the seeds of its inputs, so equal jobs make equal choices.
 * STATUS_RUN: the host is out of memory; other statuses are the reader's. */
enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *reader,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error);

#endif
