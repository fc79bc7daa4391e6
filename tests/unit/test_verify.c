/* test_verify.c - what verification sees in results that are too large to be compared whole, and what it lets pass.
 *
 * Each test makes a right result, lets it pass, spoils it in one way, and wants that to be found (or, where the
 * documents promise no more, to pass). Sizes lie just beyond what verify.c compares whole. */
#include "../../runner/verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a task made by hand: generated inputs, an output in memory -------------------------------------------------- */

struct fixture {
    struct job_input inputs[2];
    struct array arrays[3];
    struct job_operation operation;
    struct kernel kernel;
    struct task task;
    struct run run;
    struct plan plan;
    void *out;
    int64_t elements, reads; /* of the output; boxes of it that were asked for */
    int64_t lose_at;         /* the read after which the inputs cannot be read; 0: none */
    int64_t fail_at;         /* the read that fails; 0: none */
    struct truth_cache *cache;
    struct verdict verdict;
};

static struct error error;

/* A box of the output, or a failure. */
static enum status read_out(void *context, int input, const struct box *box, void *data, struct error *failure) {
    struct fixture *f = context;
    assert_int_equal(input, -1);
    if (++f->reads == f->fail_at) return FAIL_CALL(failure, STATUS_IO, "read", "planted");
    if (f->reads == f->lose_at) f->arrays[0].input = f->arrays[1].input = NULL;
    const struct shape *shape = &f->arrays[2].shape;
    size_t size = dtype_size(f->arrays[2].dtype);
    int64_t count[MAX_RANK] = {1, 1, 1}, start[MAX_RANK] = {0}, extent[MAX_RANK] = {1, 1, 1};
    for (int axis = 0, to = MAX_RANK - box->rank; axis < box->rank; axis++, to++) {
        count[to] = box->count[axis], start[to] = box->start[axis], extent[to] = shape->size[axis];
        assert_true(start[to] >= 0 && start[to] + count[to] <= extent[to]);
    }
    char *to = data;
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++, to += (size_t)count[2] * size) {
            int64_t at = ((start[0] + i) * extent[1] + start[1] + j) * extent[2] + start[2];
            memcpy(to, (char *)f->out + (size_t)at * size, (size_t)count[2] * size);
        }
    return STATUS_OK;
}

static void set_input(struct fixture *f, int number, enum dtype dtype, struct shape shape, struct random_terms terms) {
    terms.seed = (uint64_t)number;
    f->inputs[number] = (struct job_input){.random = true, .terms = terms, .shape = shape, .dtype = dtype};
    f->arrays[number] =
        (struct array){.name = "input", .label = "", .dtype = dtype, .shape = shape, .input = &f->inputs[number]};
}

static void *read_input(struct array *array) {
    struct box box = box_whole(&array->shape);
    void *data = malloc((size_t)box_elements(&box) * dtype_size(array->dtype) + 1);
    assert_non_null(data);
    assert_int_equal(array_read(array, &box, data, NULL, &error), STATUS_OK);
    return data;
}

/* The right result, by a CPU kernel in one launch. */
static void compute(struct fixture *f) {
    const struct geometry *geometry = &f->task.geometry;
    struct launch launch = {.multiprocessors = 2};
    struct tile tile = {{0}, {0}};
    memcpy(tile.count, geometry->extent, sizeof tile.count);
    void *in[2] = {read_input(&f->arrays[0]), geometry->inputs > 1 ? read_input(&f->arrays[1]) : NULL};
    void *partial = malloc((size_t)f->elements * geometry->partial_size + 1);
    const void *operands[2] = {in[0], in[1]};
    operations[geometry->op]->launch(geometry, &tile, true, true, operands, partial, f->out, &launch);
    size_t bytes = kernel_workspace(&f->kernel, &launch) / 256 * 256 + 256;
    launch.workspace = memset(aligned_alloc(256, bytes), 0, bytes);
    assert_int_equal(f->kernel.launch(&launch), 0);
    free(launch.workspace);
    free(partial);
    free(in[0]);
    free(in[1]);
}

