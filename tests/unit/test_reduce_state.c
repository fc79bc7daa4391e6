/* test_reduce_state.c - struct reduce_state: its products and norms stay in range, and its selections do not depend on
 * the order. Random elements are merged one after another, in random orders and in random trees. */
#include "../../kernels/reduce/state.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CASES 2000
#define MOST  300 /* elements of a case, at most */

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Is this the least of the two zeros, -0? */
static bool is_least(double zero) {
    return signbit(zero) != 0;
}

/* Draws a finite number of either sign, with a binary exponent from `low` to `high`. */
static double draw(uint64_t *seed, int low, int high) {
    double mantissa = 1 + (double)(next_random(seed) >> 12) * 0x1p-52;
    int exponent = low + (int)(next_random(seed) % (uint64_t)(high - low + 1));
    return ldexp(next_random(seed) % 2 ? mantissa : -mantissa, exponent);
}

static void shuffle(double *x, int count, uint64_t *seed) {
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(next_random(seed) % (uint64_t)(i + 1));
        double other = x[i];
        x[i] = x[j], x[j] = other;
    }
}

static double finish(enum reduce_operator operator_, const struct reduce_state *state) {
    double y;
    reduce_state_finish(operator_, FLOAT64, state, 1, &y, 0);
    return y;
}

static double in_order(enum reduce_operator operator_, const double *x, int count) {
    struct reduce_state sum = reduce_state_empty(operator_, FLOAT64);
    for (int i = 0; i < count; i++) {
        struct reduce_state one = reduce_state_of(operator_, FLOAT64, x, i, i);
        reduce_state_merge(operator_, FLOAT64, &sum, &one);
    }
    return finish(operator_, &sum);
}

/* Merges two random parts until one is left. */
static double in_tree(enum reduce_operator operator_, const double *x, int count, uint64_t *seed) {
    struct reduce_state part[MOST + 1] = {reduce_state_empty(operator_, FLOAT64)};
    for (int i = 0; i < count; i++) part[i] = reduce_state_of(operator_, FLOAT64, x, i, i);
    for (; count > 1; count--) {
        int from = (int)(next_random(seed) % (uint64_t)count), into = (int)(next_random(seed) % (uint64_t)(count - 1));
        struct reduce_state taken = part[from];
        part[from] = part[count - 1];
        reduce_state_merge(operator_, FLOAT64, &part[into], &taken);
    }
    return finish(operator_, &part[0]);
}

static void mantissas_and_exponents(void **state) {
    uint64_t seed = 1;
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, 0x1p-1074, -0x1p-1022, DBL_MAX, 1, 2, 0.5};
    for (int i = 0; i < 100000; i++) {
        double x = i < 10 ? special[i] : of_bits(next_random(&seed) & (i % 3 ? ~UINT64_C(0) : 0x801fffffffffffffu));
        int64_t exponent = 1000;
        double mantissa = reduce_split(x, &exponent);
        if (isnan(x)) {
            assert_true(isnan(mantissa));
        } else if (x == 0 || isinf(x)) {
            assert_true(bits_of(mantissa) == bits_of(x) && exponent == 1000);
        } else {
            assert_true(fabs(mantissa) >= 1 && fabs(mantissa) < 2);
            assert_true(scalbln(mantissa, exponent - 1000) == x);
        }
    }
}

/* A product is right whenever the exact one is in range, even if all large factors, or all small ones, come first. */
static void products_stay_in_range(void **state) {
    uint64_t seed = 2;
    for (int number = 0; number < CASES; number++) {
        double x[MOST];
        int count = 2 + (int)(next_random(&seed) % (MOST - 1)), widest = 1 + (int)(next_random(&seed) % 1015);
        long double mantissa = 1;
        long exponent = 0;
        for (int i = 0; i < count; i++) {
            /* Every second factor undoes the one before it, except for a remainder. */
            x[i] = i % 2 ? draw(&seed, 0, 3) / x[i - 1] : draw(&seed, -widest, widest);
            int part;
            mantissa = frexpl(mantissa * (long double)x[i], &part);
            exponent += part;
        }
        double exact = (double)scalblnl(mantissa, exponent);
        double allowed = isinf(exact) || exact == 0 ? 0 : fabs(exact) * count * 2 * DBL_EPSILON + 0x1p-1074;
        for (int order = 0; order < 4; order++) {
            double found = order % 2 ? in_tree(REDUCE_PROD, x, count, &seed) : in_order(REDUCE_PROD, x, count);
            if (!(found == exact || fabs(found - exact) <= allowed))
                fail_msg("case %d: product of %d is %g, should be %g", number, count, found, exact);
            if (order == 1) shuffle(x, count, &seed);
        }
        x[next_random(&seed) % (uint64_t)count] = 0;
        assert_true(in_order(REDUCE_PROD, x, count) == 0 && in_tree(REDUCE_PROD, x, count, &seed) == 0);
        x[0] = 0, x[1] = INFINITY;
        assert_true(isnan(in_order(REDUCE_PROD, x, count)) && isnan(in_tree(REDUCE_PROD, x, count, &seed)));
    }
    double sorted[] = {1e308, 1e308, 1e308, 1e-308, 1e-308, 1e-308, 3};
    assert_true(fabs(in_order(REDUCE_PROD, sorted, 7) - 3) < 1e-14);
}

