/* test_ratio.c - the ratio of two runs' medians: false alarms of a run beside itself, slow-downs that are found, how
 * often the interval covers the truth, on noise of many kinds; what is said where samples are few, odd or short.
 *
 * Measured with 1000 pairs a cell, runs of 100 us, 10 to 200 samples, threshold 3 %: the worst share of intervals that
 * cover the truth, and of false alarms,
 *                                                                   spread 1 %       spread 5 %
 *     normal, heavy tails, bimodal, one-sided, outliers, drift      0.997, 0         0.979, 0.021
 *     five blocks, neighbours correlated by 0.7                     0.968, 0         0.963, 0.037
 *     neighbours correlated by 0.95, 20 samples                     0.893, 0.007     0.866, 0.130
 *     two modes that last for 20 samples each, 20 samples           0.833, 0         0.809, 0.191
 * The last two are modes that last as long as the run: nothing in its samples shows that there are others. A slow-down
 * by 5 % is found in 0.996 of 20 normal samples and 0.992 of bimodal ones with a spread of 1 %, in all of 100. */
#include "../../runner/compare/ratio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

enum { MOST = 200, PAIRS = 400 };
#define FLOOR ratio_floor(1e-3, false, false)

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static uint64_t state_of_noise;

static double uniform(void) {
    state_of_noise ^= state_of_noise << 13;
    state_of_noise ^= state_of_noise >> 7;
    state_of_noise ^= state_of_noise << 17;
    return (double)(state_of_noise >> 11) * 0x1p-53;
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

enum noise { NORMAL, BIMODAL, HEAVY, ONE_SIDED, OUTLIERS, DRIFT, BLOCKS, CORRELATED, NOISES };
static const char *const names[] = {"normal",   "bimodal", "heavy tails", "one-sided",
                                    "outliers", "drift",   "five blocks", "correlated"};

/* `count` times of a run whose true median is `seconds`. `spread`: relative standard deviation, about. */
static void draw(enum noise noise, int count, double seconds, double spread, double *samples) {
    double level = normal(), slope = 6 * normal();
    for (int i = 0; i < count; i++) {
        double e = normal();
        switch (noise) {
        case NORMAL: break;
        case BIMODAL: e = 0.1 * e + (uniform() < 0.5 ? -1 : 1); break;
        case HEAVY: e = fmin(50, fmax(-20, 0.3 * e / fabs(normal()))); break;
        case ONE_SIDED: e = 2 * fabs(e); break;
        case OUTLIERS: e = uniform() < 0.1 ? 10 + 5 * uniform() : e; break;
        case DRIFT: e += slope * (i / (double)count - 0.5); break;
        case BLOCKS:
            if (i % (count < 5 ? 1 : count / 5) == 0) level = normal();
            e = level + 0.2 * e;
            break;
        case CORRELATED: e = level = 0.7 * level + 0.714 * e; break;
        case NOISES: break;
        }
        samples[i] = seconds * exp(spread * e);
    }
}

struct shares {
    double covered, alarms, found; /* `found`: of slow-downs by 5 % */
};

static struct shares shares_of(enum noise noise, int count, double seconds, double spread, double threshold) {
    double base[MOST], new[MOST];
    struct shares shares = {0, 0, 0};
    state_of_noise = 88172645463325252u + (uint64_t)noise * 1000 + (uint64_t)count;
    for (int pair = 0; pair < PAIRS; pair++) {
        draw(noise, count, seconds, spread, base);
        draw(noise, count, seconds, spread, new);
        struct ratio same = ratio_of(base, count, new, count, FLOOR, threshold);
        for (int i = 0; i < count; i++) new[i] *= 1.05;
        struct ratio slower = ratio_of(base, count, new, count, FLOOR, threshold);
        shares.covered += same.low <= 1 && same.high >= 1;
        shares.alarms += same.verdict == RATIO_SLOWER || same.verdict == RATIO_FASTER;
        shares.found += slower.verdict == RATIO_SLOWER;
    }
    return (struct shares){shares.covered / PAIRS, shares.alarms / PAIRS, shares.found / PAIRS};
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static void test_false_alarms(void **state) {
    static const int counts[] = {3, 5, 6, 10, 20, 100, 200};
    for (int noise = 0; noise < NOISES; noise++)
        for (int c = 0; c < 7; c++)
            for (int wide = 0; wide < 2; wide++) {
                struct shares shares = shares_of((enum noise)noise, counts[c], 100e-6, wide ? 0.05 : 0.01, 0.03);
                if (shares.alarms > 0.05 || shares.covered < 0.94)
                    fail_msg("%s, %d samples: %.3f false alarms, %.3f covered", names[noise], counts[c], shares.alarms,
                             shares.covered);
            }
}

/* 19 of 20, where the noise allows it. */
static void test_slower_is_found(void **state) {
    for (int noise = 0; noise <= OUTLIERS; noise++) {
        struct shares shares = shares_of((enum noise)noise, 100, 100e-6, 0.01, 0.03);
        if (shares.found < 0.95) fail_msg("%s: %.3f found", names[noise], shares.found);
    }
    assert_true(shares_of(NORMAL, 20, 100e-6, 0.01, 0.03).found >= 0.95);
}

/* The samples of a short launch may agree to 0.1 %: another process would still differ by a microsecond. */
static void test_coarse_samples_are_unsure(void **state) {
    double base[20], new[20];
    state_of_noise = 1;
    for (int step = 0; step < 13; step++) {
        double seconds = 0.5e-6 * pow(1.3, step); /* to 11.6 us */
        double floor = ratio_floor(seconds, false, true);
        draw(NORMAL, 20, seconds, 0.001, base);
        draw(NORMAL, 20, seconds + 1.3e-6, 0.001, new);
        struct ratio ratio = ratio_of(base, 20, new, 20, floor, 0.03);
        assert_int_equal(ratio.verdict, RATIO_UNSURE);
        assert_true(isinf(ratio.more) || floor < ratio.value - 1);
        assert_int_equal(ratio_of(base, 20, base, 20, floor, 0.03).verdict, RATIO_UNSURE);
    }
}

/* Samples of few values, as a coarse clock gives them, are independent however many lie on the median. */
static void test_ties_count(void **state) {
    double base[100], new[100];
    state_of_noise = 5;
    for (int on_it = 0; on_it <= 90; on_it += 10) {
        double worth = 0;
        for (int round = 0; round < 100; round++) {
            for (int s = 0; s < 100; s++) {
                int beside = uniform() * 100 < on_it ? 0 : uniform() < 0.5 ? -1 : 1;
                base[s] = 1e-3 * (1 + 0.01 * beside), new[s] = 1e-3 * (1 + 0.01 * normal());
            }
            worth += ratio_of(base, 100, new, 100, FLOOR, 0.05).base_counts / 100;
        }
        if (worth < 70) fail_msg("of 100 samples, %d %% of them alike, each round counts %g", on_it, worth);
    }
}

static void test_floor(void **state) {
    assert_true(ratio_floor(5e-6, false, false) == 0.01 && ratio_floor(1, false, false) == 0.01);
    assert_true(ratio_floor(5e-6, true, false) == 0.02 && ratio_floor(1, true, true) == 0.02);
    assert_true(fabs(ratio_floor(0.5e-6, false, true) - 3) < 1e-12 && ratio_floor(1, false, true) == 0.01);
}

/* n samples with a spread of 0.1 %, in no order that repeats. */
static void steady(int count, double seconds, double *samples) {
    state_of_noise = 7;
    draw(NORMAL, count, seconds, 0.001, samples);
}

static void test_verdicts(void **state) {
    double base[50], new[50];
    static const struct {
        double ratio;
        enum ratio_verdict verdict;
    } cases[] = {
        {1, RATIO_SAME},       {1.02, RATIO_SAME},   {1 / 1.02, RATIO_SAME},
        {1.1, RATIO_SLOWER},   {0.9, RATIO_FASTER},  {1.049, RATIO_UNSURE},
        {1.051, RATIO_SLOWER}, {1.05, RATIO_SLOWER}, {1 / 1.051, RATIO_FASTER},
    };
    steady(50, 1e-3, base);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int s = 0; s < 50; s++) new[s] = base[s] * cases[i].ratio;
        struct ratio ratio = ratio_of(base, 50, new, 50, FLOOR, 0.05);
        if (ratio.verdict != cases[i].verdict)
            fail_msg("ratio %g: %s", cases[i].ratio, ratio_verdict_names[ratio.verdict]);
        assert_true(fabs(ratio.value - cases[i].ratio) < 1e-12 && ratio.low < ratio.value && ratio.value < ratio.high);
        assert_true(isnan(ratio.more) == (ratio.verdict != RATIO_UNSURE));
    }
}