static void open_fixture(struct fixture *f, enum op op, struct op_options options, enum dtype dtype, struct shape a,
                         struct shape b, struct random_terms terms) {
    error = (struct error){.status = STATUS_OK};
    *f = (struct fixture){.operation.run = {.tolerance = NAN, .verify = VERIFY_AUTO}};
    set_input(f, 0, dtype, a, terms);
    set_input(f, 1, dtype, b, terms);
    const struct kernel *kernel = kernel_find(op, "blocked");
    f->kernel = *(kernel ? kernel : kernel_find(op, "cpu"));
    struct shape shapes[2] = {a, b};
    enum dtype dtypes[2] = {dtype, dtype};
    f->task = (struct task){.operation = &f->operation, .in = {0, 1}, .out = 2};
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &f->task.geometry, &error), STATUS_OK);
    f->arrays[2] = (struct array){.dtype = f->task.geometry.out.dtype, .shape = f->task.geometry.out.shape};
    f->elements = shape_elements(&f->arrays[2].shape);
    f->out = malloc((size_t)f->elements * dtype_size(f->arrays[2].dtype) + 1);
    assert_non_null(f->out);
    f->run = (struct run){.kernel = &f->kernel, .label = "test"};
    f->plan = (struct plan){.arrays = f->arrays, .array_count = 3, .tasks = &f->task, .task_count = 1};
    f->cache = truth_cache_create();
    compute(f);
}

static void close_fixture(struct fixture *f) {
    truth_cache_free(f->cache);
    free(f->out);
}

static const struct random_terms around_zero = {.distribution = RANDOM_UNIFORM, .low = -1, .high = 1};
static const struct random_terms counting = {.distribution = RANDOM_INDEX};

/* C = A B, [m,k] x [k,n]. */
static void open_product(struct fixture *f, enum dtype dtype, int64_t m, int64_t n, int64_t k,
                         struct random_terms terms) {
    open_fixture(f, OP_MATMUL, (struct op_options){.alpha = 1}, dtype, (struct shape){2, {m, k}},
                 (struct shape){2, {k, n}}, terms);
}

static bool passes(struct fixture *f) {
    struct host_reader reader = {read_out, f};
    f->reads = 0;
    assert_int_equal(verify_run(&f->plan, &f->run, &reader, f->cache, &f->verdict, &error), STATUS_OK);
    return f->verdict.right;
}

static double get(const struct fixture *f, int64_t at) {
    return dtype_load(f->arrays[2].dtype, f->out, at);
}
static void set(struct fixture *f, int64_t at, double value) {
    dtype_store(f->arrays[2].dtype, f->out, at, value);
}

static bool says(const struct fixture *f, const char *words) {
    if (strstr(f->verdict.message, words)) return true;
    print_message("'%s' does not say '%s'\n", f->verdict.message, words);
    return false;
}

/* Is this value, put there alone, found? */
static bool is_found(struct fixture *f, int64_t at, double value) {
    double right = get(f, at);
    set(f, at, value);
    bool found = !passes(f);
    set(f, at, right);
    return found;
}

/* ---- large products ---------------------------------------------------------------------------------------------- */

enum { M = 2053, N = 2063, MIDDLE = 1000 * N + 1234 }; /* more elements than are compared one by one */

static void one_wrong_element_of_a_product(void **state) {
    (void)state;
    for (int dtype = FLOAT32; dtype <= FLOAT64; dtype++) {
        struct fixture f;
        open_product(&f, (enum dtype)dtype, M, N, 8, around_zero);
        assert_true(passes(&f));
        assert_true(f.verdict.error <= f.verdict.tolerance && f.verdict.tolerance > 0);
        assert_true(is_found(&f, MIDDLE, get(&f, MIDDLE) + 0.01));
        assert_true(says(&f, "row 1000 of matrix 0 misses Freivalds' check"));
        assert_true(isinf(f.verdict.error));
        assert_true(is_found(&f, MIDDLE, -get(&f, MIDDLE)));
        double tiny = get(&f, MIDDLE) * (1 + dtype_epsilon((enum dtype)dtype));
        assert_false(is_found(&f, MIDDLE, tiny)); /* that is rounding */
        assert_true(passes(&f));
        close_fixture(&f);
    }
}

/* In a stack, with transposed operands and a factor. */
static void one_wrong_element_of_a_stack(void **state) {
    (void)state;
    struct fixture f;
    struct op_options options = {.alpha = -2.5, .transpose_a = true, .transpose_b = true};
    open_fixture(&f, OP_MATMUL, options, FLOAT32, (struct shape){3, {5, 6, 1021}}, (struct shape){3, {5, 1031, 6}},
                 around_zero);
    assert_true(passes(&f));
    int64_t at = (3 * INT64_C(1021) + 500) * 1031 + 400;
    assert_true(is_found(&f, at, get(&f, at) + 0.1) && says(&f, "row 500 of matrix 3"));
    close_fixture(&f);
}

