/* random_terms.h - what a job says of an input that is made from a seed; random.h says what is made of it. */
#ifndef RUNNER_RANDOM_TERMS_H
#define RUNNER_RANDOM_TERMS_H

#include "../../kernels/core/operation.h"

enum distribution { RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_INTEGER, RANDOM_CONSTANT, RANDOM_INDEX };

struct random_terms {
    enum distribution distribution;
    double low, high; /* uniform, integer */
    double mean, std; /* normal */
    double value;     /* constant */
    uint64_t seed;
};

/* What the data type cannot hold of the values that the terms draw for an array of `shape`: the name of the term to
 * blame, and a sentence in `message`. NULL: every value comes out as documented. Terms that are NaN are not judged. */
const char *random_unfit(const struct random_terms *terms, enum dtype dtype, const struct shape *shape,
                         char message[256]);

/* The largest value of a type below `high`. A value up to it is never rounded up to `high`. */
double random_largest_below(enum dtype dtype, double high);

#endif
