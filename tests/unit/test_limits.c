/* test_limits.c - times that follow from measured limits make sense. Nothing is measured here. */
#include "../../runner/plan/limits.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

static void assert_near(double a, double b) {
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

static struct geometry square(enum op op, enum dtype dtype, int64_t rows, enum reduce_operator operator_) {
    struct op_options options = {.alpha = 1, .reduce = operator_, .axis = REDUCE_ALL_AXES};
    struct shape shapes[2] = {{2, {rows, rows}}, {2, {rows, rows}}};
    enum dtype dtypes[2] = {dtype, dtype};
    struct error error = {.status = STATUS_OK};
    struct geometry geometry;
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &geometry, &error), STATUS_OK);
    return geometry;
}

static void nothing_follows_from_nothing(void **state) {
    (void)state;
    struct geometry geometry = square(OP_SCALE, FLOAT32, 100, REDUCE_SUM);
    const struct kernel *kernel = kernel_find(OP_SCALE, "cpu");
    struct device_limits *limits = limits_create();
    const char *by;
    assert_true(isnan(limits_seconds(NULL, kernel, &geometry, 1)));
    assert_true(isnan(limits_seconds(limits, kernel, &geometry, 1)));
    assert_true(isnan(limits_bound(NULL, kernel, &geometry, &by)));
    assert_string_equal(by, "");
    assert_true(isnan(limits_bound(limits, kernel, &geometry, &by)));
    limits->memory_bytes_per_s = 1e9;
    assert_near(limits_bound(limits, kernel, &geometry, &by), 80000 / 1e9);
    assert_string_equal(by, "memory");
    geometry = square(OP_SCALE, FLOAT32, 0, REDUCE_SUM);
    assert_true(isnan(limits_bound(limits, kernel, &geometry, &by)));
    assert_string_equal(by, "");
    limits_free(limits);
}

static void a_product_is_bound_by_its_flops(void **state) {
    (void)state;
    const struct kernel *kernel = kernel_find(OP_MATMUL, "cpu");
    struct device_limits *limits = limits_create();
    const char *by;
    limits->memory_bytes_per_s = 1e10;
    limits->flops_per_s[FLOAT32] = 1e12;
    struct geometry geometry = square(OP_MATMUL, FLOAT32, 1000, REDUCE_SUM);
    assert_near(limits_bound(limits, kernel, &geometry, &by), 2e9 / 1e12);
    assert_string_equal(by, "compute");
    geometry = square(OP_MATMUL, FLOAT64, 1000, REDUCE_SUM); /* of which only the memory's limit is known */
    assert_near(limits_bound(limits, kernel, &geometry, &by), 24e6 / 1e10);
    assert_string_equal(by, "memory");
    limits_free(limits);
}

/* A product of less accuracy may be faster than the type's own; its roof is then the fastest that is as accurate. */
static void less_accurate_products_have_a_roof_of_their_own(void **state) {
    (void)state;
    const struct kernel *full = kernel_find(OP_MATMUL, "cpu");
    struct kernel slow = *full, fast = *full;
    slow.accuracy = fast.accuracy = ACCURACY_TF32;
    struct device_limits *limits = limits_create();
    struct geometry geometry = square(OP_MATMUL, FLOAT32, 1000, REDUCE_SUM);
    const char *by;
    limits->flops_per_s[FLOAT32] = 1e12;
    assert_near(limits_bound(limits, &slow, &geometry, &by), 2e9 / 1e12);
    limits_add_point(limits, &fast, FLOAT32, 0, 1e9, 1e-3);
    limits_add_point(limits, &fast, FLOAT32, 0, 8e9, 2e-3);
    limits_add_point(limits, &fast, FLOAT64, 0, 8e9, 1e-3);
    assert_near(limits_bound(limits, &slow, &geometry, &by), 2e9 / 4e12);
    assert_near(limits_bound(limits, full, &geometry, &by), 2e9 / 1e12);
    limits_free(limits);
}