/* Of a 16-bit type every element of a row may be off by its rounding; a lost one must stand out from that. */
static void lost_elements_of_narrow_types(void **state) {
    (void)state;
    for (int dtype = FLOAT16; dtype <= BFLOAT16; dtype++) {
        struct fixture f;
        open_product(&f, (enum dtype)dtype, 64, 2048, 256, around_zero);
        f.operation.run.verify = VERIFY_SAMPLED;
        assert_true(passes(&f));
        assert_true(is_found(&f, 40 * 2048 + 1100, INFINITY) && is_found(&f, 40 * 2048 + 1100, NAN));
        int64_t row = 40 * 2048, count = dtype == FLOAT16 ? 1 : 64; /* bfloat16 is coarser: it takes a tile's row */
        double largest = 0;
        for (int64_t i = row + 1000; i < row + 1400; i++) largest = fmax(largest, fabs(get(&f, i)));
        for (int64_t i = row + 1000; i < row + 1400 && count > 0; i++) {
            if (fabs(get(&f, i)) < largest / 2) continue;
            set(&f, i, dtype == FLOAT16 ? 0 : largest);
            count--;
        }
        assert_false(passes(&f));
        assert_true(says(&f, "row 40 of matrix 0"));
        close_fixture(&f);
    }
}

static void wide_float64_is_not_rejected(void **state) {
    (void)state;
    struct fixture f;
    open_product(&f, FLOAT64, 2, 3000001, 1, around_zero);
    assert_true(passes(&f));
    assert_true(is_found(&f, 1234567, get(&f, 1234567) + 1e-3));
    close_fixture(&f);
}

/* Their squares' squares are beyond the type. */
static void huge_float64_is_compared(void **state) {
    (void)state;
    struct fixture f;
    open_product(&f, FLOAT64, 64, 2048, 8, (struct random_terms){.low = -1e80, .high = 1e80});
    f.operation.run.verify = VERIFY_SAMPLED;
    assert_true(passes(&f));
    assert_true(is_found(&f, 40 * 2048 + 1000, 0));
    close_fixture(&f);
}

/* Sums that fall below the type's least number are rounded to multiples of it. */
static void tiny_products_are_not_rejected(void **state) {
    (void)state;
    struct fixture f;
    open_product(&f, FLOAT16, 64, 2048, 4, (struct random_terms){.low = -0x1p-11, .high = 0x1p-11});
    f.operation.run.verify = VERIFY_SAMPLED;
    assert_true(passes(&f));
    close_fixture(&f);
}

/* ---- not a number, infinity -------------------------------------------------------------------------------------- */

static void a_nan_is_wrong_wherever_it_is(void **state) {
    (void)state;
    struct fixture f;
    open_product(&f, FLOAT32, M, N, 8, around_zero);
    assert_true(passes(&f));
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_true(is_found(&f, MIDDLE, odd[i]) && says(&f, "row 1000"));
        assert_true(isinf(f.verdict.error));
        assert_true(is_found(&f, 0, odd[i]) && says(&f, "[0, 0] is"));
        assert_true(isinf(f.verdict.error));
    }
    f.operation.run.tolerance = 1e300; /* whatever the tolerance */
    assert_true(is_found(&f, MIDDLE, NAN) && is_found(&f, 0, NAN));
    close_fixture(&f);
}

/* A right infinity is not wrong, and does not cover for what is wrong beside it. */
static void overflow_is_compared(void **state) {
    (void)state;
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

/* Spoils a rectangle of a matrix, sees whether that is found, and makes it right again. */
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
    assert_true(f.reads < 100); /* samples, not everything */
    assert_true(is_rectangle_found(&f, 0, 0, 1, 1));
    assert_true(is_rectangle_found(&f, rows - 1, columns - 1, 1, 1));
    assert_true(is_rectangle_found(&f, rows - rows % 32, 0, 32, columns)); /* the tiles that are not whole */
    assert_true(is_rectangle_found(&f, 0, columns - columns % 32, rows, 32));
    assert_true(is_rectangle_found(&f, 512, 512, 1024, 1024)); /* a large tile */
    assert_true(is_rectangle_found(&f, 1024, 0, 128, columns));
    close_fixture(&f);
}