static void norms_stay_in_range(void **state) {
    uint64_t seed = 3;
    for (int number = 0; number < CASES; number++) {
        double x[MOST];
        int count = 1 + (int)(next_random(&seed) % MOST);
        int low = -1074 + (int)(next_random(&seed) % 2090), high = low + (int)(next_random(&seed) % (1016 - low));
        long double squares = 0;
        for (int i = 0; i < count; i++) {
            x[i] = draw(&seed, low, high);
            squares += (long double)x[i] * (long double)x[i];
        }
        double exact = (double)sqrtl(squares), allowed = exact * (count + 2) * DBL_EPSILON + 0x1p-1074;
        for (int order = 0; order < 4; order++) {
            double found = order % 2 ? in_tree(REDUCE_NORM2, x, count, &seed) : in_order(REDUCE_NORM2, x, count);
            if (!(fabs(found - exact) <= allowed))
                fail_msg("case %d: norm of %d is %g, should be %g", number, count, found, exact);
            if (order == 1) shuffle(x, count, &seed);
        }
        x[next_random(&seed) % (uint64_t)count] = -INFINITY;
        assert_true(in_order(REDUCE_NORM2, x, count) == INFINITY);
        x[next_random(&seed) % (uint64_t)count] = NAN;
        assert_true(isnan(in_tree(REDUCE_NORM2, x, count, &seed)));
    }
    assert_true(in_order(REDUCE_NORM2, (double[]){0, 0}, 2) == 0);
    assert_true(fabs(in_order(REDUCE_NORM2, (double[]){3e200, 4e200}, 2) - 5e200) <= 1e185);
    assert_true(fabs(in_order(REDUCE_NORM2, (double[]){3e-200, 4e-200}, 2) - 5e-200) <= 1e-215);
}

/* Of zeros, min takes -0 and max +0; a NaN result has neither sign nor payload; both in every order. */
static void extremes_do_not_show_the_order(void **state) {
    uint64_t seed = 4;
    for (int number = 0; number < CASES; number++) {
        double x[8];
        int count = 1 + (int)(next_random(&seed) % 8);
        bool any_nan = false;
        for (int i = 0; i < count; i++) {
            const double choice[] = {0.0, -0.0, number % 2 ? 1.0 : 0.0, number % 2 ? -1.0 : -0.0,
                                     of_bits(0x7ff0000000000001u | next_random(&seed))};
            x[i] = choice[next_random(&seed) % (number % 5 ? 4 : 5)];
            any_nan = any_nan || isnan(x[i]);
        }
        uint64_t first[2];
        for (int order = 0; order < 6; order++, shuffle(x, count, &seed))
            for (int greatest = 0; greatest < 2; greatest++) {
                enum reduce_operator operator_ = greatest ? REDUCE_MAX : REDUCE_MIN;
                double found = order % 2 ? in_tree(operator_, x, count, &seed) : in_order(operator_, x, count);
                bool sought_zero = false; /* the elements have a zero of the sign that is sought */
                for (int i = 0; i < count; i++) {
                    assert_true(any_nan || (greatest ? found >= x[i] : found <= x[i]));
                    sought_zero = sought_zero || (x[i] == 0 && is_least(x[i]) != greatest);
                }
                if (any_nan) assert_true(bits_of(found) == 0x7ff8000000000000u);
                if (found == 0 && sought_zero) assert_true(is_least(found) != greatest);
                if (order == 0) first[greatest] = bits_of(found);
                assert_true(bits_of(found) == first[greatest]);
            }
    }
}

/* ---- var --------------------------------------------------------------------------------------------------------- */

