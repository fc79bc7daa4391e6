/* overflows.h - counts the elements of a result that overflowed the type that they are computed in: those that are
 * infinite although no element of an input that they depend on is.
 *
 * Each element counts by itself, so that shards, panels and devices count the same as one pass. The result is looked at
 * while it is written. Only where it has infinities are the inputs read once more, each whole; then a bit is kept for
 * each element of the result, and for each of an input's that are not reduced. */
#ifndef RUNNER_OVERFLOWS_H
#define RUNNER_OVERFLOWS_H

#include "../plan/plan.h"

struct overflows {
    const struct geometry *geometry; /* NULL: its result is not looked at */
    unsigned char *infinite;         /* a bit for each element of the result; NULL: none is infinite so far */
};

/* Begins a pass: of an operation that computes floats. */
struct overflows overflows_begin(const struct run *run, const struct geometry *geometry);
/* Looks at a packed box of the result, as it is computed. STATUS_RUN: the host has no memory for it. */
enum status overflows_look(struct overflows *overflows, const struct box *box, const void *data, struct error *error);
/* Counts once all boxes were looked at; `reader` reads the run's inputs. */
enum status overflows_count(const struct overflows *overflows, const struct run *run, const struct host_reader *reader,
                            int64_t *count, struct error *error);
void overflows_end(struct overflows *overflows);

#endif
