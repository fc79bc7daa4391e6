/* test_verify_converted.c - verification of results that are stored as another type than they are computed in: what a
 * right result converts to is right, whatever its last bits, and what is next to that is wrong. */
#include "../../kernels/core/convert.h"
#include "verify_fixture.h"

static const struct random_terms spread = {.distribution = RANDOM_UNIFORM, .low = -30, .high = 30};
static const enum dtype computed_types[] = {FLOAT32, FLOAT64, FLOAT16, BFLOAT16};

/* Stores the result as another type, moved by so many roundings of its own. */
static void convert(struct fixture *f, enum dtype stored, int roundings) {
    enum dtype computed = f->arrays[2].dtype;
    struct casts ignored = {0};
    void *to = malloc((size_t)f->elements * dtype_size(stored) + 1);
    assert_non_null(to);
    for (int64_t i = 0; i < f->elements && roundings != 0; i++)
        set(f, i, get(f, i) * (1 + roundings * dtype_epsilon(computed)));
    convert_elements(computed, f->out, f->elements, stored, to, &ignored);
    free(f->out);
    f->out = to;
    f->arrays[2].dtype = stored;
}

static int64_t get_integer(const struct fixture *f, int64_t at) {
    return dtype_load_integer(f->arrays[2].dtype, f->out, at);
}

/* Is it found that this integer alone is off by `by`, modulo 2^bits? */
static bool is_step_found(struct fixture *f, int64_t at, int64_t by) {
    int64_t right = get_integer(f, at);
    dtype_store_integer(f->arrays[2].dtype, f->out, at, (int64_t)((uint64_t)right + (uint64_t)by));
    bool found = !passes(f);
    dtype_store_integer(f->arrays[2].dtype, f->out, at, right);
    return found;
}

static void right_results_pass(void **state) {
    for (size_t c = 0; c < sizeof computed_types / sizeof *computed_types; c++)
        for (enum dtype stored = 0; stored < DTYPE_COUNT; stored++)
            for (int roundings = -1; roundings <= 1; roundings++) {
                struct fixture f;
                open_product(&f, computed_types[c], 17, 33, 40, spread);
                convert(&f, stored, roundings);
                if (!passes(&f))
                    fail_msg("%s as %s: %s", dtype_name(computed_types[c]), dtype_name(stored), f.verdict.message);
                assert_true(f.verdict.error <= f.verdict.tolerance);
                close_fixture(&f);
            }
}

static void the_next_but_one_is_wrong(void **state) {
    for (enum dtype stored = 0; stored < DTYPE_COUNT; stored++) {
        struct fixture f;
        if (stored == FLOAT64) continue;
        open_product(&f, FLOAT64, 17, 33, 40, spread);
        convert(&f, stored, 0);
        for (int64_t at = 0; at < f.elements; at += 7) {
            double right = dtype_is_float(stored) ? get(&f, at) : 0;
            if (!dtype_is_float(stored)) assert_true(is_step_found(&f, at, at % 2 ? 2 : -2));
            if (dtype_is_float(stored)) assert_true(is_found(&f, at, right * (1 + 2.5 * dtype_epsilon(stored))));
            if (dtype_is_float(stored)) assert_true(is_found(&f, at, NAN) && is_found(&f, at, INFINITY));
        }
        assert_true(passes(&f));
        close_fixture(&f);
    }
}

/* Sums that are whole numbers: a right result may lie just below, so that one less is stored. */
static void whole_numbers_have_two_neighbours(void **state) {
    struct fixture f;
    struct random_terms whole = {.distribution = RANDOM_INTEGER, .low = 1, .high = 9};
    open_product(&f, FLOAT32, 16, 16, 300, whole);
    convert(&f, INT16, -1);
    assert_true(passes(&f));
    assert_true(is_step_found(&f, 3, -1));
    assert_false(is_step_found(&f, 3, 1));
    assert_true(is_step_found(&f, 3, 2));
    close_fixture(&f);
}

/* 1 may be the cut-off 0.99...: the only number between which and its neighbour there is nothing but a fraction of 0.
 */
