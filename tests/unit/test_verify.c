/* test_verify.c - which faults verification finds in results that are too large to be compared whole, and which it lets
 * pass.
 *
 * Each test makes a right result, checks that it passes, spoils it in one way, and checks that this is found (or that
 * it passes, if the documents promise no more). Sizes lie just beyond those that verify.c compares whole. */
#include "draws.h"
#include "verify_fixture.h"

/* ---- large products ---------------------------------------------------------------------------------------------- */

enum { M = 2053, N = 2063, MIDDLE = 1000 * N + 1234 }; /* more elements than verify.c compares whole */

static void one_wrong_element_of_a_product(void **state) {
    for (int dtype = FLOAT32; dtype <= FLOAT64; dtype++) {
        struct fixture f;
        open_product(&f, (enum dtype)dtype, M, N, 8, around_zero);
        assert_true(passes(&f));
        assert_true(f.verdict.error <= f.verdict.tolerance && f.verdict.tolerance > 0);
        assert_true(is_found(&f, MIDDLE, get(&f, MIDDLE) + 0.01));
        assert_true(says(&f, "[1000, 1234] is"));
        assert_true(f.verdict.error > f.verdict.tolerance);
        assert_true(is_found(&f, MIDDLE, -get(&f, MIDDLE)));
        double tiny = get(&f, MIDDLE) * (1 + dtype_epsilon((enum dtype)dtype));
        assert_false(is_found(&f, MIDDLE, tiny)); /* the size of a rounding error */
        assert_true(passes(&f));
        close_fixture(&f);
    }
}

/* One wrong element in a stack, with transposed operands and a factor. */
static void one_wrong_element_of_a_stack(void **state) {
    struct fixture f;
    struct op_options options = {.alpha = -2.5, .transpose_a = true, .transpose_b = true};
    open_fixture(&f, OP_MATMUL, options, FLOAT32, (struct shape){3, {5, 6, 1021}}, (struct shape){3, {5, 1031, 6}},
                 around_zero);
    assert_true(passes(&f));
    int64_t at = (3 * INT64_C(1021) + 500) * 1031 + 400;
    assert_true(is_found(&f, at, get(&f, at) + 0.1) && says(&f, "[3, 500, 400] is"));
    close_fixture(&f);
}

/* In a 16-bit type every element of a row may be off by its rounding; a lost element must exceed that. */
static void lost_elements_of_narrow_types(void **state) {
    for (int dtype = FLOAT16; dtype <= BFLOAT16; dtype++) {
        struct fixture f;
        open_product(&f, (enum dtype)dtype, 64, 2048, 256, around_zero);
        f.operation.run.verify = VERIFY_SAMPLED;
        assert_true(passes(&f));
        assert_true(is_found(&f, 40 * 2048 + 1100, INFINITY) && is_found(&f, 40 * 2048 + 1100, NAN));
        int64_t row = 40 * 2048, count = dtype == FLOAT16 ? 1 : 64; /* bfloat16 is coarser: spoil a tile's row */
        double largest = 0;
        for (int64_t i = row + 1000; i < row + 1400; i++) largest = fmax(largest, fabs(get(&f, i)));
        for (int64_t i = row + 1000; i < row + 1400 && count > 0; i++) {
            if (fabs(get(&f, i)) < largest / 2) continue;
            set(&f, i, dtype == FLOAT16 ? 0 : largest);
            count--;
        }
        assert_false(passes(&f));
        assert_true(says(&f, "[40, "));
        close_fixture(&f);
    }
}

static void wide_float64_is_not_rejected(void **state) {
    struct fixture f;
    open_product(&f, FLOAT64, 2, 3000001, 1, around_zero);
    assert_true(passes(&f));
    assert_true(is_found(&f, 1234567, get(&f, 1234567) + 1e-3));
    close_fixture(&f);
}

/* The squares of their squares exceed the type, or their sums do, or nearly nothing is left of them. */
static void float64_of_any_size_is_compared(void **state) {
    const double sizes[] = {1e80, 0x1p509, 0x1p-505};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        open_product(&f, FLOAT64, 64, 2048, 8, (struct random_terms){.low = -sizes[i], .high = sizes[i]});
        f.operation.run.verify = VERIFY_SAMPLED;
        assert_true(passes(&f));
        assert_true(is_found(&f, 40 * 2048 + 1000, 0));
        close_fixture(&f);
    }
}

