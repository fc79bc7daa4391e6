/* test_random.c - the generator compared with its published test vectors, its distributions, and its independence of
 * tiles. */
#include "../../runner/storage/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct box row_of(int64_t start, int64_t count) {
    return (struct box){.rank = 1, .start = {start}, .count = {count}};
}

/* Gets the 64 bits of each element: `integer` below 2^53 gives the low bits, `uniform` below 1 the high bits. */
static void fill_bits(uint64_t seed, int64_t start, int64_t count, uint64_t *bits) {
    struct random_terms low = {.distribution = RANDOM_INTEGER, .high = 0x1p53 - 1, .seed = seed};
    struct random_terms high = {.distribution = RANDOM_UNIFORM, .high = 1, .seed = seed};
    struct shape shape = {1, {INT64_MAX}};
    struct box box = row_of(start, count);
    double *values = malloc((size_t)count * sizeof *values);
    random_fill(&low, &shape, UINT64, &box, bits);
    random_fill(&high, &shape, FLOAT64, &box, values);
    for (int64_t i = 0; i < count; i++) bits[i] |= (uint64_t)(values[i] * 0x1p53) << 11;
    free(values);
}

/* Plain rounds of Philox. Random123's known answers use all four words of the counter, the generator only two. So the
 * answers check these rounds, and these rounds check the generator. */
static void philox_plain(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c[0], p1 = UINT64_C(0xCD9E8D57) * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                            (uint32_t)p0};
        memcpy(c, next, sizeof next);
    }
}

static void known_answers(void **state) {
    uint32_t zeros[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u}, pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    static const uint32_t of_zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                          of_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                          of_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    philox_plain(zeros, 0, 0);
    philox_plain(ones, ~0u, ~0u);
    philox_plain(pi, 0xa4093822, 0x299f31d0);
    assert_memory_equal(zeros, of_zeros, 16);
    assert_memory_equal(ones, of_ones, 16);
    assert_memory_equal(pi, of_pi, 16);

    static const uint64_t seeds[] = {0, 7, UINT64_C(0x299f31d0a4093822)};
    static const int64_t starts[] = {0, 1001, INT64_C(0x123456789a), INT64_MAX - 2048};
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < 4; i++) {
            uint64_t bits[2000];
            fill_bits(seeds[s], starts[i], 2000, bits);
            for (int e = 0; e < 2000; e++) {
                uint64_t index = (uint64_t)starts[i] + (uint64_t)e, pair = index / 2;
                uint32_t c[4] = {(uint32_t)pair, (uint32_t)(pair >> 32), 0, 0};
                philox_plain(c, (uint32_t)seeds[s], (uint32_t)(seeds[s] >> 32));
                assert_true(bits[e] == (c[2 * (index % 2)] | (uint64_t)c[2 * (index % 2) + 1] << 32));
            }
        }
}

/* Any box has the elements that the whole array has there. */
static void boxes_agree(void **state) {
    const struct shape shape = {3, {5, 37, 1031}};
    static const struct box boxes[] = {{3, {0, 0, 0}, {5, 37, 1031}}, {3, {1, 3, 5}, {2, 30, 1000}},
                                       {3, {2, 0, 0}, {3, 37, 1031}}, {3, {0, 7, 1030}, {5, 20, 1}},
                                       {3, {4, 36, 1}, {1, 1, 1029}}, {3, {1, 1, 1}, {0, 5, 5}}};
    for (int distribution = RANDOM_UNIFORM; distribution <= RANDOM_INDEX; distribution++)
        for (int t = 0; t < DTYPE_COUNT; t++) {
            enum dtype dtype = (enum dtype)t;
            struct random_terms terms = {.distribution = (enum distribution)distribution,
                                         .low = -3,
                                         .high = 90,
                                         .mean = 5,
                                         .std = 20,
                                         .value = 17,
                                         .seed = 42};
            size_t size = dtype_size(dtype), elements = (size_t)shape_elements(&shape);
            char *all = malloc(elements * size), *part = malloc(elements * size);
            random_fill(&terms, &shape, dtype, &boxes[0], all);
            for (size_t b = 1; b < sizeof boxes / sizeof boxes[0]; b++) {
                const struct box *box = &boxes[b];
                random_fill(&terms, &shape, dtype, box, part);
                for (int64_t i = 0, e = 0; i < box->count[0]; i++)
                    for (int64_t j = 0; j < box->count[1]; j++)
                        for (int64_t k = 0; k < box->count[2]; k++, e++) {
                            int64_t at = ((box->start[0] + i) * 37 + box->start[1] + j) * 1031 + box->start[2] + k;
                            assert_memory_equal(all + (size_t)at * size, part + (size_t)e * size, size);
                        }
            }
            free(all);
            free(part);
        }
}

