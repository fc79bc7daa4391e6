/* test_compare_output.c - how far two outputs lie apart: zeros, infinities and NaNs, integers that doubles cannot tell
 * apart, other shapes and types, what is missing. */
#include "../../runner/compare/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "scratch.h"

static struct output_difference compare(enum dtype dtype, const void *base, const void *new, int64_t count) {
    struct error error = {.status = STATUS_OK};
    struct output_difference difference;
    struct shape shape = {1, {count}};
    char path[128];
    snprintf(path, sizeof path, "%s", in_folder("base.h5"));
    store_array(path, dtype, &shape, &(struct h5_layout){.level = 0}, base);
    store_array(in_folder("new.h5"), dtype, &shape, &(struct h5_layout){.level = 0}, new);
    assert_int_equal(outputs_compare(path, "/x", in_folder("new.h5"), "/x", &difference, &error), STATUS_OK);
    assert_true(difference.known && difference.elements == count);
    return difference;
}

static void floats_by_the_largest_of_both(void **state) {
    static const struct {
        double base[2], new[2], relative;
        bool identical;
    } cases[] = {
        {{0, 0}, {0, 0}, 0, true},
        {{0, 0}, {-0.0, 0}, 0, false},
        {{4, 1}, {3, 1}, 0.25, false},
        {{1, 3}, {1, 4}, 0.25, false},
        {{-8, 1}, {-8, 3}, 0.25, false},
        {{-1, 0}, {1, 0}, 2, false},
        {{1, NAN}, {1, -NAN}, 0, false},
        {{INFINITY, 2}, {INFINITY, 1}, 0.5, false},
        {{INFINITY, 1}, {-INFINITY, 1}, INFINITY, false},
        {{NAN, 1}, {1, 1}, INFINITY, false},
        {{1, 1}, {1, NAN}, INFINITY, false},
        {{1, 1}, {1, INFINITY}, INFINITY, false},
        {{1e308, 1}, {-1e308, 1}, INFINITY, false}, /* the difference itself is out of range */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output_difference difference = compare(FLOAT64, cases[i].base, cases[i].new, 2);
        if (difference.relative != cases[i].relative || difference.identical != cases[i].identical)
            fail_msg("case %zu: %g, %d", i, difference.relative, difference.identical);
    }
}

static void integers_beyond_doubles_are_told_apart(void **state) {
    const int64_t large = INT64_C(1) << 53, base[2] = {large, 5}, more[2] = {large + 1, 5}, fewer[2] = {large, 1};
    struct output_difference difference = compare(INT64, base, more, 2);
    assert_true(!difference.identical && difference.relative == 1 / (double)large);
    difference = compare(INT64, base, fewer, 2);
    assert_true(!difference.identical && difference.relative == 4 / (double)large);
    difference = compare(INT64, base, base, 2);
    assert_true(difference.identical && difference.relative == 0);
}

static void others_cannot_be_compared(void **state) {
    struct error error = {.status = STATUS_OK};
    struct output_difference difference;
    const double zeros[6] = {0};
    char path[128];
    snprintf(path, sizeof path, "%s", in_folder("base.h5"));
    const char *new = in_folder("new.h5");
    store_array(path, FLOAT64, &(struct shape){2, {2, 3}}, &(struct h5_layout){.level = 0}, zeros);
    const struct shape shapes[] = {{2, {3, 2}}, {1, {6}}, {2, {2, 3}}, {2, {2, 2}}};
    for (int i = 0; i < 4; i++) {
        store_array(new, i == 2 ? INT64 : FLOAT64, &shapes[i], &(struct h5_layout){.level = 0}, zeros);
        assert_int_equal(outputs_compare(path, "/x", new, "/x", &difference, &error), STATUS_OK);
        assert_true(difference.known && !difference.identical && isinf(difference.relative));
        assert_int_equal(difference.elements, 6);
    }
    for (int i = 0; i < 2; i++) {
        error = (struct error){.status = STATUS_OK};
        assert_int_not_equal(outputs_compare(path, i ? "/x" : "/y", new, i ? "/y" : "/x", &difference, &error), 0);
        assert_true(*error.text && !difference.known && !difference.identical);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_by_the_largest_of_both),
        cmocka_unit_test(integers_beyond_doubles_are_told_apart),
        cmocka_unit_test(others_cannot_be_compared),
    };
    return cmocka_run_group_tests_name("compare_output", tests, make_folder, remove_folder);
}