static void times_pass_through_their_points_and_grow(void **state) {
    (void)state;
    const struct kernel *kernel = kernel_find(OP_REDUCE, "cpu");
    for (int round = 0; round < 300; round++) {
        struct device_limits *limits = limits_create();
        limits->launch_s = 1e-6 * (1 + draw());
        limits->cache_bytes = 1e12;
        limits->memory_bytes_per_s = 1e10;
        int64_t rows[RATE_POINTS];
        double seconds = 1e-5;
        int points = 1 + draw_below(RATE_POINTS);
        for (int p = 0; p < points; p++) {
            rows[p] = (p ? rows[p - 1] : 0) + 10 + draw_below(900);
            seconds *= 1.1 + 9 * draw();
            struct geometry geometry = square(OP_REDUCE, FLOAT32, rows[p], REDUCE_SUM);
            limits_add_point(limits, kernel, FLOAT32, REDUCE_SUM, limits_work(&geometry), seconds);
        }
        const struct kernel_rate *rate = limits_rate(limits, kernel, FLOAT32, REDUCE_SUM);
        for (int p = 0; p < points; p++) {
            struct geometry geometry = square(OP_REDUCE, FLOAT32, rows[p], REDUCE_SUM);
            assert_near(limits_seconds(limits, kernel, &geometry, 1) / rate->seconds[p], 1);
            /* Another operator, type or sign: what is nearest. */
            struct geometry other = square(OP_REDUCE, UINT32, rows[p], REDUCE_MIN);
            double like = limits_seconds(limits, kernel, &other, 1) / rate->seconds[p];
            assert_true(like > 0.9 && like < 1.1);
        }
        double before = 0;
        for (int64_t n = 1; n < 4000; n += 1 + draw_below(300)) {
            struct geometry geometry = square(OP_REDUCE, FLOAT32, n, REDUCE_SUM);
            double now = limits_seconds(limits, kernel, &geometry, 1);
            assert_true(isfinite(now) && now >= before && now >= limits->launch_s * 0.999);
            before = now;
        }
        limits_free(limits);
    }
}

/* What moves elements takes as long for as many of another type as for those that were measured. */
static void elements_count_and_not_their_bytes(void **state) {
    (void)state;
    const enum op ops[] = {OP_SCALE, OP_REDUCE, OP_TRANSPOSE};
    for (int o = 0; o < 3; o++)
        for (int from = 0; from < DTYPE_COUNT; from++) {
            struct device_limits *limits = limits_create();
            const struct kernel *kernel = kernel_find(ops[o], "cpu");
            struct geometry measured = square(ops[o], (enum dtype)from, 500, REDUCE_MAX);
            limits_add_point(limits, kernel, (enum dtype)from, REDUCE_MAX, limits_work(&measured), 1e-3);
            for (int to = 0; to < DTYPE_COUNT; to++)
                for (int times = 1; times < 4; times++) {
                    struct geometry other = square(ops[o], (enum dtype)to, 500 * times, REDUCE_MAX);
                    double seconds = limits_seconds(limits, kernel, &other, 1);
                    assert_true(fabs(seconds / (1e-3 * times * times) - 1) < 1e-3); /* a sum has bytes of its own */
                }
            limits_free(limits);
        }
}

static void beyond_the_cache_memory_counts(void **state) {
    (void)state;
    const struct kernel *kernel = kernel_find(OP_SCALE, "cpu");
    struct device_limits *limits = limits_create();
    limits->launch_s = 1e-6;
    limits->cache_bytes = 1e6;
    limits->memory_bytes_per_s = 1e9;
    limits_add_point(limits, kernel, FLOAT64, 0, 1e5, 1e-6); /* 100 GB/s in the cache */
    struct geometry inside = square(OP_SCALE, FLOAT64, 200, REDUCE_SUM);
    struct geometry outside = square(OP_SCALE, FLOAT64, 2000, REDUCE_SUM);
    assert_true(limits_seconds(limits, kernel, &inside, 1) < 2e-5);
    assert_near(limits_seconds(limits, kernel, &outside, 1), 64e6 / 1e9);
    assert_near(limits_seconds(limits, kernel, &outside, 0.5), 32e6 / 1e9);
    limits_add_point(limits, kernel, FLOAT32, 0, 64e6, 0.128); /* this variant is slower than the memory */
    assert_near(limits_seconds(limits, kernel, &outside, 1), 0.128);
    limits_free(limits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_from_nothing),
        cmocka_unit_test(a_product_is_bound_by_its_flops),
        cmocka_unit_test(less_accurate_products_have_a_roof_of_their_own),
        cmocka_unit_test(times_pass_through_their_points_and_grow),
        cmocka_unit_test(elements_count_and_not_their_bytes),
        cmocka_unit_test(beyond_the_cache_memory_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
