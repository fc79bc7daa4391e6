/* exact_bins.h - the fast way into an exact accumulator (exact.h): a few float64 additions per number, all without
 * error, instead of integer shifts.
 *
 * A bin is a float64 that holds 1.5 * 2^(u+52) plus a sum of multiples of 2^u. As long as that sum stays below 2^(u+51)
 * the bin's last bit counts 2^u, whatever it holds. So the hardware's addition rounds a number x to a multiple of 2^u,
 * and x minus what the bin has grown by is exactly the rest (Dekker's fast two-sum), which the next bin takes:
 *
 *     x         1.0110100111010011001 * 2^e       numbers below 2^(u+40) in magnitude
 *     bin 0     ........10110100|                 counts 2^u         sum = bin + x;  x -= sum - bin;  bin = sum
 *     bin 1                     |111010011001     counts 2^(u-40)    bin += x
 *
 * A rest is at most 2^(u-1), which is 2^39 of the next bin's units. 1024 additions of up to 2^40 units make 2^50: no
 * bin leaves its range, and the bins' contents, read as integers off their bits, are then added to the limbs. This is
 * the exact core of the indexed sums of Ahrens, Demmel and Nguyen, with limbs behind it for what they cut off.
 *
 * Two bins are a window of 80 bits, for float32 numbers whose exponents span 57. Three bins are the window for float64,
 * whose exponents may span 68. One bin holds every float16. A batch that does not fit moves the window so that its
 * largest number fits. Numbers that do not fit even then (1e30 and 1 and 1e-30 side by side) go to the limbs, one by
 * one. That is slower and just as exact.
 *
 * Keys decide whether a batch fits. A key is 32 bits of a number; keys have the order of the magnitudes. */
#ifndef KERNELS_REDUCE_EXACT_BINS_H
#define KERNELS_REDUCE_EXACT_BINS_H

#include "exact.h"

#define EXACT_BINS  3    /* the most bins of a type */
#define BIN_BITS    40   /* exponents from one bin's unit to the next */
#define BIN_NUMBERS 1024 /* additions after which a bin must be emptied */
#define BIN_SLACK   4    /* a window leaves room for numbers up to this many exponents larger */

/* The bins of a thread or lane: a window of exponents. */
struct exact_bins {
    double bin[EXACT_BINS];
    int unit;                   /* bin 0 counts 2^unit */
    int added;                  /* numbers since the bins were empty */
    uint32_t smallest, largest; /* keys that fit: smallest <= key < largest, or 0 */
};

/* Keys are bits of a float64 or, for narrower types, of a float32, without the sign: the exponent begins at this bit,
 * and has this bias. */
EXACT_CALL int exact_key_shift(struct exact_type type) {
    return type.digits == 53 ? 21 : 24;
}
EXACT_CALL int exact_key_bias(struct exact_type type) {
    return type.digits == 53 ? 1023 : 127;
}

/* The key of x: it grows with |x|, and is 0 for zero. */
EXACT_CALL uint32_t exact_key(struct exact_type type, double x) {
    if (type.digits == 53) {
        const uint64_t bits = (uint64_t)exact_bits(x);
        return (uint32_t)(bits >> 32) << 1 | ((uint32_t)bits != 0);
    }
    const float narrow = (float)x; /* exact: x was widened from a type that float holds */
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits << 1;
}

/* The key of infinity. */
EXACT_CALL uint32_t exact_key_of_infinity(struct exact_type type) {
    return (uint32_t)(2 * exact_key_bias(type) + 1) << exact_key_shift(type);
}

/* The key of 2^exponent, which is not below the smallest normal number; the key of infinity if 2^exponent is too
 * large. */
EXACT_CALL uint32_t exact_key_of_power(struct exact_type type, int exponent) {
    const int bias = exact_key_bias(type);
    return (uint32_t)(exponent > bias ? 2 * bias + 1 : exponent + bias) << exact_key_shift(type);
}

/* The bits of a bin that counts 2^unit and holds nothing. */
EXACT_CALL int64_t exact_empty_bin(int unit) {
    return (int64_t)(unit + 52 + 1023) << 52 | INT64_C(1) << 51;
}

/* The unit of the lowest window: its last bin counts the type's smallest number. */
EXACT_CALL int exact_lowest_unit(struct exact_type type) {
    return type.min_exponent + BIN_BITS * (type.bins - 1);
}

