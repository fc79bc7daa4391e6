/* test_truth.c - references of inputs that are longer than one run or one piece of them; and how far a result may be
 * off where bits are lost on the way. */
#include "../../kernels/core/reference.h"
#include "draws.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN 4096 /* elements that one thread takes at a time */

struct memory {
    const char *data[2];
    const struct geometry *geometry;
};

/* Reads a box of an array in memory, row by row. */
static enum status read_memory(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct memory *memory = context;
    const struct operand *operand = &memory->geometry->in[input];
    const int64_t size = (int64_t)dtype_size(operand->dtype), length = box->count[box->rank - 1];
    int64_t at[MAX_RANK] = {0};
    char *to = data;
    (void)error;
    for (int64_t left = box_elements(box); left > 0; left -= length, to += length * size) {
        int64_t place = 0;
        for (int axis = 0; axis < box->rank; axis++)
            place = place * operand->shape.size[axis] + box->start[axis] + at[axis];
        memcpy(to, memory->data[input] + place * size, (size_t)(length * size));
        for (int axis = box->rank - 2; axis >= 0 && ++at[axis] == box->count[axis]; axis--) at[axis] = 0;
    }
    return STATUS_OK;
}

static struct geometry geometry_of(enum op op, struct op_options options, const struct shape shapes[],
                                   enum dtype dtype) {
    struct geometry geometry;
    struct error error = {0};
    const enum dtype dtypes[2] = {dtype, dtype};
    if (operations[op]->geometry(&options, shapes, dtypes, &geometry, &error) != STATUS_OK) fail_msg("%s", error.text);
    return geometry;
}

/* Of the elements of `box`; to be freed. */
static struct truth truth_of(const struct geometry *geometry, const void *a, const void *b, const struct box *box) {
    struct memory memory = {{a, b}, geometry};
    struct host_reader reader = {.read = read_memory, .context = &memory};
    struct truth truth;
    struct error error = {0};
    assert_int_equal(truth_allocate(geometry, box_elements(box) + 1, &truth, &error), STATUS_OK);
    assert_int_equal(operations[geometry->op]->reference(geometry, &reader, box, &truth, &error), STATUS_OK);
    return truth;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

enum { MATRICES = 3, ROWS = 1024, COLUMNS = 700, ELEMENTS = MATRICES * ROWS * COLUMNS };

static void check_sums(const int32_t *x, int axis, const struct box *box) {
    static const int64_t size[3] = {MATRICES, ROWS, COLUMNS}, stride[3] = {ROWS * COLUMNS, COLUMNS, 1};
    const struct shape shape = {3, {MATRICES, ROWS, COLUMNS}};
    struct geometry g = geometry_of(OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM, .axis = axis}, &shape, INT32);
    const struct box all = box_whole(&g.out.shape);
    if (!box) box = &all;
    struct truth truth = truth_of(&g, x, NULL, box);
    const int outer = axis == 0, inner = axis == 2 ? 1 : 2;
    for (int64_t at = 0; at < box_elements(box); at++) {
        const int64_t i = box->start[0] + at / box->count[1], j = box->start[1] + at % box->count[1];
        int64_t sum = 0;
        for (int64_t k = 0; k < size[axis]; k++) sum += x[i * stride[outer] + j * stride[inner] + k * stride[axis]];
        if (truth.integer[at] != sum) fail_msg("axis %d, output %lld", axis, (long long)at);
    }
    truth_free(&truth);
}

/* Each piece adds to outputs of its own, of all or of a part. */
static void sums_are_read_in_pieces(void **state) {
    static const struct box parts[3] = {{2, {100, 50}, {900, 600}}, {2, {1, 50}, {2, 600}}, {2, {1, 100}, {2, 900}}};
    int32_t *x = malloc(ELEMENTS * sizeof *x);
    assert_true(x && ELEMENTS > 2 * PIECE_ELEMENTS);
    state_of_draws = 1;
    for (int i = 0; i < ELEMENTS; i++) x[i] = draw_below(1000000) - 500000;
    for (int axis = 0; axis < 3; axis++) {
        check_sums(x, axis, NULL);
        check_sums(x, axis, &parts[axis]);
    }
    free(x);
}