/* Lines of A and B are as large as their largest element, wherever it is along k: here all begin with a tiny one. */
static void small_lines_are_not_hidden(void **state) {
    enum { ROWS = 64, COLUMNS = 2048, LENGTH = 5 };
    state_of_draws = 1;
    for (int turned = 0; turned < 4; turned++) {
        struct fixture f;
        float a[LENGTH * ROWS], b[LENGTH * COLUMNS];
        bool turned_a = turned & 1, turned_b = turned & 2;
        struct op_options options = {.alpha = 1, .transpose_a = turned_a, .transpose_b = turned_b};
        for (int k = 0; k < LENGTH; k++) {
            for (int i = 0; i < ROWS; i++)
                a[turned_a ? k * ROWS + i : i * LENGTH + k] =
                    ldexpf(1 + (float)draw_below(1000) / 999, k ? i % 40 - 20 : -30);
            for (int j = 0; j < COLUMNS; j++)
                b[turned_b ? j * LENGTH + k : k * COLUMNS + j] =
                    ldexpf(1 + (float)draw_below(1000) / 999, k ? j % 40 - 20 : -30);
        }
        open_inputs(&f, OP_MATMUL, options, FLOAT32,
                    (struct shape){2, {turned_a ? LENGTH : ROWS, turned_a ? ROWS : LENGTH}},
                    (struct shape){2, {turned_b ? COLUMNS : LENGTH, turned_b ? LENGTH : COLUMNS}}, around_zero);
        put_input(&f, 0, a);
        put_input(&f, 1, b);
        compute(&f);
        f.operation.run.verify = VERIFY_SAMPLED;
        assert_true(passes(&f));
        for (int i = 0; i < ROWS; i += 40)
            for (int j = 920; j < 960; j += 20)
                assert_true(is_found(&f, i * COLUMNS + j, 0.9 * get(&f, i * COLUMNS + j)));
        close_fixture(&f);
    }
}

/* Sums below the type's least number are rounded to multiples of it. */
static void tiny_products_are_not_rejected(void **state) {
    struct fixture f;
    open_product(&f, FLOAT16, 64, 2048, 4, (struct random_terms){.low = -0x1p-11, .high = 0x1p-11});
    f.operation.run.verify = VERIFY_SAMPLED;
    assert_true(passes(&f));
    close_fixture(&f);
}

/* ---- not a number, infinity -------------------------------------------------------------------------------------- */

static void a_nan_is_wrong_wherever_it_is(void **state) {
    struct fixture f;
    open_product(&f, FLOAT32, M, N, 8, around_zero);
    assert_true(passes(&f));
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_true(is_found(&f, MIDDLE, odd[i]) && says(&f, "[1000, 1234] is"));
        assert_true(isinf(f.verdict.error));
        assert_true(is_found(&f, 0, odd[i]) && says(&f, "[0, 0] is"));
        assert_true(isinf(f.verdict.error));
    }
    f.operation.run.tolerance = 1e300; /* whatever the tolerance */
    assert_true(is_found(&f, MIDDLE, NAN) && is_found(&f, 0, NAN));
    close_fixture(&f);
}

/* A right infinity is not wrong, and does not hide a wrong element beside it. */
static void overflow_is_compared(void **state) {
    struct fixture f;
    int64_t infinite = -1, finite = -1;
    open_product(&f, FLOAT16, 3, 2048, 16, (struct random_terms){.low = -200, .high = 200});
    f.operation.run.verify = VERIFY_SAMPLED;
    for (int64_t i = 2048 + 5; i < 2048 + 1500; i++) *(isinf(get(&f, i)) ? &infinite : &finite) = i;
    assert_true(infinite >= 0 && finite >= 0);
    assert_true(passes(&f));
    assert_true(is_found(&f, finite, INFINITY) && is_found(&f, finite, NAN) &&
                is_found(&f, finite, get(&f, finite) > 0 ? -3e4 : 3e4));
    assert_true(is_found(&f, infinite, -get(&f, infinite)) && is_found(&f, infinite, NAN) && is_found(&f, infinite, 1));
    close_fixture(&f);
}

/* ---- transposes, sums, factors: sampled boxes -------------------------------------------------------------------- */

/* Spoils a rectangle of a matrix, checks whether that is found, and makes the matrix right again. */
static bool is_rectangle_found(struct fixture *f, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const struct shape *shape = &f->arrays[2].shape;
    size_t bytes = (size_t)f->elements * dtype_size(f->arrays[2].dtype);
    void *right = malloc(bytes + 1);
    memcpy(right, f->out, bytes);
    for (int64_t i = row; i < row + rows && i < shape->size[0]; i++)
        for (int64_t j = column; j < column + columns && j < shape->size[1]; j++)
            set(f, i * shape->size[1] + j, get(f, i * shape->size[1] + j) + 1);
    bool found = !passes(f);
    memcpy(f->out, right, bytes);
    free(right);
    return found;
}