/* Makes the bins empty; the first one then counts 2^unit. */
EXACT_CALL void exact_bins_reset(struct exact_type type, struct exact_bins *bins, int unit) {
    const int last = unit - BIN_BITS * (type.bins - 1);
    EXACT_UNROLL
    for (int i = 0; i < type.bins; i++) bins->bin[i] = exact_from_bits(exact_empty_bin(unit - BIN_BITS * i));
    bins->unit = unit;
    bins->added = 0;
    bins->largest = exact_key_of_power(type, unit + BIN_BITS);
    bins->smallest = last > type.min_exponent ? exact_key_of_power(type, last + type.digits - 1) : 1;
}

/* Makes empty bins, with the lowest window. */
EXACT_CALL void exact_bins_begin(struct exact_type type, struct exact_bins *bins) {
    exact_bins_reset(type, bins, exact_lowest_unit(type));
}

/* Moves what the bins hold to the limbs, and leaves them empty. If a type has a single bin, infinities and NaNs were
 * added to it too. */
EXACT_CALL void exact_bins_empty(struct exact_type type, struct exact_bins *bins, int64_t *limbs, int64_t stride) {
    EXACT_UNROLL
    for (int i = 0; i < type.bins; i++) {
        const int unit = bins->unit - BIN_BITS * i;
        const int64_t bits = exact_bits(bins->bin[i]), empty = exact_empty_bin(unit);
        if (type.bins == 1 && (bits >> 52 & 0x7ff) == 0x7ff)
            exact_add_number(type, limbs, stride, bins->bin[i]);
        else
            exact_add(type, limbs, stride, bits - empty, unit);
        bins->bin[i] = exact_from_bits(empty);
    }
    bins->added = 0;
}

/* Counts `count` numbers that are about to be added; first empties the bins if they have no room for so many. */
EXACT_CALL void exact_bins_reserve(struct exact_type type, struct exact_bins *bins, int64_t *limbs, int64_t stride,
                                   int count) {
    if (bins->added > BIN_NUMBERS - count) exact_bins_empty(type, bins, limbs, stride);
    bins->added += count;
}

/* Do the numbers of a batch fit? `largest`: their largest key; `smallest_minus_1`: their smallest key minus 1. The
 * minus 1 turns the key 0 of a zero, which always fits, into 2^32-1. */
EXACT_CALL bool exact_bins_fit(const struct exact_bins *bins, uint32_t largest, uint32_t smallest_minus_1) {
    return largest < bins->largest && smallest_minus_1 >= bins->smallest - 1;
}

/* Adds to a bin what it can hold of x; returns the rest. */
EXACT_CALL double exact_bin_add(double *bin, double x) {
    const double sum = *bin + x, rest = x - (sum - *bin);
    *bin = sum;
    return rest;
}

/* Adds a number that fits. */
EXACT_CALL void exact_bins_add(struct exact_type type, struct exact_bins *bins, double x) {
    EXACT_UNROLL
    for (int i = 0; i < type.bins - 1; i++) x = exact_bin_add(&bins->bin[i], x);
    bins->bin[type.bins - 1] += x;
}

/* Moves the window so that a number with the key `largest` lies near its upper end, and empties the bins before. Does
 * nothing for infinities and NaNs. */
EXACT_CALL void exact_bins_move(struct exact_type type, struct exact_bins *bins, int64_t *limbs, int64_t stride,
                                uint32_t largest) {
    /* The number is below 2^exponent. */
    const int exponent = (int)(largest >> exact_key_shift(type)) - exact_key_bias(type) + 1;
    const int lowest = exact_lowest_unit(type), highest = 1023 - 53;
    int unit = exponent - BIN_BITS + BIN_SLACK;
    unit = unit < lowest ? lowest : unit > highest ? highest : unit;
    if (largest >= exact_key_of_infinity(type) || unit == bins->unit) return;
    if (bins->added > 0) exact_bins_empty(type, bins, limbs, stride);
    exact_bins_reset(type, bins, unit);
}

/* Adds any number: to the bins if it fits, else to the limbs. */
EXACT_CALL void exact_bins_add_any(struct exact_type type, struct exact_bins *bins, int64_t *limbs, int64_t stride,
                                   double x) {
    const uint32_t key = exact_key(type, x);
    if (exact_bins_fit(bins, key, key - 1))
        exact_bins_add(type, bins, x);
    else
        exact_add_number(type, limbs, stride, x);
}

#endif