static void ones_may_become_zeros(void **state) {
    struct fixture f;
    struct random_terms signs = {.distribution = RANDOM_INTEGER, .low = -1, .high = 1};
    for (int roundings = -1; roundings <= 0; roundings++) {
        open_product(&f, FLOAT32, 16, 16, 1, signs);
        convert(&f, INT8, roundings);
        assert_true(passes(&f));
        for (int64_t at = 0; at < f.elements && roundings == 0; at++) {
            int64_t value = get_integer(&f, at);
            for (int by = -2; by <= 2; by++)
                assert_int_equal(is_step_found(&f, at, by), by != 0 && (value == 0 || by != -value));
        }
        close_fixture(&f);
    }
}

static void what_does_not_fit(void **state) {
    float a[] = {1e6F, 0, NAN, 1, 70000, -1e38F};
    struct shape shape = {2, {2, 3}};
    for (int type = 0; type < 2; type++) {
        struct fixture f;
        open_inputs(&f, OP_SCALE, (struct op_options){.alpha = 1}, FLOAT32, shape, shape, around_zero);
        put_input(&f, 0, a);
        compute(&f);
        convert(&f, type ? INT8 : FLOAT16, 0);
        assert_true(passes(&f));
        if (type == 0) {
            assert_true(isinf(get(&f, 0)) && isinf(get(&f, 4)) && get(&f, 5) == -INFINITY);
            assert_true(is_found(&f, 0, 65504) && is_found(&f, 4, -INFINITY) && is_found(&f, 2, 0));
        } else {
            assert_int_equal(get_integer(&f, 0), (int8_t)1000000);
            assert_int_equal(get_integer(&f, 2), 0);
            assert_true(is_step_found(&f, 2, 1) && is_step_found(&f, 0, 1));
            assert_false(is_step_found(&f, 5, 3)); /* a rounding of 1e38 is more than 2^8 */
        }
        close_fixture(&f);
    }
}

static void integers_and_moved_elements_are_exact(void **state) {
    struct shape shape = {2, {20, 30}};
    for (int op = 0; op < 2; op++) {
        struct fixture f;
        open_fixture(&f, op ? OP_TRANSPOSE : OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM}, INT32, shape, shape,
                     (struct random_terms){.distribution = RANDOM_INTEGER, .low = -1e6, .high = 1e6});
        convert(&f, INT8, 0);
        assert_true(passes(&f));
        assert_true(is_step_found(&f, 5, 1) && is_step_found(&f, 5, -1));
        close_fixture(&f);
    }
}

/* A wrong one among elements that are all alike: none of the others stands for it. */
static void one_wrong_among_equals(void **state) {
    for (int value = 0; value < 2; value++)
        for (enum dtype stored = 0; stored < DTYPE_COUNT; stored++) {
            struct fixture f;
            struct random_terms equal = {.distribution = RANDOM_INTEGER, .low = value, .high = value};
            if (stored == FLOAT32) continue;
            open_product(&f, FLOAT32, 16, 16, 5, equal);
            convert(&f, stored, 0);
            assert_true(passes(&f));
            for (int64_t at = 0; at < f.elements; at += 5)
                assert_true(dtype_is_float(stored) ? is_found(&f, at, 7) : is_step_found(&f, at, 2));
            close_fixture(&f);
        }
}

/* Elements of a large product that no sample has. */
static void sums_of_floats_are_checked(void **state) {
    struct fixture f;
    open_product(&f, FLOAT32, 1100, 1000, 20, around_zero);
    f.operation.run.verify = VERIFY_SAMPLED;
    convert(&f, FLOAT16, 0);
    assert_true(passes(&f));
    for (int64_t at = 5005; at < f.elements; at += f.elements / 5) assert_true(is_found(&f, at, get(&f, at) + 30));
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass),
        cmocka_unit_test(the_next_but_one_is_wrong),
        cmocka_unit_test(whole_numbers_have_two_neighbours),
        cmocka_unit_test(ones_may_become_zeros),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(integers_and_moved_elements_are_exact),
        cmocka_unit_test(one_wrong_among_equals),
        cmocka_unit_test(sums_of_floats_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