/* Columns whose means differ, read in several pieces. */
static void variances_of_many_columns(void **state) {
    enum { LONG = RUN + 300, WIDE = 1024 + 90 };
    const struct shape shape = {2, {LONG, WIDE}};
    float *x = malloc(sizeof *x * LONG * WIDE);
    assert_non_null(x);
    state_of_draws = 4;
    for (int i = 0; i < LONG * WIDE; i++) x[i] = (float)(10 * (i % WIDE) + draw());
    struct geometry g = geometry_of(OP_REDUCE, (struct op_options){.reduce = REDUCE_VAR, .axis = 0}, &shape, FLOAT32);
    const struct box all = box_whole(&g.out.shape);
    struct truth truth = truth_of(&g, x, NULL, &all);
    for (int c = 0; c < WIDE; c++) {
        double mean = 0, squares = 0;
        for (int r = 0; r < LONG; r++) mean += (double)x[r * WIDE + c] / LONG;
        for (int r = 0; r < LONG; r++) squares += ((double)x[r * WIDE + c] - mean) * ((double)x[r * WIDE + c] - mean);
        if (!(fabs(truth.value[c] / (squares / LONG) - 1) < 1e-9)) fail_msg("column %d: %g", c, truth.value[c]);
    }
    truth_free(&truth);
    free(x);
}

