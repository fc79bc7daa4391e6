/* random_terms.h - the distribution of a random input, and its parameters ("terms"). random.h generates the values. */
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

/* Checks that a data type can hold the values of a distribution for an array of `shape`. NULL: it can. Otherwise
 * returns the name of the term that is wrong, and writes a sentence into `message`. Terms that are NaN are not
 * checked. */
const char *random_unfit(const struct random_terms *terms, enum dtype dtype, const struct shape *shape,
                         char message[256]);

/* The largest value of a type below `high`: random values are rounded to the type, and must not become `high`. */
double random_largest_below(enum dtype dtype, double high);

#endif