/* The variance of float64 or of int64, of parts of drawn lengths that are merged in order or as a random tree. */
static double variance(enum dtype dtype, const void *x, int count, bool in_tree_order, uint64_t *seed) {
    double y;
    struct reduce_args args = {.operator_ = REDUCE_VAR, .total = count, .x = x, .y = &y, .first = true, .last = true};
    const struct reduction reduction = {&args, dtype};
    union reduce_any part[MOST + 1] = {reduce_empty(&reduction)};
    int parts = 0;
    for (int i = 0; i < count; i++) {
        if (i == 0 || next_random(seed) % 4 == 0) part[parts++] = reduce_empty(&reduction);
        reduce_add(&reduction, &part[parts - 1], i, i);
    }
    for (; parts > 1; parts--) {
        int from = in_tree_order ? (int)(next_random(seed) % (uint64_t)parts) : 1;
        union reduce_any taken = part[from];
        for (int i = from; i < parts - 1; i++) part[i] = part[i + 1];
        int into = in_tree_order ? (int)(next_random(seed) % (uint64_t)(parts - 1)) : 0;
        reduce_merge(&reduction, &part[into], &taken);
    }
    reduce_store(&reduction, &part[0], 0);
    return y;
}

static long double true_variance(const double *x, int count) {
    long double mean = 0, sum = 0, squares = 0;
    for (int i = 0; i < count; i++) mean += ((long double)x[i] - x[0]) / count;
    for (int i = 0; i < count; i++) {
        long double apart = (long double)x[i] - x[0] - mean;
        sum += apart;
        squares += apart * apart;
    }
    return (squares - sum * sum / count) / count;
}

/* However far from zero the numbers lie, and whatever merges first. */
static void variances_do_not_cancel(void **state) {
    uint64_t seed = 5;
    for (int number = 0; number < CASES; number++) {
        double x[MOST];
        int count = 1 + (int)(next_random(&seed) % MOST);
        double offset = number % 3 ? ldexp(1, (int)(next_random(&seed) % 53)) : 0;
        for (int i = 0; i < count; i++) x[i] = offset + draw(&seed, -4, number % 5 == 0 ? 30 : 0);
        double exact = (double)true_variance(x, count), allowed = exact * (count + 8) * DBL_EPSILON;
        for (int order = 0; order < 4; order++) {
            double found = variance(FLOAT64, x, count, order % 2, &seed);
            if (!(fabs(found - exact) <= allowed))
                fail_msg("case %d: variance of %d is %g, should be %g", number, count, found, exact);
            if (order == 1) shuffle(x, count, &seed);
        }
        for (int i = 0; i < count; i++) x[i] = offset + 0.1;
        assert_true(variance(FLOAT64, x, count, true, &seed) == 0);
        x[next_random(&seed) % (uint64_t)count] = number % 2 ? INFINITY : NAN;
        assert_true(isnan(variance(FLOAT64, x, count, true, &seed)));
    }
}

/* Integers of any size: the exact variance, rounded once, in every order. Their deviations from the least one are small
 * enough for 128 bits. */
static void variances_of_integers_are_exact(void **state) {
    uint64_t seed = 6;
    for (int number = 0; number < CASES; number++) {
        int64_t x[MOST];
        int count = 1 + (int)(next_random(&seed) % MOST);
        int bits = 1 + (int)(next_random(&seed) % 50);
        int64_t offset = (int64_t)(next_random(&seed) | 1u) >> (number % 3 ? 2 : 40);
        wide_uint sum = 0, squares = 0;
        for (int i = 0; i < count; i++) {
            uint64_t above = next_random(&seed) >> (64 - bits);
            x[i] = offset + (int64_t)above;
            sum += above;
            squares += (wide_uint)above * above;
        }
        wide_uint numerator = squares * (unsigned)count - sum * sum;
        double exact = (double)((long double)numerator / ((long double)count * count));
        double first = variance(INT64, x, count, false, &seed);
        assert_true(fabs(first - exact) <= exact * DBL_EPSILON);
        for (int order = 0; order < 3; order++) assert_true(variance(INT64, x, count, true, &seed) == first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mantissas_and_exponents), cmocka_unit_test(products_stay_in_range),
        cmocka_unit_test(norms_stay_in_range),     cmocka_unit_test(extremes_do_not_show_the_order),
        cmocka_unit_test(variances_do_not_cancel), cmocka_unit_test(variances_of_integers_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
