/* test_verify_honest.c - verification lets right results of difficult data pass: values of any size, sums that cancel,
 * numbers around overflow, any bits. Where a little more would be wrong, that is refused. */
#include "verify_fixture.h"

#include <float.h>

static uint64_t chance_state = 20;
static int64_t chance(int64_t below) {
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((chance_state >> 17) % (uint64_t)below);
}
static double around(void) { /* a random number between -1 and 1 */
    return (double)chance(1 << 26) * 0x1p-25 - 1;
}

enum kind { PLAIN, TINY, HUGE_, CANCELLING, LINES, SPREAD, JUST_BELOW_OVERFLOW, SPRINKLED, BEYOND, KINDS };
static const char *const kind_names[KINDS] = {"plain",  "tiny",           "huge",      "cancelling", "lines",
                                              "spread", "below overflow", "sprinkled", "beyond"};

/* Fills an input of a kind. `length`: the number of terms in a sum. TINY: products of two elements are about the least
 * number; HUGE_: about the largest. */
static void fill(enum kind kind, enum op op, enum dtype dtype, int64_t rows, int64_t columns, int64_t length,
                 void *data) {
    double least = dtype == FLOAT16 ? 0x1p-24 : dtype == FLOAT64 ? 0x1p-1074 : 0x1p-149;
    double largest = dtype_largest(dtype), odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0};
    bool squared = op == OP_MATMUL || op == OP_REDUCE; /* norm2 */
    int reach = dtype == FLOAT16 ? 6 : 20;
    for (int64_t i = 0; i < rows * columns; i++) {
        double x = around();
        switch (kind) {
        case TINY: x *= (squared ? sqrt(least) : least) * (double)(1 + chance(64)); break;
        case HUGE_: x *= squared ? sqrt(largest) : largest; break;
        case CANCELLING: x = i % 2 ? -dtype_load(dtype, data, i - 1) : x; break;
        case LINES: x = ldexp(x, (int)((i / columns * 7 + i % columns * 5) % (2 * reach + 1)) - reach); break;
        case SPREAD: x = ldexp(x, (int)chance(2 * reach) - reach); break;
        case JUST_BELOW_OVERFLOW: /* sums of `length` equal terms, within a few roundings of the first infinity */
            x = squared ? sqrt(largest / (double)length) * (1 + dtype_epsilon(dtype) * (double)chance(3)) : largest;
            break;
        case SPRINKLED:
            if (chance(20) == 0) x = odd[chance(5)];
            break;
        case BEYOND: /* sums leave the range to either side, and infinities make some of them infinite */
            x = chance(30) ? copysign(largest * (1 - fabs(x) / 4), x) : copysign(INFINITY, x);
            break;
        default: break;
        }
        dtype_store(dtype, data, i, x);
    }
}