/* A clock that moves one step at any moment: a step within the floor leaves two runs the same, a larger one does not.
 */
static void test_one_step_of_the_clock(void **state) {
    double base[400], new[400];
    for (int at = 20; at <= 380; at += 40)
        for (int percent = 0; percent <= 4; percent += 4) {
            double step = percent == 0 ? 1.008 : 1.04;
            steady(400, 1e-3, base);
            steady(400, 1e-3, new);
            for (int s = 0; s < 400; s++) {
                if (s >= 200) base[s] /= step;
                if (s >= at) new[s] /= step;
            }
            struct ratio ratio = ratio_of(base, 400, new, 400, 0.01, 0.03);
            if (ratio.verdict != (percent == 0 ? RATIO_SAME : RATIO_UNSURE))
                fail_msg("step %g at %d: %s (%g to %g)", step, at, ratio_verdict_names[ratio.verdict], ratio.low,
                         ratio.high);
        }
}

/* As many samples as were said to be missing, of the same kind, settle it. */
static void test_what_is_missing_settles_it(void **state) {
    static double base[20000], new[20000];
    state_of_noise = 99;
    int settled = 0, tried = 0;
    for (int turn = 0; turn < 40; turn++) {
        draw(NORMAL, 20000, 1e-3, 0.05, base);
        draw(NORMAL, 20000, 1e-3, 0.05, new);
        struct ratio few = ratio_of(base, 20, new, 20, FLOOR, 0.05);
        if (few.verdict != RATIO_UNSURE || few.more > 10000) continue;
        int count = 20 + (int)(2 * few.more);
        settled += ratio_of(base, count, new, count, FLOOR, 0.05).verdict != RATIO_UNSURE;
        tried++;
    }
    assert_true(tried >= 20 && settled >= 0.8 * tried);
}

