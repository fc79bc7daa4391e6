/* test_samples.c - statistics of samples, and what makes them doubtful. */
#include "../../runner/base/fail.h"
#include "../../runner/base/samples.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

static void assert_near(double value, double expected, double tolerance) {
    assert_true(fabs(value - expected) <= tolerance);
}

static void statistics_are_right(void **state) {
    double odd[] = {5, 1, 4, 2, 30}, even[] = {4, 1, 3, 2};
    struct statistics s = samples_statistics(&(struct samples){.count = 5, .seconds = odd});
    assert_near(s.median, 4, 0);
    assert_near(s.min, 1, 0);
    assert_near(s.max, 30, 0);
    assert_near(s.mad, 1.4826 * 2, 1e-12);
    s = samples_statistics(&(struct samples){.count = 4, .seconds = even});
    assert_near(s.median, 2.5, 0);
    assert_near(s.mad, 1.4826, 1e-12);
    assert_near(odd[0], 5, 0); /* the order is unchanged */
}

static void precision_is_that_of_order_statistics(void **state) {
    double values[100];
    for (int i = 0; i < 100; i++) values[99 - i] = i + 1;
    struct samples samples = {.count = 5, .seconds = values};
    assert_true(isinf(samples_precision(&samples)));
    samples.count = 100; /* ranks 40 and 61 (from the table of the binomial distribution) */
    assert_near(samples_precision(&samples), (61. - 40) / 2 / 50.5, 1e-12);
    samples.count = 6; /* the values are 95..100: the outermost two */
    assert_near(samples_precision(&samples), 2.5 / 97.5, 1e-12);
}