/* Checks that every CPU variant's result passes, compared whole and by samples and suspects. */
static void honest_case(int number) {
    static const char *const names[] = {"cpu", "blocked"};
    enum op op = (enum op)chance(OP_MAP); /* tests/e2e/test_map.py has maps */
    enum kind kind = (enum kind)chance(KINDS);
    enum dtype dtype = (enum dtype)chance(op == OP_MATMUL || chance(4) ? 4 : DTYPE_COUNT);
    struct op_options options = {.alpha = chance(3) ? ldexp(around(), (int)chance(80) - 40) : 1,
                                 .beta = chance(2) ? around() : 0,
                                 .transpose_a = chance(2),
                                 .transpose_b = chance(2),
                                 .axis = chance(3) ? (int)chance(2) : REDUCE_ALL_AXES};
    /* Products and norms only for plain inputs: how they stay in range is up to the variants. */
    static const enum reduce_operator operators[] = {REDUCE_SUM,    REDUCE_MIN,    REDUCE_MAX,  REDUCE_MEAN,
                                                     REDUCE_ARGMIN, REDUCE_ARGMAX, REDUCE_PROD, REDUCE_NORM2};
    options.reduce = operators[chance(kind == PLAIN ? 8 : 6)];
    if (!dtype_is_float(dtype)) options.alpha = (double)(chance(7) - 3), options.beta = (double)chance(100);
    int64_t m = 1 + chance(40), n = 1 + chance(70), k = 1 + chance(chance(4) ? 40 : 600);
    if (op != OP_MATMUL) k = n;
    struct shape a = {2, {options.transpose_a ? k : m, options.transpose_a ? m : k}};
    struct shape b = {2, {options.transpose_b ? n : k, options.transpose_b ? k : n}};
    struct fixture f;
    open_inputs(&f, op, options, dtype, a, b, around_zero);
    for (int i = 0; i < f.task.geometry.inputs; i++) {
        const int64_t *size = f.arrays[i].shape.size;
        void *data = malloc((size_t)(size[0] * size[1]) * 8 + 1);
        fill(kind, op, dtype, size[0], size[1], k, data);
        put_input(&f, i, data);
        free(data);
    }
    snprintf(f.resolved, sizeof f.resolved, "case %d", number);
    for (int variant = 0; variant < 2; variant++) {
        const struct kernel *kernel = kernel_find(op, names[variant]);
        if (!kernel) continue;
        f.kernel = *kernel;
        compute(&f);
        for (int verify = VERIFY_FULL; verify <= VERIFY_SAMPLED; verify++) {
            f.operation.run.verify = (enum job_verify)verify;
            if (passes(&f)) continue;
            fail_msg("case %d: %s %s of %s, %s data, %s, %s: %s", number, operations[op]->name, names[variant],
                     dtype_name(dtype), kind_names[kind], f.task.geometry.shape_text,
                     op == OP_REDUCE ? operation_operator(operations[op], &options) : "", f.verdict.message);
        }
    }
    close_fixture(&f);
}

/* Scores of counts, most of which are 0: a column has one number nearly everywhere, so that the roundings of a product
 * of two columns point one way. */
static void scores_of_counts(void **state) {
    enum { K = 700, N = 400 };
    static float scores[K * N];
    struct shape shape = {2, {K, N}};
    struct fixture f;
    for (int i = 0; i < K * N; i++)
        scores[i] = (float)(chance(12) ? -0.05 - 0.013 * (double)(i % N % 29) : 1 + 9 * fabs(around()));
    open_inputs(&f, OP_MATMUL, (struct op_options){.alpha = 1, .transpose_a = true}, FLOAT32, shape, shape,
                around_zero);
    for (int i = 0; i < 2; i++) put_input(&f, i, scores);
    for (int variant = 0; variant < 2; variant++) {
        f.kernel = *kernel_find(OP_MATMUL, variant ? "blocked" : "cpu");
        compute(&f);
        for (int verify = VERIFY_FULL; verify <= VERIFY_SAMPLED; verify++) {
            f.operation.run.verify = (enum job_verify)verify;
            if (!passes(&f)) fail_msg("%s: %s", f.kernel.name, f.verdict.message);
        }
    }
    close_fixture(&f);
}

static void honest_results_are_right(void **state) {
    const char *wanted = getenv("HONEST_CASES");
    int cases = wanted ? atoi(wanted) : 3000;
    for (int number = 0; number < cases; number++) honest_case(number);
}

/* Compares one element: is `out` right if a reduction of three elements is the truth? */
static bool passes_as(enum reduce_operator reduce, enum dtype dtype, const double terms[3], double out) {
    struct fixture f;
    open_inputs(&f, OP_REDUCE, (struct op_options){.reduce = reduce, .axis = 0}, dtype, (struct shape){1, {3}},
                (struct shape){1, {1}}, around_zero);
    double x[3];
    for (int i = 0; i < 3; i++) dtype_store(dtype, x, i, terms[i]);
    put_input(&f, 0, x);
    set(&f, 0, out);
    bool right = passes(&f);
    close_fixture(&f);
    return right;
}
static bool passes_as_sum(enum dtype dtype, double first, double second, double out) {
    return passes_as(REDUCE_SUM, dtype, (double[]){first, second, 0}, out);
}

