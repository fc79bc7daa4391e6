/* overflows.h - counts the elements of a result that overflowed the type in which they are computed: those that are
 * infinite although no input element that they depend on is.
 *
 * Each element counts by itself, so shards, panels and devices count the same as one pass. The result is scanned while
 * it is written. Only if it has infinities are the inputs read once more, completely. Then the scan keeps one bit for
 * each element of the result, and one for each element of an input, without the axes that are reduced. */
#ifndef RUNNER_OVERFLOWS_H
#define RUNNER_OVERFLOWS_H

#include "../plan/plan.h"

struct overflows {
    const struct geometry *geometry; /* NULL: the result is not scanned */
    unsigned char *infinite;         /* one bit for each element of the result; NULL: none is infinite so far */
};

/* Begins to scan the result of a pass. Only results of operations that compute floats are scanned, and no roofs. */
struct overflows overflows_begin(const struct run *run, const struct geometry *geometry);
/* Scans a packed box of the result, in the type in which it is computed. STATUS_RUN: the host is out of memory. */
enum status overflows_scan(struct overflows *overflows, const struct box *box, const void *data, struct error *error);
/* Counts the overflows, after all boxes were scanned; `reader` reads the run's inputs. */
enum status overflows_count(const struct overflows *overflows, const struct run *run, const struct host_reader *reader,
                            int64_t *count, struct error *error);
/* Frees the bits. */
void overflows_end(struct overflows *overflows);

#endif