/* A number from a normal distribution. */
static double normal(unsigned short seed[3]) {
    double u = erand48(seed), v = erand48(seed);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* Samples of turns: those of a turn share an offset. */
static struct samples draw(int turns, int each, double between, double within, unsigned short seed[3]) {
    struct samples samples = {.count = 0};
    struct sample_conditions unknown = CONDITIONS_UNKNOWN;
    for (int turn = 0; turn < turns; turn++) {
        double offset = between * normal(seed);
        for (int i = 0; i < each; i++) samples_append(&samples, 1 + offset + within * normal(seed), &unknown, turn);
    }
    return samples;
}

/* The interval holds the true median, 1, in at least 92 of 100 draws, also where the samples of a turn are alike. */
static void the_interval_holds_what_it_promises(void **state) {
    unsigned short seed[3] = {1, 2, 3};
    const double between[] = {0, 0.01, 0.05};
    for (int kind = 0; kind < 3; kind++) {
        int held = 0, draws = 2000;
        for (int i = 0; i < draws; i++) {
            struct samples samples = draw(8 + i % 30, 3, between[kind], 0.01, seed);
            double low, high;
            samples_interval(&samples, &low, &high);
            held += low <= 1 && 1 <= high;
            samples_free(&samples);
        }
        print_message("between %g: %d of %d hold the median\n", between[kind], held, draws);
        assert_true(held > 0.92 * draws);
    }
}

static void samples_that_are_alike_within_a_turn_are_no_more_than_one(void **state) {
    unsigned short seed[3] = {4, 5, 6};
    struct samples samples = draw(20, 3, 0.05, 1e-6, seed);
    double low, high;
    samples_interval(&samples, &low, &high);
    samples.count = 15; /* 5 turns: too few, so each sample counts */
    double few_low, few_high;
    samples_interval(&samples, &few_low, &few_high);
    assert_true(low < high && few_low < few_high && !isnan(few_low));
    samples.count = 5;
    samples_interval(&samples, &low, &high);
    assert_true(isnan(low) && isnan(high));
    samples_free(&samples);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of six turns of four samples: all medians, and ranks 7 and 18 of all samples (the binomial distribution's). */
static void all_samples_of_a_turn_count(void **state) {
    unsigned short seed[3] = {10, 11, 12};
    for (int round = 0; round < 200; round++) {
        struct samples samples = draw(6, 4, 1e-3, 1e-2, seed);
        double low, high, sorted[24], least = INFINITY, most = 0;
        samples_interval(&samples, &low, &high);
        for (int turn = 0; turn < 6; turn++) {
            for (int i = 0; i < 4; i++) sorted[i] = samples.seconds[4 * turn + i];
            qsort(sorted, 4, sizeof *sorted, by_size);
            least = fmin(least, (sorted[1] + sorted[2]) / 2);
            most = fmax(most, (sorted[1] + sorted[2]) / 2);
        }
        for (int i = 0; i < 24; i++) sorted[i] = samples.seconds[i];
        qsort(sorted, 24, sizeof *sorted, by_size);
        assert_near(low, fmin(least, sorted[6]), 1e-12);
        assert_near(high, fmax(most, sorted[17]), 1e-12);
        samples_free(&samples);
    }
}

static const char *flags_of(const double *seconds, int count, unsigned throttle, char text[FLAGS_TEXT]) {
    struct samples samples = {.count = 0};
    for (int i = 0; i < count; i++) {
        struct sample_conditions conditions = CONDITIONS_UNKNOWN;
        conditions.throttle = i == count / 2 ? throttle : 0;
        samples_append(&samples, seconds[i], &conditions, i / 3);
    }
    samples_flags(&samples, text);
    samples_free(&samples);
    return text;
}

static void what_is_doubtful_is_flagged(void **state) {
    char text[FLAGS_TEXT];
    double calm[40], outlier[40], drift[40], two[40], wide[40];
    unsigned short seed[3] = {7, 8, 9};
    for (int i = 0; i < 40; i++) {
        calm[i] = 1e-3 * (1 + 0.01 * erand48(seed));
        outlier[i] = i % 10 == 9 ? 2e-3 : calm[i];
        drift[i] = calm[i] * (1 + 0.002 * i);
        two[i] = calm[i] * (i % 3 ? 1 : 1.15);
        wide[i] = 1e-3 * exp(2 * erand48(seed));
    }
    assert_string_equal(flags_of(two, 40, 0, text), "bimodal");
    assert_string_equal(flags_of(wide, 40, 0, text), "noisy");
    assert_string_equal(flags_of(calm, 40, 0, text), "");
    assert_string_equal(flags_of(calm, 0, 0, text), "");
    assert_string_equal(flags_of(calm, 1, 0, text), "");
    assert_string_equal(flags_of(calm, 40, THROTTLE_POWER, text), "throttled");
    assert_string_equal(flags_of(outlier, 40, 0, text), "outliers");
    assert_string_equal(flags_of(outlier, 40, THROTTLE_HEAT, text), "throttled,outliers");
    assert_string_equal(flags_of(drift, 40, 0, text), "drift");
    struct samples one = {.count = 0};
    struct sample_conditions hot = CONDITIONS_UNKNOWN;
    hot.throttle = THROTTLE_HEAT | THROTTLE_OTHER;
    for (int i = 0; i < 10; i++) samples_append(&one, i == 3 ? 1.0 : 1e-3, &hot, i);
    unsigned char *marks = samples_marks(&one);
    assert_int_equal(marks[0], THROTTLE_HEAT | THROTTLE_OTHER);
    assert_int_equal(marks[3], THROTTLE_HEAT | THROTTLE_OTHER | MARK_OUTLIER);
    free(marks);
    samples_free(&one);
}

static void a_quarter_of_busy_samples_makes_a_run_busy(void **state) {
    for (int busy = 0; busy <= 20; busy++) {
        struct samples samples = {.count = 0};
        char text[FLAGS_TEXT];
        for (int i = 0; i < 20; i++) {
            struct sample_conditions conditions = CONDITIONS_UNKNOWN;
            conditions.busy = i < busy;
            samples_append(&samples, 1e-3, &conditions, i);
        }
        unsigned char *marks = samples_marks(&samples);
        for (int i = 0; i < 20; i++) assert_int_equal(marks[i], i < busy ? MARK_BUSY : 0);
        free(marks);
        assert_int_equal(samples_busy(&samples), busy);
        assert_string_equal(samples_flags(&samples, text), busy >= 5 ? "busy" : "");
        samples_free(&samples);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_right),
        cmocka_unit_test(precision_is_that_of_order_statistics),
        cmocka_unit_test(the_interval_holds_what_it_promises),
        cmocka_unit_test(samples_that_are_alike_within_a_turn_are_no_more_than_one),
        cmocka_unit_test(all_samples_of_a_turn_count),
        cmocka_unit_test(what_is_doubtful_is_flagged),
        cmocka_unit_test(a_quarter_of_busy_samples_makes_a_run_busy),
    };
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