/* The same for the sum of three products of an element and 1, times alpha. */
static bool passes_as_product(enum dtype dtype, double alpha, const double terms[3], double out) {
    struct fixture f;
    open_inputs(&f, OP_MATMUL, (struct op_options){.alpha = alpha}, dtype, (struct shape){2, {1, 3}},
                (struct shape){2, {3, 1}}, around_zero);
    double a[3], b[3];
    for (int i = 0; i < 3; i++) dtype_store(dtype, a, i, terms[i]), dtype_store(dtype, b, i, 1);
    put_input(&f, 0, a);
    put_input(&f, 1, b);
    set(&f, 0, out);
    bool right = passes(&f);
    close_fixture(&f);
    return right;
}

static void around_overflow(void **state) {
    assert_true(passes_as_sum(FLOAT16, 65504, 15, INFINITY)); /* 65520 becomes infinite; 65519 is one rounding away */
    assert_true(passes_as_sum(FLOAT16, 65504, 17, 65504));
    assert_true(passes_as_sum(FLOAT16, 65504, 17, INFINITY));
    assert_false(passes_as_sum(FLOAT16, 65504, 15, -INFINITY));
    assert_false(passes_as_sum(FLOAT16, 40000, 15, INFINITY));
    assert_false(passes_as_sum(FLOAT16, 65504, 32768, 65504));
    assert_false(passes_as_sum(FLOAT16, 65504, 15, NAN));
    assert_true(passes_as_sum(FLOAT32, 0x1.fffffep127, 0x1p102, INFINITY));
    assert_false(passes_as_sum(FLOAT32, 0x1p126, 0x1p100, INFINITY));
    assert_true(passes_as_sum(FLOAT64, 1.7e308, 1.7e308, INFINITY));
    assert_false(passes_as_sum(FLOAT64, 1.7e308, 1.7e308, 1.7e308));
    assert_false(passes_as_sum(FLOAT64, 1e308, -1.7e308, 1e307)); /* whatever the magnitude */
    assert_false(passes_as_sum(FLOAT64, INFINITY, 1, NAN));
    assert_false(passes_as_sum(FLOAT64, INFINITY, 1, 0x1.fffffffffffffp1023));
}

/* Next to an infinity, a finite part that overflows to the other side makes a NaN, and nothing else. */
static void overflow_beside_an_infinity(void **state) {
    static const enum reduce_operator sums[] = {REDUCE_SUM, REDUCE_MEAN};
    const double beyond[] = {DBL_MAX, DBL_MAX, -INFINITY}, within[] = {DBL_MAX / 4, DBL_MAX / 2, -INFINITY};
    for (int i = 0; i < 2; i++) {
        assert_true(passes_as(sums[i], FLOAT64, beyond, -INFINITY));
        assert_true(passes_as(sums[i], FLOAT64, beyond, NAN));
        assert_false(passes_as(sums[i], FLOAT64, beyond, INFINITY));
        assert_false(passes_as(sums[i], FLOAT64, beyond, DBL_MAX));
        assert_false(passes_as(sums[i], FLOAT64, within, NAN));
        assert_false(passes_as(sums[i], FLOAT32, (double[]){3e38, 3e38, -INFINITY}, NAN)); /* sums are in float64 */
    }
    for (enum reduce_operator one = REDUCE_MIN; one <= REDUCE_MAX; one++) {
        assert_false(passes_as(one, FLOAT64, beyond, NAN));
        assert_false(passes_as(one, FLOAT64, (double[]){DBL_MAX, DBL_MAX, DBL_MAX}, NAN));
    }
    assert_false(passes_as(REDUCE_NORM2, FLOAT64, beyond, NAN));
    for (enum dtype dtype = FLOAT32; dtype <= BFLOAT16; dtype++)
        for (int i = 0; i < 4; i++) {
            const double alpha = (double[]){1, -1, 1e-30, 1e30}[i], large = dtype_largest(dtype);
            const double terms[] = {large, large, -INFINITY}, infinite = copysign(INFINITY, -alpha);
            assert_true(passes_as_product(dtype, alpha, terms, infinite));
            assert_false(passes_as_product(dtype, alpha, terms, -infinite));
            assert_int_equal(passes_as_product(dtype, alpha, terms, NAN), dtype != FLOAT16); /* sums are in float32 */
            assert_false(passes_as_product(dtype, alpha, (double[]){1, large / 2, -INFINITY}, NAN));
        }
}

