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

#define MODEL_S 1e-4

static double model(const struct launch *launch) {
    (void)launch;
    return MODEL_S;
}

static void nothing_follows_from_nothing(void **state) {
    struct geometry geometry = square(OP_SCALE, FLOAT32, 100, REDUCE_SUM);
    const struct kernel *kernel = kernel_find(OP_SCALE, "cpu");
    struct device_limits *limits = limits_create();
    const char *by;
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

/* Near the roofs: in proportion to the work, and no less than an empty launch. Others: by their own models, which the
 * roofs bound. Otherwise unknown. */
static void times_follow_from_roofs_and_models(void **state) {
    static const enum op ops[] = {OP_SCALE, OP_REDUCE, OP_TRANSPOSE, OP_MATMUL};
    for (int round = 0; round < 300; round++) {
        enum op op = ops[draw_below(4)];
        enum dtype dtype = op == OP_MATMUL ? (enum dtype)draw_below(4) : (enum dtype)draw_below(DTYPE_COUNT);
        struct geometry geometry = square(op, dtype, 1 + draw_below(2000), REDUCE_SUM);
        struct kernel kernel = *kernel_find(op, "cpu");
        struct launch launch = {.kernel = &kernel};
        kernel.device = DEVICE_CUDA;
        kernel.near_roof = true;
        kernel.roof_share = 0.25 + 0.75 * draw();
        struct device_limits *limits = limits_create();
        assert_true(isnan(limits_seconds(limits, &launch, &geometry, 1)));
        limits->launch_s = 1e-6;
        limits->cache_bytes = 1e5 * (1 + draw());
        limits->memory_bytes_per_s = 1e9 * (1 + draw());
        limits->cached_copy_bytes_per_s = 4e9, limits->cached_read_bytes_per_s = 3e9;
        limits->flops_per_s[dtype] = 1e10 * (1 + draw());
        double share = 0.1 + 0.9 * draw(), bytes = share * geometry.bytes;
        double rate = bytes > limits->cache_bytes ? limits->memory_bytes_per_s : op == OP_REDUCE ? 3e9 : 4e9;
        double expected =
            op == OP_MATMUL ? share * geometry.flops / limits->flops_per_s[dtype] : bytes / rate / kernel.roof_share;
        assert_near(limits_seconds(limits, &launch, &geometry, share), fmax(1e-6, expected));
        assert_true(isnan(limits_seconds(NULL, &launch, &geometry, share)));
        kernel.near_roof = false;
        kernel.seconds = model;
        const char *by;
        expected = fmax(MODEL_S, share * limits_bound(limits, &kernel, &geometry, &by));
        assert_near(limits_seconds(limits, &launch, &geometry, share), expected);
        kernel.seconds = NULL;
        assert_true(isnan(limits_seconds(limits, &launch, &geometry, share)));
        limits_free(limits);
    }
}

/* A CPU converts narrow elements, one by one. */
static void narrow_elements_take_a_cpu_as_long(void **state) {
    struct device_limits *limits = limits_create();
    struct launch launch = {.kernel = kernel_find(OP_SCALE, "cpu")};
    limits->cache_bytes = 1e9;
    limits->cached_copy_bytes_per_s = 1e9;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct geometry geometry = square(OP_SCALE, (enum dtype)dtype, 100, REDUCE_SUM);
        double bytes = 2e4 * fmax(4, (double)dtype_size((enum dtype)dtype));
        assert_near(limits_seconds(limits, &launch, &geometry, 1), bytes / 1e9);
    }
    limits_free(limits);
}

/* By a product only the roof of its accuracy rises, and by what memory limits only memory's, far beyond the cache. */
static void what_is_faster_than_a_roof_raises_it(void **state) {
    const struct kernel *full = kernel_find(OP_MATMUL, "cpu"), *scale = kernel_find(OP_SCALE, "cpu");
    struct kernel fast = *full, roof = *full;
    fast.accuracy = ACCURACY_TF32;
    roof.is_roof = true;
    for (int round = 0; round < 100; round++) {
        struct device_limits *limits = limits_create();
        struct geometry geometry = square(OP_MATMUL, FLOAT32, 500, REDUCE_SUM);
        const char *by;
        char text[64];
        double factor = 0.5 + draw(), seconds = geometry.flops / 1e12 / factor;
        limits->flops_per_s[FLOAT32] = limits->flops_per_s[LIMITS_TF32] = 1e12;
        assert_false(limits_raise(limits, &roof, &geometry, seconds, text));
        assert_int_equal(limits_raise(limits, &fast, &geometry, seconds, text), factor > ROOF_PROVEN);
        assert_near(limits->flops_per_s[FLOAT32], 1e12);
        if (factor > ROOF_PROVEN) assert_near(limits_bound(limits, &fast, &geometry, &by), seconds);
        assert_int_equal(limits_raise(limits, full, &geometry, seconds, text), factor > ROOF_PROVEN);
        assert_near(limits->flops_per_s[FLOAT32], factor > ROOF_PROVEN ? factor * 1e12 : 1e12);
        assert_false(limits_raise(limits, full, &geometry, seconds, text)); /* proved already */
        if (factor > ROOF_PROVEN) assert_near(limits_bound(limits, full, &geometry, &by), seconds);

        geometry = square(OP_SCALE, FLOAT32, 1000, REDUCE_SUM);
        seconds = geometry.bytes / 1e10 / factor;
        limits->memory_bytes_per_s = 1e10;
        limits->cache_bytes = geometry.bytes;
        assert_false(limits_raise(limits, scale, &geometry, seconds, text));
        limits->cache_bytes = geometry.bytes / 5;
        assert_int_equal(limits_raise(limits, scale, &geometry, seconds, text), factor > ROOF_PROVEN);
        assert_near(limits->memory_bytes_per_s, factor > ROOF_PROVEN ? factor * 1e10 : 1e10);
        limits_free(limits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_from_nothing),         cmocka_unit_test(a_product_is_bound_by_its_flops),
        cmocka_unit_test(times_follow_from_roofs_and_models),   cmocka_unit_test(narrow_elements_take_a_cpu_as_long),
        cmocka_unit_test(what_is_faster_than_a_roof_raises_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