/* An error is measured by the terms, which may be of opposite signs. */
static void scaled_numbers_may_cancel(void **state) {
    enum { COUNT = 1000 };
    const struct shape shape = {1, {COUNT}};
    static double x[COUNT];
    state_of_draws = 5;
    for (int round = 0; round < 20; round++) {
        const double alpha = draw() - 0.5, beta = draw() - 0.5;
        for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? -beta / alpha : draw() - 0.5;
        struct op_options options = {.alpha = alpha, .beta = beta};
        struct geometry g = geometry_of(OP_SCALE, options, &shape, FLOAT64);
        const struct box all = box_whole(&shape);
        struct truth truth = truth_of(&g, x, NULL, &all);
        for (int i = 0; i < COUNT; i++)
            assert_true(truth.value[i] == fma(alpha, x[i], beta) &&
                        fabs(truth.magnitude[i] / (fabs(alpha * x[i]) + fabs(beta)) - 1) < 1e-15);
        truth_free(&truth);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A product that goes from 1 to 2^1000 (or 2^-1000), further by `beyond` and back to 1, in four steps at drawn places
 * of a row. Of several runs the exponents are known but for one or two. */
static void check_product(int count, bool up, int beyond) {
    static double x[4 * RUN + 100];
    const struct shape shape = {1, {count}};
    const struct box scalar = {0};
    struct geometry g = geometry_of(OP_REDUCE, (struct op_options){.reduce = REDUCE_PROD}, &shape, FLOAT64);
    const double relative = operations[OP_REDUCE]->tolerance(&g, ACCURACY_FULL).relative;
    const int far = up ? 1000 : -1000, steps[4] = {far, beyond, -beyond, -far};
    for (int i = 0; i < count; i++) x[i] = 1;
    for (int step = 0, at = 0; step < 4; step++, at++) {
        at += draw_below(draw_below(3) ? (count - at) / (4 - step) : 1); /* often next to the one before */
        x[at] = ldexp(1, steps[step]);
    }
    struct truth truth = truth_of(&g, x, NULL, &scalar);
    const int lost = up ? 0 : -1022 - (far + beyond); /* bits below float64's least normal number */
    const double factor = lost > 0 ? ldexp(DBL_EPSILON, lost < 52 ? lost : 52) / relative : 0;
    const double slack = count > RUN ? 4 : 1 + 1e-12, more = truth.magnitude[0] - 1;
    assert_true(truth.value[0] == 1 && more >= factor / slack && more <= factor * slack);
    assert_int_equal(truth.overflow[0], up && far + beyond >= 1024 ? OVERFLOW_ANY : OVERFLOW_NONE);
    truth_free(&truth);
}

/* Wherever it is that the running product leaves float64's range, in one run or over several. */
static void products_know_their_way(void **state) {
    static const int counts[] = {4, 100, RUN, RUN + 1, 2 * RUN, 4 * RUN + 100};
    state_of_draws = 2;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int trial = 0; trial < 8; trial++) {
            check_product(counts[i], true, 1 + draw_below(20));
            check_product(counts[i], true, 26 + draw_below(100));
            check_product(counts[i], false, -1 - draw_below(18));
            check_product(counts[i], false, -26 - draw_below(60));
        }
    for (int beyond = -19; beyond >= -80; beyond--) check_product(4, false, beyond); /* from no bit to all of them */
    for (int beyond = 20; beyond < 30; beyond++) check_product(4, true, beyond);
}

/* ---- rounding errors that point one way -------------------------------------------------------------------------- */

/* What the plainest loop loses makes the magnitude, where that is more than the products'. */
static void equal_products_drift(void **state) {
    enum { K = 60000 };
    static float a[K], b[K];
    const struct shape shapes[2] = {{2, {1, K}}, {2, {K, 1}}};
    const double alpha = -2;
    struct geometry g = geometry_of(OP_MATMUL, (struct op_options){.alpha = alpha}, shapes, FLOAT32);
    const struct box all = box_whole(&g.out.shape);
    const double relative = operations[OP_MATMUL]->tolerance(&g, ACCURACY_FULL).relative;
    for (int drifts = 0; drifts < 2; drifts++) {
        for (int i = 0; i < K; i++) a[i] = drifts ? 0.7F : 1, b[i] = drifts ? 0.1F : (float)(i % 2 ? 1 : -1);
        const double term = (double)a[1] * b[1], exact = drifts ? K * term : 0;
        float plain = 0;
        for (int i = 0; i < K; i++) plain = (float)(plain + (double)a[i] * b[i]);
        const double products = fabs(alpha) * K * term, drift = fabs(alpha) * 4 * fabs(plain - exact) / relative;
        assert_int_equal(drift > products, drifts);
        struct truth truth = truth_of(&g, a, b, &all);
        assert_true(fabs(truth.value[0] - alpha * exact) <= 1e-9 * fabs(exact));
        assert_true(fabs(truth.magnitude[0] / (drifts ? drift : products) - 1) < 1e-6);
        truth_free(&truth);
    }
}

/* Samples that mostly have one value, as z-scores of sparse counts have: an element whose plainest sum is exact by luck
 * is measured by what others in its column lose. */
static void columns_drift_together(void **state) {
    enum { K = 700, N = 64 };
    static double x[K][N];
    const struct shape shapes[2] = {{2, {K, N}}, {2, {K, N}}};
    struct geometry g = geometry_of(OP_MATMUL, (struct op_options){.alpha = 1, .transpose_a = true}, shapes, FLOAT64);
    const double relative = operations[OP_MATMUL]->tolerance(&g, ACCURACY_FULL).relative;
    state_of_draws = 5;
    for (int trial = 0; trial < 6; trial++) {
        for (int j = 0; j < N; j++) {
            const double usual = -(float)(0.05 + draw()), rare = (float)(1 + 4 * draw());
            for (int p = 0; p < K; p++) x[p][j] = draw_below(12) ? usual : (float)(rare * (1 + draw()));
        }
        const int column = draw_below(N);
        const struct box one = {2, {0, column}, {N, 1}};
        struct truth truth = truth_of(&g, x, x, &one);
        for (int i = 0; i < N; i++) {
            double panels = 0, backward = 0;
            for (int from = 0; from < K; from += 128) {
                double panel = 0;
                for (int p = from; p < from + 128 && p < K; p++) panel += x[p][i] * x[p][column];
                panels += panel;
            }
            for (int p = K - 1; p >= 0; p--) backward += x[p][i] * x[p][column];
            assert_true(fabs(panels - truth.value[i]) <= relative * truth.magnitude[i]);
            assert_true(fabs(backward - truth.value[i]) <= relative * truth.magnitude[i]);
        }
        truth_free(&truth);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_read_in_pieces),   cmocka_unit_test(variances_of_many_columns),
        cmocka_unit_test(scaled_numbers_may_cancel), cmocka_unit_test(products_know_their_way),
        cmocka_unit_test(equal_products_drift),      cmocka_unit_test(columns_drift_together),
    };
    return cmocka_run_group_tests_name("truth", tests, NULL, NULL);
}