/* alpha times (1 - 1 + rest) in float32, alpha far beyond its range: the rounding of the sum may change the sign of the
 * infinity, if rest is as small as that. */
static void overflow_to_either_side(void **state) {
    for (int number = 0; number < 4; number++) {
        const double alpha = number % 2 ? -1e300 : 1e300, far = copysign(INFINITY, alpha);
        const bool small = number < 2;
        const float a[] = {1, 1}, b[] = {-1, small ? 0x1.000002p0F : 1.001F};
        struct fixture f;
        open_inputs(&f, OP_MATMUL, (struct op_options){.alpha = alpha}, FLOAT32, (struct shape){2, {1, 2}},
                    (struct shape){2, {2, 1}}, around_zero);
        put_input(&f, 0, a);
        put_input(&f, 1, b);
        const double outs[] = {far, -far, NAN};
        const bool right[] = {true, small, false};
        for (int i = 0; i < 3; i++) {
            set(&f, 0, outs[i]);
            assert_int_equal(passes(&f), right[i]);
        }
        close_fixture(&f);
    }
}

/* A transpose moves elements and keeps all their bits. */
static void transposes_keep_bits(void **state) {
    struct fixture f;
    open_inputs(&f, OP_TRANSPOSE, (struct op_options){0}, FLOAT32, (struct shape){2, {1, 3}}, (struct shape){1, {1}},
                around_zero);
    static const uint32_t bits[3] = {0x80000000, 0x7fc00001, 0x3f800000};
    put_input(&f, 0, bits);
    compute(&f);
    assert_true(passes(&f));
    ((uint32_t *)f.out)[0] = 0;
    assert_true(!passes(&f) && says(&f, "[0, 0] is 0, should be -0 with other bits"));
    ((uint32_t *)f.out)[0] = bits[0];
    ((uint32_t *)f.out)[1] = 0x7fc00000;
    assert_true(!passes(&f) && says(&f, "[1, 0] is nan, should be nan with other bits"));
    close_fixture(&f);
}

/* Factors beyond the type's range, applied to elements that bring the products back into range. */
static void scale_computes_in_float64(void **state) {
    for (int dtype = FLOAT32; dtype <= BFLOAT16; dtype++) {
        struct fixture f;
        double tiny = dtype == FLOAT16 ? 0x1p-20 : 1e-30, alpha = dtype == FLOAT16 ? 0x1p20 : 1e40;
        struct random_terms terms = {.low = tiny, .high = 2 * tiny};
        open_fixture(&f, OP_SCALE, (struct op_options){.alpha = alpha, .beta = -1e-50}, (enum dtype)dtype,
                     (struct shape){1, {1000}}, (struct shape){1, {1}}, terms);
        assert_true(passes(&f) && f.verdict.error == 0);
        assert_true(get(&f, 0) >= tiny * alpha * 0.99 && get(&f, 0) < tiny * alpha * 2.01);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_results_are_right),  cmocka_unit_test(scores_of_counts),
        cmocka_unit_test(around_overflow),           cmocka_unit_test(overflow_beside_an_infinity),
        cmocka_unit_test(overflow_to_either_side),   cmocka_unit_test(transposes_keep_bits),
        cmocka_unit_test(scale_computes_in_float64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