static void test_few_and_odd_samples(void **state) {
    double base[50], odd[] = {NAN, 0, -1, INFINITY};
    steady(50, 1e-3, base);
    struct ratio ratio = ratio_of(base, 1, base, 50, FLOOR, 0.05);
    assert_true(ratio.verdict == RATIO_UNSURE && ratio.more == RATIO_MIN_SAMPLES - 1);
    assert_true(ratio.low == 0 && isinf(ratio.high));
    double slow[1] = {1};
    assert_int_equal(ratio_of(base, 50, slow, 1, FLOOR, 0.05).verdict, RATIO_UNSURE);
    for (int count = 2; count <= 8; count++) {
        double twice[8];
        for (int i = 0; i < count; i++) twice[i] = 2 * base[i];
        assert_int_equal(ratio_of(base, count, twice, count, FLOOR, 0.05).verdict, RATIO_SLOWER);
        assert_int_equal(ratio_of(base, 50, twice, count, FLOOR, 0.05).verdict, RATIO_SLOWER);
        assert_int_equal(ratio_of(base, count, base, count, FLOOR, 0.05).verdict, RATIO_SAME);
    }
    for (int count = 0; count <= 4; count++) { /* of the one that has no times nothing is told */
        struct ratio before = ratio_of(odd, count, base, 50, FLOOR, 0.05);
        struct ratio after = ratio_of(base, 50, odd, count, FLOOR, 0.05);
        assert_true(before.verdict == RATIO_UNKNOWN && after.verdict == RATIO_UNKNOWN);
        assert_true(isnan(before.base_s) && isnan(after.new_s) && isnan(before.value) && isnan(after.value));
        assert_true(before.new_s == after.base_s && fabs(before.new_s / 1e-3 - 1) < 0.01);
    }
    for (int i = 0; i < 4; i++) base[10 + i] = odd[i];
    assert_int_equal(ratio_of(base, 50, base, 50, FLOOR, 0.05).verdict, RATIO_SAME);
    double alike[20];
    for (int i = 0; i < 20; i++) alike[i] = 1e-3;
    ratio = ratio_of(alike, 20, alike, 20, FLOOR, 0.05);
    assert_true(ratio.verdict == RATIO_SAME && ratio.value == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_slower_is_found),
        cmocka_unit_test(test_coarse_samples_are_unsure),
        cmocka_unit_test(test_ties_count),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_one_step_of_the_clock),
        cmocka_unit_test(test_what_is_missing_settles_it),
        cmocka_unit_test(test_few_and_odd_samples),
    };
    return cmocka_run_group_tests_name("ratio", tests, NULL, NULL);
}