static void check_large_matrix(enum op op, enum dtype dtype) {
    struct fixture f;
    open_fixture(&f, op, (struct op_options){.alpha = 2, .beta = 1}, dtype, (struct shape){2, {2053, 2063}},
                 (struct shape){2, {1, 1}}, around_zero);
    if (!dtype_is_float(dtype)) {
        close_fixture(&f);
        open_fixture(&f, op, (struct op_options){.alpha = 2, .beta = 1}, dtype, (struct shape){2, {2053, 2063}},
                     (struct shape){2, {1, 1}}, counting);
    }
    int64_t rows = f.arrays[2].shape.size[0], columns = f.arrays[2].shape.size[1];
    assert_true(passes(&f));
    assert_true(f.verdict.error == 0);
    assert_true(f.reads < 100); /* it read samples, not everything */
    assert_true(is_rectangle_found(&f, 0, 0, 1, 1));
    assert_true(is_rectangle_found(&f, rows - 1, columns - 1, 1, 1));
    assert_true(is_rectangle_found(&f, rows - rows % 32, 0, 32, columns)); /* the tiles that are cut off */
    assert_true(is_rectangle_found(&f, 0, columns - columns % 32, rows, 32));
    assert_true(is_rectangle_found(&f, 512, 512, 1024, 1024)); /* a large tile */
    assert_true(is_rectangle_found(&f, 1024, 0, 128, columns));
    close_fixture(&f);
}

static void wrong_tiles_of_transposes(void **state) {
    check_large_matrix(OP_TRANSPOSE, FLOAT32);
    check_large_matrix(OP_TRANSPOSE, INT16);
}

static void wrong_tiles_of_scale(void **state) {
    check_large_matrix(OP_SCALE, FLOAT64);
    check_large_matrix(OP_SCALE, UINT8);
}

/* Every fifth element of every row is wrong, as if a padding had been forgotten. */
static void a_wrong_pattern_is_found(void **state) {
    struct fixture f;
    open_fixture(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, INT32, (struct shape){2, {2053, 2063}},
                 (struct shape){2, {1, 1}}, counting);
    for (int64_t i = 0; i < f.elements; i++)
        if (i % 2053 % 32 == 31) set(&f, i, 7);
    assert_false(passes(&f));
    assert_true(says(&f, "is 7, should be"));
    close_fixture(&f);
}

/* Wherever the wrong half of a row of sums lies, but for its ends, which are always looked at. */
static void samples_lie_anywhere(void **state) {
    struct fixture f;
    struct op_options options = {.reduce = REDUCE_MAX, .axis = 0};
    open_fixture(&f, OP_REDUCE, options, FLOAT32, (struct shape){2, {3, 4000}}, (struct shape){2, {1, 1}}, counting);
    f.operation.run.verify = VERIFY_SAMPLED;
    assert_true(passes(&f));
    assert_int_equal(f.reads, 1); /* all samples, in one walk */
    for (int64_t start = 10; start + 2000 < 4000; start += 395) {
        for (int64_t at = start; at < start + 2000; at++) set(&f, at, get(&f, at) + 1);
        assert_false(passes(&f));
        for (int64_t at = start; at < start + 2000; at++) set(&f, at, get(&f, at) - 1);
    }
    close_fixture(&f);
}

static void wrong_sums_of_many(void **state) {
    struct fixture f;
    struct op_options options = {.reduce = REDUCE_SUM, .axis = 1};
    open_fixture(&f, OP_REDUCE, options, UINT8, (struct shape){2, {4200001, 2}}, (struct shape){1, {1}}, counting);
    assert_int_equal(f.arrays[2].dtype, UINT64);
    assert_true(passes(&f));
    assert_true(f.reads < 100);
    assert_true(is_found(&f, 0, get(&f, 0) + 1));
    assert_true(says(&f, "[0] is 2, should be 1"));
    assert_true(is_found(&f, f.elements - 1, get(&f, f.elements - 1) + 256)); /* a narrow sum's error */
    for (int64_t i = f.elements / 2; i < f.elements; i++) set(&f, i, 0);      /* as if a launch had been left out */
    assert_false(passes(&f));
    close_fixture(&f);
}

/* ---- tolerances -------------------------------------------------------------------------------------------------- */