static void wrong_tiles_of_transposes(void **state) {
    (void)state;
    check_large_matrix(OP_TRANSPOSE, FLOAT32);
    check_large_matrix(OP_TRANSPOSE, INT16);
}

static void wrong_tiles_of_scale(void **state) {
    (void)state;
    check_large_matrix(OP_SCALE, FLOAT64);
    check_large_matrix(OP_SCALE, UINT8);
}

/* Every fifth element, of every row: what a padding that was forgotten comes to. */
static void a_wrong_pattern_is_found(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, INT32, (struct shape){2, {2053, 2063}},
                 (struct shape){2, {1, 1}}, counting);
    for (int64_t i = 0; i < f.elements; i++)
        if (i % 2053 % 32 == 31) set(&f, i, 7);
    assert_false(passes(&f));
    assert_true(says(&f, "is 7, should be"));
    close_fixture(&f);
}

static void wrong_sums_of_many(void **state) {
    (void)state;
    struct fixture f;
    struct op_options options = {.reduce = REDUCE_SUM, .axis = 1};
    open_fixture(&f, OP_REDUCE, options, UINT8, (struct shape){2, {4200001, 2}}, (struct shape){1, {1}}, counting);
    assert_int_equal(f.arrays[2].dtype, UINT64);
    assert_true(passes(&f));
    assert_true(f.reads < 100);
    assert_true(is_found(&f, 0, get(&f, 0) + 1));
    assert_true(says(&f, "[0] is 2, should be 1"));
    assert_true(is_found(&f, f.elements - 1, get(&f, f.elements - 1) + 256)); /* what a narrow sum would lose */
    for (int64_t i = f.elements / 2; i < f.elements; i++) set(&f, i, 0);      /* a launch that was left out */
    assert_false(passes(&f));
    close_fixture(&f);
}

/* ---- tolerances -------------------------------------------------------------------------------------------------- */

/* A relative error of size `error`, everywhere, in a product that is compared whole. */
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
    (void)state;
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
    assert_true(passes_off_by(ACCURACY_FULL, 1e-2, 0.02)); /* the job's own */
    assert_false(passes_off_by(ACCURACY_BFLOAT16, 1e-3, 1e-4));
}

static void verify_none_reads_nothing(void **state) {
    (void)state;
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

static void fail_once(struct fixture *f, int64_t fail_at, int64_t lose_at) {
    struct host_reader reader = {read_out, f};
    f->fail_at = fail_at, f->lose_at = lose_at, f->reads = 0;
    assert_int_equal(verify_run(&f->plan, &f->run, &reader, f->cache, &f->verdict, &error), STATUS_IO);
    error = (struct error){.status = STATUS_OK};
    f->fail_at = f->lose_at = 0;
    for (int i = 0; i < 2; i++) f->arrays[i].input = &f->inputs[i];
}

/* Whatever read fails, of a sample, a truth or Freivalds' check, the next run of the task is judged by whole truths. */
static void a_failed_read_spoils_nothing(void **state) {
    (void)state;
    struct fixture f;
    for (int at = 1; at <= 27; at += at == 1 ? 22 : 1) { /* 24 samples, three bands of rows */
        open_product(&f, FLOAT32, M, N, 8, around_zero);
        fail_once(&f, at, 0);
        assert_true(passes(&f));
        assert_int_equal(f.reads, 27);
        if (at < 25) {
            truth_cache_free(f.cache);
            f.cache = truth_cache_create();
            fail_once(&f, 0, at);
            assert_true(passes(&f));
            assert_true(is_found(&f, MIDDLE, 0));
        }
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_wrong_element_of_a_product),
        cmocka_unit_test(one_wrong_element_of_a_stack),
        cmocka_unit_test(lost_elements_of_narrow_types),
        cmocka_unit_test(wide_float64_is_not_rejected),
        cmocka_unit_test(huge_float64_is_compared),
        cmocka_unit_test(tiny_products_are_not_rejected),
        cmocka_unit_test(a_nan_is_wrong_wherever_it_is),
        cmocka_unit_test(overflow_is_compared),
        cmocka_unit_test(wrong_tiles_of_transposes),
        cmocka_unit_test(wrong_tiles_of_scale),
        cmocka_unit_test(a_wrong_pattern_is_found),
        cmocka_unit_test(wrong_sums_of_many),
        cmocka_unit_test(tolerance_follows_the_accuracy_class),
        cmocka_unit_test(verify_none_reads_nothing),
        cmocka_unit_test(a_failed_read_spoils_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
