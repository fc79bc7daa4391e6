/* random_terms.c - checks that a data type can hold the values of a random input. */
#include "random_terms.h"

#include <math.h>
#include <stdio.h>

/* Normal values lie within this many standard deviations: Box-Muller takes the logarithm of at least 2^-53. */
#define NORMAL_REACH 8.6

/* Returns `value` rounded to the data type. */
static double rounded(enum dtype dtype, double value) {
    uint64_t element;
    dtype_store(dtype, &element, 0, value);
    return dtype_load(dtype, &element, 0);
}

double random_largest_below(enum dtype dtype, double high) {
    if (!dtype_is_float(dtype)) return ceil(high) - 1;
    /* The gap doubles until `high` less the gap does not round to `high`; it begins with half a bit of float64. */
    double below = high, gap = high == 0 ? 0x1p-1074 : fabs(high) * 0x1p-54;
    for (; below >= high && gap < INFINITY; gap *= 2) below = rounded(dtype, high - gap);
    return below;
}

/* The number of bits of an integer type, without the sign. */
static int value_bits(enum dtype dtype) {
    return (int)dtype_size(dtype) * 8 - (dtype_is_signed(dtype) ? 1 : 0);
}

static bool type_holds(enum dtype dtype, double value) {
    if (dtype_is_float(dtype)) return fabs(value) <= dtype_largest(dtype);
    double limit = ldexp(1, value_bits(dtype));
    return value < limit && value >= (dtype_is_signed(dtype) ? -limit : 0);
}

/* Writes the range of a type: "int8 holds -128 to 127". */
static const char *range_text(enum dtype dtype, char text[96]) {
    uint64_t max = UINT64_MAX >> (64 - value_bits(dtype));
    if (dtype_is_float(dtype))
        snprintf(text, 96, "%s holds %.6g to %.6g", dtype_name(dtype), -dtype_largest(dtype), dtype_largest(dtype));
    else if (dtype_is_signed(dtype))
        snprintf(text, 96, "%s holds -%llu to %llu", dtype_name(dtype), (unsigned long long)max + 1,
                 (unsigned long long)max);
    else
        snprintf(text, 96, "%s holds 0 to %llu", dtype_name(dtype), (unsigned long long)max);
    return text;
}

/* uniform_unfit, integer_unfit and constant_unfit return the name of the term that is wrong and write a sentence into
 * `message`; NULL: no term is wrong. */
static const char *uniform_unfit(const struct random_terms *terms, enum dtype dtype, char message[256]) {
    double low = terms->low, high = terms->high;
    if (!(low < high)) {
        snprintf(message, 256, "'high' (%g) must be above 'low' (%g)", high, low);
        return "high";
    }
    if (!isfinite(high - low)) {
        snprintf(message, 256, "the range from 'low' (%g) to 'high' (%g) exceeds float64", low, high);
        return "high";
    }
    double max = random_largest_below(dtype, high);
    if (type_holds(dtype, low) && type_holds(dtype, max) && max < low) {
        snprintf(message, 256, "%s has no value between 'low' (%.17g) and 'high' (%.17g)", dtype_name(dtype), low,
                 high);
        return "high";
    }
    return NULL;
}

/* Checks a range of integers: both ends are included, and each number drawn is rounded to the type. It stays within the
 * range if the type rounds neither end outwards. */
static const char *integer_unfit(const struct random_terms *terms, enum dtype dtype, char message[256]) {
    double low = terms->low, high = terms->high;
    const char *term = "high";
    if (low != floor(low) || high != floor(high))
        snprintf(message, 256, "'low' (%g) and 'high' (%g) of distribution integer must be integers", low, high);
    else if (low > high)
        snprintf(message, 256, "'high' (%g) must not be below 'low' (%g)", high, low);
    else if (!(fabs(low) <= 0x1p53 && fabs(high) <= 0x1p53))
        snprintf(message, 256, "'low' and 'high' of distribution integer must be within 2^53 of 0");
    else if (type_holds(dtype, low) && rounded(dtype, low) < low) {
        snprintf(message, 256, "'low' is %.17g, which %s rounds to %.17g, below it", low, dtype_name(dtype),
                 rounded(dtype, low));
        term = "low";
    } else if (type_holds(dtype, high) && rounded(dtype, high) > high)
        snprintf(message, 256, "'high' is %.17g, which %s rounds to %.17g, above it", high, dtype_name(dtype),
                 rounded(dtype, high));
    else
        return NULL;
    return term;
}

/* Checks that the type does not round a constant to an integer or to 0. */
static const char *constant_unfit(double value, enum dtype dtype, char message[256]) {
    if (!dtype_is_float(dtype) && value != floor(value))
        snprintf(message, 256, "'value' is %.17g, but %s holds integers", value, dtype_name(dtype));
    else if (value != 0 && rounded(dtype, value) == 0)
        snprintf(message, 256, "'value' is %.17g, which %s rounds to 0", value, dtype_name(dtype));
    else
        return NULL;
    return "value";
}

/* Returns `term`, and writes a sentence into `message`, if the data type does not hold `value`; else NULL. */
static const char *check_value(enum dtype dtype, double value, const char *term, const char *what, char message[256]) {
    if (type_holds(dtype, value)) return NULL;
    char range[96];
    snprintf(message, 256, "%s %.10g; %s", what, value, range_text(dtype, range));
    return term;
}

const char *random_unfit(const struct random_terms *terms, enum dtype dtype, const struct shape *shape,
                         char message[256]) {
    const double reach = NORMAL_REACH * terms->std;
    const char *term = NULL;
    switch (terms->distribution) {
    case RANDOM_UNIFORM: {
        if (isnan(terms->low) || isnan(terms->high)) return NULL;
        double max = dtype_is_float(dtype) ? terms->high : random_largest_below(dtype, terms->high);
        term = uniform_unfit(terms, dtype, message);
        if (!term) term = check_value(dtype, terms->low, "low", "'low' is", message);
        return term ? term : check_value(dtype, max, "high", "values reach", message);
    }
    case RANDOM_INTEGER:
        if (isnan(terms->low) || isnan(terms->high)) return NULL;
        term = integer_unfit(terms, dtype, message);
        if (!term) term = check_value(dtype, terms->low, "low", "'low' is", message);
        return term ? term : check_value(dtype, terms->high, "high", "'high' is", message);
    case RANDOM_NORMAL:
        if (isnan(terms->mean) || isnan(terms->std)) return NULL;
        term = check_value(dtype, terms->mean - reach, "std", "values reach", message);
        return term ? term : check_value(dtype, terms->mean + reach, "std", "values reach", message);
    case RANDOM_CONSTANT:
        if (isnan(terms->value)) return NULL;
        term = check_value(dtype, terms->value, "value", "'value' is", message);
        return term ? term : constant_unfit(terms->value, dtype, message);
    case RANDOM_INDEX: /* integer types store the index modulo 2^bits */
        if (!dtype_is_float(dtype)) return NULL;
        return check_value(dtype, (double)shape_elements(shape) - 1, "distribution", "the last index is", message);
    }
    return NULL;
}
