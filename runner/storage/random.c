/* random.c - Philox4x32-10, and elements made of its bits.
 *
 * A piece of elements is generated at a time: first its bits, in a loop that vectorises over counters, then its values
 * in double, then the data type. Pieces do not depend on each other. */
#include "random.h"

#include "../../kernels/core/convert.h"
#include "../../kernels/core/cpu.h"
#include "elements/layout.h"
#include <math.h>
#include <string.h>

#define PAIRS 512 /* counters of a piece; each gives two elements */

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* The bits of elements 2 * pair and 2 * pair + 1, for `PAIRS` pairs: ten rounds on the counter (pair, 0). */
CPU_BODY philox_body(uint64_t seed, uint64_t pair, uint64_t *restrict bits) {
#pragma omp simd
    for (int i = 0; i < PAIRS; i++) {
        uint64_t counter = pair + (uint64_t)i;
        uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            uint64_t product0 = UINT64_C(0xD2511F53) * c0, product1 = UINT64_C(0xCD9E8D57) * c2;
            c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
            c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)product1;
            c3 = (uint32_t)product0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        bits[2 * i] = c0 | (uint64_t)c1 << 32;
        bits[2 * i + 1] = c2 | (uint64_t)c3 << 32;
    }
}
CPU_VERSIONS(philox, (uint64_t seed, uint64_t pair, uint64_t *bits), (seed, pair, bits))

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The values of `uniform`: from low on, at most `max`. */
CPU_BODY uniform_body(double low, double range, double max, const uint64_t *restrict bits, double *restrict values) {
#pragma omp simd
    for (int i = 0; i < 2 * PAIRS; i++) {
        double value = low + range * ((double)(int64_t)(bits[i] >> 11) * 0x1p-53);
        values[i] = value < max ? value : max;
    }
}
CPU_VERSIONS(uniform, (double low, double range, double max, const uint64_t *bits, double *values),
             (low, range, max, bits, values))

/* Box-Muller: one pair of elements from the bits of the pair. */
static void normal(const struct random_terms *terms, const uint64_t *bits, double *values) {
    for (int i = 0; i < 2 * PAIRS; i += 2) {
        double u = (double)((bits[i] >> 11) + 1) * 0x1p-53, v = (double)(bits[i + 1] >> 11) * 0x1p-53;
        double radius = terms->std * sqrt(-2 * log(u)), angle = 2 * M_PI * v;
        values[i] = terms->mean + radius * cos(angle);
        values[i + 1] = terms->mean + radius * sin(angle);
    }
}

/* An end of the range of `integer`, modulo 2^64. */
static uint64_t integer_end(double value) {
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

/* Stores integers modulo 2^bits of their type. */
static void store_integers(size_t size, const uint64_t *from, int64_t count, void *to) {
    switch (size) {
    case 1:
        for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[i] = (uint8_t)from[i];
        break;
    case 2:
        for (int64_t i = 0; i < count; i++) ((uint16_t *)to)[i] = (uint16_t)from[i];
        break;
    case 4:
        for (int64_t i = 0; i < count; i++) ((uint32_t *)to)[i] = (uint32_t)from[i];
        break;
    default: memcpy(to, from, (size_t)count * sizeof *from);
    }
}

/* Generates `count` elements from linear index `index` on. They must belong to the piece that starts at pair index / 2.
 * `max`: the largest value of `uniform`. */
static void fill_piece(const struct random_terms *terms, double max, enum dtype dtype, uint64_t index, int64_t count,
                       void *data) {
    uint64_t bits[2 * PAIRS];
    double values[2 * PAIRS];
    int64_t skip = (int64_t)(index % 2);
    switch (terms->distribution) {
    case RANDOM_UNIFORM:
        philox(terms->seed, index / 2, bits);
        uniform(terms->low, terms->high - terms->low, max, bits, values);
        break;
    case RANDOM_NORMAL:
        philox(terms->seed, index / 2, bits);
        normal(terms, bits, values);
        break;
    case RANDOM_INTEGER: {
        philox(terms->seed, index / 2, bits);
        uint64_t low = integer_end(terms->low), range = integer_end(terms->high) - low + 1;
        for (int64_t i = skip; i < skip + count; i++) bits[i] = low + (range ? bits[i] % range : bits[i]);
        break;
    }
    case RANDOM_CONSTANT:
        for (int64_t i = 0; i < count; i++) values[skip + i] = terms->value;
        break;
    case RANDOM_INDEX:
        for (int64_t i = 0; i < count; i++) bits[skip + i] = index + (uint64_t)i;
        break;
    }
    if (terms->distribution == RANDOM_INTEGER || terms->distribution == RANDOM_INDEX) {
        if (!dtype_is_float(dtype)) {
            store_integers(dtype_size(dtype), bits + skip, count, data);
            return;
        }
        bool is_signed = terms->distribution == RANDOM_INDEX || terms->low < 0;
        for (int64_t i = skip; i < skip + count; i++)
            values[i] = is_signed ? (double)(int64_t)bits[i] : (double)bits[i];
    }
    convert_from_double(dtype, values + skip, count, data);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

void random_fill(const struct random_terms *terms, const struct shape *shape, enum dtype dtype, const struct box *box,
                 void *data) {
    /* One element less than the pairs have: the first element may be the second of its pair. */
    const int64_t piece_elements = 2 * PAIRS - 1;
    const struct selection all = selection_of_box(box);
    const struct rows rows = layout_rows(&all, shape, true, piece_elements);
    const int64_t size = (int64_t)dtype_size(dtype);
    double max = terms->distribution == RANDOM_UNIFORM ? random_largest_below(dtype, terms->high) : 0;
#pragma omp parallel for if (box_elements(box) > CPU_ALONE)
    for (int64_t piece = 0; piece < rows.pieces; piece++) {
        struct row_run run;
        for (int64_t number = 0; layout_run(&rows, piece, number, &run); number++)
            fill_piece(terms, max, dtype, (uint64_t)run.in_array, run.elements, (char *)data + run.in_box * size);
    }
}
