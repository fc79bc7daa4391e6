/* kernel_draws.h - for test_kernels_random.c: sizes and values drawn at random, all from one 64-bit seed. */
#include "../../kernels/core/operation.h"

#include <math.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* splitmix64: computes number `i` of a sequence without those before it. */
static uint64_t mixed(uint64_t seed, uint64_t i) {
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

struct draws {
    uint64_t seed, drawn;
};

static uint64_t draw(struct draws *draws) {
    return mixed(draws->seed, draws->drawn++);
}

/* 0 .. count-1 */
static int64_t draw_below(struct draws *draws, int64_t count) {
    return (int64_t)(draw(draws) % (uint64_t)count);
}

static bool one_in(struct draws *draws, int64_t count) {
    return draw_below(draws, count) == 0;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* 1 .. most, each power of two with the same probability. */
static int64_t draw_any(struct draws *draws, int64_t most) {
    double bits = log2((double)most + 1) * (double)draw_below(draws, 1 << 20) * 0x1p-20;
    int64_t size = (int64_t)exp2(bits);
    return size < 1 ? 1 : size > most ? most : size;
}

/* A multiple of one of the edges: exact in half of the cases, else one below or above. 0: it would be too large. */
static int64_t draw_edge(struct draws *draws, const int edges[KERNEL_MAX_EDGES], int64_t most) {
    int count = 0;
    while (count < KERNEL_MAX_EDGES && edges[count] > 0) count++;
    int64_t edge = count > 0 ? edges[draw_below(draws, count)] : 1, multiples = most / edge;
    int64_t multiple = multiples < 2 || one_in(draws, 2) ? 1 : 1 + draw_below(draws, multiples < 6 ? multiples : 6);
    int64_t size = edge * multiple + (one_in(draws, 2) ? 0 : one_in(draws, 2) ? -1 : 1);
    return size <= most ? size : 0;
}

/* The size of one dimension, at most `most` (which is at least 1): near an edge, small, prime or anything; seldom 0. */
static int64_t draw_size(struct draws *draws, const int edges[KERNEL_MAX_EDGES], int64_t most) {
    static const int primes[] = {2,   3,   5,   7,    11,   13,   17,   31,    37,   61,
                                 127, 257, 509, 1021, 2039, 4093, 8191, 16381, 65521};
    int64_t size = 0, kind = draw_below(draws, 64);
    if (kind == 0) return 0;
    if (kind < 40) size = draw_edge(draws, edges, most);
    if (kind >= 40 && kind < 46) size = 1 + draw_below(draws, most < 40 ? most : 40);
    if (kind >= 46 && kind < 54) size = primes[draw_below(draws, sizeof primes / sizeof primes[0])];
    return size > 0 && size <= most ? size : draw_any(draws, most);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

enum values {
    VALUES_NORMAL,    /* about [-1.5, 1.5] */
    VALUES_INTEGERS,  /* -4 .. 4: results are exact in any order */
    VALUES_TIES,      /* few different values */
    VALUES_ZEROS,     /* seven in eight are zero, of either sign */
    VALUES_WIDE,      /* magnitudes that differ widely */
    VALUES_SUBNORMAL, /* subnormal numbers; a second operand lifts products out of the subnormal range */
    VALUES_HUGE,      /* so large that the result is barely finite */
    VALUES_SPOILED,   /* ordinary numbers with a few infinities, and NaNs of any payload */
    VALUES_BITS,      /* any bits */
    VALUES_OFFSET,    /* numbers that differ in their last bits alone; integers near their type's largest */
    VALUES_GAPS,      /* every second one is a NaN, or fewer or more */
    VALUES_COUNT
};

static const char *const values_names[VALUES_COUNT] = {"normal", "integers", "ties", "zeros",  "wide", "subnormal",
                                                       "huge",   "spoiled",  "bits", "offset", "gaps"};

/* How the values of one operand are drawn. */
struct terms {
    enum values values;
    enum dtype dtype;
    uint64_t seed;
    int exponent; /* VALUES_HUGE: of the largest value; VALUES_SUBNORMAL: of the factor of a second operand, 0 for the
                     first */
    int64_t twos; /* for products: one element in so many is a power of two; 0: elements are not multiplied */
};

static int float_bits(enum dtype dtype) {
    return dtype == FLOAT64 ? 52 : dtype == FLOAT32 ? 23 : dtype == FLOAT16 ? 10 : 7;
}

/* The exponent of the largest finite number. */
static inline int float_top(enum dtype dtype) {
    return dtype == FLOAT64 ? 1023 : dtype == FLOAT16 ? 15 : 127;
}

static double number_of(const struct terms *terms, uint64_t bits) {
    const double sign = bits & 1 ? -1 : 1, unit = (double)(bits >> 11) * 0x1p-53; /* [0, 1) */
    const int span = terms->dtype == FLOAT16 ? 5 : 20, middle = terms->dtype == FLOAT16 ? 8 : 20;
    const uint64_t spare = bits >> 1 & 1023;
    if (terms->values == VALUES_GAPS && (bits >> 32) % 16 < terms->seed % 17) return NAN;
    if (terms->twos > 0) { /* nearly all are 1, so that no order of multiplication leaves the range */
        uint64_t which = (bits >> 11) % (uint64_t)terms->twos;
        return sign * (which == 0 ? (spare % 2 ? 2 : 0.5) : which == 1 ? 1 + dtype_epsilon(terms->dtype) : 1);
    }
    switch (terms->values) {
    case VALUES_INTEGERS: return (double)(spare % 9) - 4;
    case VALUES_TIES: return (double)(spare % 7) * 0.25 - 0.75;
    case VALUES_ZEROS: return spare % 8 ? sign * 0 : sign * unit;
    case VALUES_WIDE: return ldexp(sign * (1 + unit) / 2, (int)(spare % (uint64_t)(2 * span + 1)) - middle);
    case VALUES_SUBNORMAL:
        if (terms->exponent) return ldexp(sign * (0.5 + unit), terms->exponent);
        return sign * floor(ldexp(unit, float_bits(terms->dtype))) * dtype_smallest(terms->dtype);
    case VALUES_OFFSET: return 1e3 + (double)(spare % 16) * 1024 * dtype_epsilon(terms->dtype);
    case VALUES_HUGE: return ldexp(sign * (1 + unit) / 2, terms->exponent);
    default: return sign * 1.5 * unit;
    }
}

/* A quiet NaN with any sign and payload. */
static uint64_t nan_bits(enum dtype dtype, uint64_t bits) {
    int fraction = float_bits(dtype), width = 8 * (int)dtype_size(dtype);
    uint64_t exponent = ((UINT64_C(1) << (width - 1)) - (UINT64_C(1) << fraction)) | UINT64_C(1) << (fraction - 1);
    return bits | exponent;
}

static inline void fill_values(const struct terms *terms, int64_t count, char *data) {
    const size_t size = dtype_size(terms->dtype);
    const bool any = terms->values == VALUES_BITS, real = dtype_is_float(terms->dtype);
#pragma omp parallel for if (count > 4096)
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = mixed(terms->seed, (uint64_t)i);
        if (any)
            memcpy(data + (size_t)i * size, &bits, size);
        else if (terms->values == VALUES_OFFSET && !real)
            dtype_store_integer(terms->dtype, data, i, (int64_t)(bits >> 60) - (INT64_C(1) << (8 * size - 1)));
        else if (real)
            dtype_store(terms->dtype, data, i, number_of(terms, bits));
        else
            dtype_store_integer(terms->dtype, data, i, (int64_t)(bits >> 1 & 1023) % 9 - 4);
    }
    if (terms->values != VALUES_SPOILED || !real || count == 0) return;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t bits = mixed(~terms->seed, i), at = bits % (uint64_t)count, pattern = nan_bits(terms->dtype, bits);
        if (i % 2)
            memcpy(data + at * size, &pattern, size);
        else
            dtype_store(terms->dtype, data, (int64_t)at, bits >> 63 ? INFINITY : -INFINITY);
    }
}