/* Does a product that is compared whole pass with a relative error of `relative` in every element? */
static bool passes_off_by(enum accuracy accuracy, double relative, double tolerance) {
    struct fixture f;
    open_product(&f, FLOAT32, 30, 40, 64, (struct random_terms){.low = 1, .high = 2});
    f.kernel.accuracy = accuracy;
    f.operation.run.tolerance = tolerance;
    for (int64_t i = 0; i < f.elements; i++) set(&f, i, get(&f, i) * (1 + relative));
    bool right = passes(&f);
    assert_true(fabs(f.verdict.error - relative) < 4e-6);
    assert_true(right == (f.verdict.error <= f.verdict.tolerance));
    close_fixture(&f);
    return right;
}

static void tolerance_follows_the_accuracy_class(void **state) {
    const struct {
        enum accuracy accuracy;
        double right, wrong;
    } classes[] = {{ACCURACY_FULL, 0, 1e-4},
                   {ACCURACY_FLOAT16, 5e-4, 2e-3},
                   {ACCURACY_TF32, 1e-3, 4e-3},
                   {ACCURACY_BFLOAT16, 5e-3, 1e-2}};
    for (int i = 0; i < 4; i++) {
        assert_true(passes_off_by(classes[i].accuracy, classes[i].right, NAN));
        assert_false(passes_off_by(classes[i].accuracy, classes[i].wrong, NAN));
    }
    assert_true(passes_off_by(ACCURACY_FULL, 1e-2, 0.02)); /* the job's own tolerance */
    assert_false(passes_off_by(ACCURACY_BFLOAT16, 1e-3, 1e-4));
}

static void verify_none_reads_nothing(void **state) {
    struct fixture f;
    open_product(&f, FLOAT32, 30, 40, 8, around_zero);
    set(&f, 7, NAN);
    f.operation.run.verify = VERIFY_NONE;
    assert_true(passes(&f) && f.reads == 0 && isnan(f.verdict.error));
    f.operation.run.verify = VERIFY_FULL;
    assert_false(passes(&f));
    assert_true(says(&f, "[0, 7] is"));
    close_fixture(&f);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void fail_once(struct fixture *f, int64_t fail_at, int64_t input_fail_at) {
    f->fail_at = fail_at, f->input_fail_at = input_fail_at;
    assert_int_equal(verify(f), STATUS_IO);
    error = (struct error){.status = STATUS_OK};
    f->fail_at = f->input_fail_at = 0;
}

/* Whichever read fails, of a sample, a truth or Freivalds' check, the task's next run is judged by complete truths. */
static void a_failed_read_spoils_nothing(void **state) {
    for (int held = 0; held < 2; held++) { /* nothing is held in memory, or all inputs */
        struct fixture f;
        open_product(&f, FLOAT32, M, N, 8, around_zero);
        int64_t budget = held ? f.plan.budget[DEVICE_CPU] : 0;
        f.plan.budget[DEVICE_CPU] = budget;
        assert_true(passes(&f));
        int64_t reads = f.reads, input_reads = f.input_reads, bands = 3, samples = 24;
        close_fixture(&f);
        assert_true(held ? input_reads == 2 : reads > samples + bands && input_reads > 2 * samples);
        const int64_t moments[] = {1, samples, samples + bands + 1, reads};
        for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
            open_product(&f, FLOAT32, M, N, 8, around_zero);
            f.plan.budget[DEVICE_CPU] = budget;
            if (moments[i] <= reads) {
                fail_once(&f, moments[i], 0);
                assert_true(passes(&f));
                assert_int_equal(f.reads, reads);
            }
            if (moments[i] <= input_reads) {
                truth_cache_free(f.cache);
                f.cache = truth_cache_create();
                fail_once(&f, 0, moments[i]);
                assert_true(passes(&f));
                assert_true(is_found(&f, MIDDLE, 0));
            }
            close_fixture(&f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_wrong_element_of_a_product),
        cmocka_unit_test(one_wrong_element_of_a_stack),
        cmocka_unit_test(lost_elements_of_narrow_types),
        cmocka_unit_test(wide_float64_is_not_rejected),
        cmocka_unit_test(float64_of_any_size_is_compared),
        cmocka_unit_test(small_lines_are_not_hidden),
        cmocka_unit_test(tiny_products_are_not_rejected),
        cmocka_unit_test(a_nan_is_wrong_wherever_it_is),
        cmocka_unit_test(overflow_is_compared),
        cmocka_unit_test(wrong_tiles_of_transposes),
        cmocka_unit_test(wrong_tiles_of_scale),
        cmocka_unit_test(a_wrong_pattern_is_found),
        cmocka_unit_test(samples_lie_anywhere),
        cmocka_unit_test(wrong_sums_of_many),
        cmocka_unit_test(tolerance_follows_the_accuracy_class),
        cmocka_unit_test(verify_none_reads_nothing),
        cmocka_unit_test(a_failed_read_spoils_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