static void make(const struct random_terms *terms, enum dtype dtype, int64_t count, double *values) {
    struct shape shape = {1, {count}};
    struct box box = row_of(0, count);
    void *data = malloc((size_t)count * 8);
    random_fill(terms, &shape, dtype, &box, data);
    for (int64_t i = 0; i < count; i++) values[i] = dtype_load(dtype, data, i);
    free(data);
}

static void distributions_are_as_told(void **state) {
    enum { COUNT = 100000 };
    double *x = malloc(COUNT * sizeof *x);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        enum dtype dtype = (enum dtype)t;
        struct random_terms uniform = {.low = 2, .high = 10};
        double sum = 0, least = INFINITY, most = -INFINITY;
        make(&uniform, dtype, COUNT, x);
        for (int i = 0; i < COUNT; i++) sum += x[i], least = fmin(least, x[i]), most = fmax(most, x[i]);
        assert_true(least >= 2 && least < 2.1 && most < 10 && most > 8.9);
        assert_true(fabs(sum / COUNT - 6) < 0.1);

        struct random_terms integer = {.distribution = RANDOM_INTEGER, .low = 3, .high = 7};
        int seen[8] = {0};
        make(&integer, dtype, COUNT, x);
        for (int i = 0; i < COUNT; i++) assert_true(x[i] >= 3 && x[i] <= 7), seen[(int)x[i]]++;
        for (int v = 3; v <= 7; v++) assert_true(abs(seen[v] - COUNT / 5) < COUNT / 50);

        struct random_terms constant = {.distribution = RANDOM_CONSTANT, .value = 12};
        make(&constant, dtype, 100, x);
        for (int i = 0; i < 100; i++) assert_true(x[i] == 12);
        struct random_terms index = {.distribution = RANDOM_INDEX};
        make(&index, dtype, 100, x);
        for (int i = 0; i < 100; i++) assert_true(x[i] == i);
    }
    struct random_terms normal = {.distribution = RANDOM_NORMAL, .mean = 3, .std = 2, .seed = 1};
    double sum = 0, squares = 0;
    make(&normal, FLOAT64, COUNT, x);
    for (int i = 0; i < COUNT; i++) sum += x[i], squares += (x[i] - 3) * (x[i] - 3);
    assert_true(fabs(sum / COUNT - 3) < 0.03 && fabs(sqrt(squares / COUNT) - 2) < 0.03);
    free(x);
}

/* After rounding to few bits a value must stay below `high`, whatever the sign and size of `high`. */
static void uniform_stays_below_high(void **state) {
    static const double ranges[][2] = {{0, 1},  {-1, 0}, {-2, -1}, {0, 3e4}, {0, 0x1p-20}, {-0x1p-20, 0x1p-18},
                                       {0.9, 1}};
    enum { COUNT = 20000 };
    double *x = malloc(COUNT * sizeof *x);
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
        for (int t = FLOAT32; t <= BFLOAT16; t++) {
            struct random_terms terms = {.low = ranges[r][0], .high = ranges[r][1], .seed = 3};
            make(&terms, (enum dtype)t, COUNT, x);
            for (int i = 0; i < COUNT; i++) assert_true(x[i] < ranges[r][1]);
        }
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(boxes_agree),
        cmocka_unit_test(distributions_are_as_told),
        cmocka_unit_test(uniform_stays_below_high),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
