/* test_operation.c - shapes, types, loops and work of each operation; what they refuse and with which message; the
 * references, compared with small results computed by hand. */
#include "../../kernels/core/axes.h"
#include "../../kernels/core/map.h"
#include "../../kernels/core/reference.h"
#include "../../kernels/reduce/moments.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

DECLARE_KERNEL(reduce_cpu);
DECLARE_KERNEL(matmul_cpu);

#define SHAPE(...) ((struct shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static struct geometry good(enum op op, struct op_options options, const struct shape shapes[], enum dtype dtype) {
    struct geometry geometry;
    struct error error = {0};
    enum dtype dtypes[2] = {dtype, dtype};
    if (operations[op]->geometry(&options, shapes, dtypes, &geometry, &error) != STATUS_OK) fail_msg("%s", error.text);
    return geometry;
}

static void refused(enum op op, struct op_options options, const struct shape shapes[], const enum dtype dtypes[],
                    const char *text) {
    struct geometry geometry;
    struct error error = {0};
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &geometry, &error), STATUS_USAGE);
    assert_string_equal(error.text, text);
}

static void assert_shape(const struct operand *operand, const char *text) {
    char room[SHAPE_TEXT];
    assert_string_equal(shape_format(&operand->shape, room), text);
}

static void names(void **state) {
    static const struct kernel some_operators = {.op = OP_REDUCE,
                                                 .operators = REDUCE_BIT(REDUCE_PROD) | REDUCE_BIT(REDUCE_MEAN)};
    for (int op = 0; op < OP_COUNT; op++) assert_ptr_equal(operation_find(operations[op]->name), operations[op]);
    assert_null(operation_find("matmull"));
    for (int i = 0; i < REDUCE_OPERATOR_COUNT; i++) {
        struct op_options options = {.reduce = (enum reduce_operator)i};
        assert_ptr_equal(operation_operator(&operation_reduce, &options), operation_reduce.operators[i]);
        assert_int_equal(kernel_has_operator(&some_operators, &options), i == REDUCE_PROD || i == REDUCE_MEAN);
        assert_true(kernel_has_operator(&reduce_cpu, &options) && kernel_has_operator(&matmul_cpu, &options));
    }
    assert_string_equal(operation_reduce.operators[REDUCE_NORM2], "norm2");
    assert_null(operation_reduce.operators[REDUCE_OPERATOR_COUNT]);
    assert_null(operation_operator(&operation_scale, &(struct op_options){0}));
    for (int i = 0; i < kernel_count; i++)
        assert_ptr_equal(kernel_find(kernel_registry[i]->op, kernel_registry[i]->name), kernel_registry[i]);
    assert_null(kernel_find(OP_MATMUL, "padded"));
    for (int op = 0; op < OP_COUNT; op++) { /* no more names than there is room for */
        const char *known[MAX_KERNELS], *some[MAX_KERNELS + 1];
        const int all = kernel_names((enum op)op, known, MAX_KERNELS);
        assert_true(all > 0 && all < MAX_KERNELS);
        for (int most = 0; most <= all + 1; most++) {
            for (int i = 0; i <= most; i++) some[i] = "behind";
            const int count = kernel_names((enum op)op, some, most);
            assert_int_equal(count, most < all ? most : all);
            for (int i = 0; i < count; i++) assert_string_equal(some[i], known[i]);
            for (int i = count; i <= most; i++) assert_string_equal(some[i], "behind");
        }
    }
}

static void matmul_geometries(void **state) {
    struct geometry g = good(OP_MATMUL, (struct op_options){.transpose_a = true, .alpha = 1},
                             (struct shape[]){SHAPE(7, 5), SHAPE(7, 3)}, FLOAT16);
    assert_shape(&g.out, "5x3");
    assert_string_equal(g.shape_text, "5x3x7");
    assert_true(g.in[0].loop[0] == LOOP_K && g.in[0].loop[1] == LOOP_M && g.reduces[LOOP_K] && !g.reduces[LOOP_B]);
    assert_true(g.flops == 2 * 5 * 3 * 7 && g.bytes == 2 * (35 + 21 + 15) && g.partial_size == 4);

    g = good(OP_MATMUL, (struct op_options){.alpha = 1}, (struct shape[]){SHAPE(10, 2, 4), SHAPE(4, 3)}, FLOAT64);
    assert_shape(&g.out, "10x2x3");
    assert_string_equal(g.shape_text, "10x2x3x4");
    assert_true(g.extent[LOOP_B] == 10 && g.in[1].loop[0] == LOOP_K && g.partial_size == 0);
    assert_true(g.flops == 2 * 10 * 2 * 3 * 4 && g.bytes == 8 * (80 + 12 + 60));

    enum dtype floats[2] = {FLOAT32, FLOAT32};
    refused(OP_MATMUL, (struct op_options){0}, (struct shape[]){SHAPE(2, 3), SHAPE(4, 5)}, floats,
            "inner dimensions differ: 2x3 x 4x5 (3 and 4)");
    refused(OP_MATMUL, (struct op_options){.transpose_b = true}, (struct shape[]){SHAPE(2, 3), SHAPE(3, 5)}, floats,
            "inner dimensions differ: 2x3 x 3x5 transposed (3 and 5)");
    refused(OP_MATMUL, (struct op_options){0}, (struct shape[]){SHAPE(2, 2, 3), SHAPE(4, 3, 5)}, floats,
            "the stacks have different numbers of matrices: 2x2x3 x 4x3x5");
    refused(OP_MATMUL, (struct op_options){0}, (struct shape[]){SHAPE(3), SHAPE(3, 5)}, floats,
            "matmul takes matrices or stacks of them, input 1 has shape 3");
    refused(OP_MATMUL, (struct op_options){0}, (struct shape[]){SHAPE(2, 3), SHAPE(3, 5)},
            (enum dtype[]){FLOAT32, FLOAT64}, "matmul takes two inputs of one type, not float32 and float64");
    refused(OP_MATMUL, (struct op_options){0}, (struct shape[]){SHAPE(2, 3), SHAPE(3, 5)}, (enum dtype[]){INT32, INT32},
            "matmul takes float types, input 1 is int32: `dtype: float32` of the input converts it");
}

static void reduce_geometries(void **state) {
    struct shape shape = SHAPE(2, 3, 4);
    struct geometry g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM, .axis = -2}, &shape, UINT8);
    assert_shape(&g.out, "2x4");
    assert_true(g.out.dtype == UINT64 && g.options.axis == 1 && g.extent[LOOP_K] == 3 && g.extent[LOOP_M] == 1);
    assert_true(g.in[0].loop[1] == LOOP_K && g.out.loop[0] == LOOP_B && g.out.loop[1] == LOOP_N && !g.row_major_tiles);
    assert_true(g.partial_always && g.partial_size == sizeof(struct reduce_state) && g.bytes == 24 + 8 * 8);
    assert_string_equal(g.shape_text, "2x3x4");

    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MEAN, .axis = REDUCE_ALL_AXES}, &shape, INT32);
    assert_shape(&g.out, "scalar");
    assert_true(g.out.dtype == FLOAT64 && g.row_major_tiles && g.reduces[LOOP_B] && g.reduces[LOOP_M] &&
                g.reduces[LOOP_K]);
    struct tile tile = {.start = {1, 2, 0, 1}, .count = {1, 1, 1, 3}};
    struct launch launch = {0};
    operations[OP_REDUCE]->launch(&g, &tile, false, true, (const void *[]){NULL}, NULL, NULL, &launch);
    assert_true(launch.args.reduce.offset == (1 * 3 + 2) * 4 + 1 && launch.args.reduce.total == 24);
    assert_true(launch.args.reduce.length == 3 && launch.args.reduce.outer == 1 && launch.args.reduce.inner == 1);

    assert_true(good(OP_REDUCE, (struct op_options){.reduce = REDUCE_ARGMAX}, &shape, FLOAT16).out.dtype == INT64);
    assert_true(good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MAX}, &shape, UINT16).out.dtype == UINT16);
    assert_true(good(OP_REDUCE, (struct op_options){.reduce = REDUCE_NORM2}, &shape, FLOAT32).out.dtype == FLOAT32);
    enum dtype dtype = FLOAT32;
    refused(OP_REDUCE, (struct op_options){.axis = 3}, &shape, &dtype,
            "there is no axis 3 in shape 2x3x4: axes are numbered from 0");
    refused(OP_REDUCE, (struct op_options){.axis = -4}, &shape, &dtype,
            "there is no axis -4 in shape 2x3x4: axes are numbered from 0");
    refused(OP_REDUCE, (struct op_options){.reduce = REDUCE_MIN, .axis = 0}, &SHAPE(0, 3), &dtype,
            "min of nothing: the axis to reduce is empty in shape 0x3");
    good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MIN, .axis = 1}, &SHAPE(0, 3), FLOAT32);

    enum dtype types[2][2] = {{FLOAT32, INT32}, {INT32, FLOAT32}}; /* the first is the input's */
    struct op_options without_nan = {.reduce = REDUCE_MEAN, .skip_nan = true};
    for (int i = 0; i < 2; i++) {
        struct error error = {0};
        assert_int_equal(operation_reduce.geometry(&without_nan, &shape, types[i], &g, &error), STATUS_OK);
        assert_int_equal(g.partial_size, reduce_state_size(REDUCE_MEAN, i == 0));
    }
    assert_true(reduce_state_size(REDUCE_MEAN, true) != reduce_state_size(REDUCE_MEAN, false));
}

/* Names of inputs that fill the room but for what is added to them, or one more. */
static void long_names(void **state) {
    static const char before[] = "mean of ", behind[] = " over axis 1, without NaN";
    static const struct op_options options = {.reduce = REDUCE_MEAN, .axis = 1, .skip_nan = true};
    char name[LONG_NAME_TEXT + 1], made[LONG_NAME_TEXT], expected[LONG_NAME_TEXT + 64];
    const char *const in[] = {name};
    for (int left = -40; left <= 1; left++) {
        for (int reduces = 0; reduces < 2; reduces++) {
            int room = LONG_NAME_TEXT - 1 - (reduces ? (int)strlen(before) + (int)strlen(behind) : 0);
            memset(name, 'x', sizeof name);
            name[room + left] = '\0';
            const struct operation *operation = reduces ? &operation_reduce : &operation_transpose;
            assert_int_equal(operation->long_name(&options, in, made), left <= 0);
            snprintf(expected, sizeof expected, "%s%s%s", reduces ? before : "", name, reduces ? behind : "");
            if (left <= 0) assert_string_equal(made, expected);
        }
    }
    static const struct op_options lists[2] = {{.reduce = REDUCE_SUM, .axis_count = 1, .axes = {2}},
                                               {.reduce = REDUCE_SUM, .axis_count = 2, .axes = {0, 2}}};
    for (int i = 0; i < 2; i++) {
        assert_true(operation_reduce.long_name(&lists[i], (const char *[]){"load"}, made));
        assert_string_equal(made, i ? "sum of load over axes 0, 2" : "sum of load over axis 2");
    }
}

static void rearranged_axes(void **state) {
    static const struct {
        struct axes axes;
        bool rearranged;
    } known[] = {{{.rank = 2, .array_axis = {0, 1}, .size = {3, 4}}, false},
                 {{.rank = 3, .array_axis = {0, -1, 1}, .size = {3, 1, 4}}, false},
                 {{.rank = 3, .array_axis = {0, 2, 3}, .size = {1, 4, 5}}, false},
                 {{.rank = 2, .array_axis = {1, 0}, .size = {3, 4}}, true},
                 {{.rank = 3, .array_axis = {0, -1, 1}, .size = {3, 2, 4}}, true}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(operand_is_rearranged(&(struct operand){.axes = known[i].axes}), known[i].rearranged);
}

static void other_geometries(void **state) {
    struct geometry g = good(OP_TRANSPOSE, (struct op_options){0}, &SHAPE(5, 2, 3), INT16);
    assert_shape(&g.out, "5x3x2");
    assert_true(g.out.loop[1] == LOOP_N && g.out.loop[2] == LOOP_M && g.flops == 0 && g.bytes == 120);
    assert_string_equal(g.shape_text, "5x2x3");
    enum dtype dtype = INT16;
    refused(OP_TRANSPOSE, (struct op_options){0}, &SHAPE(5), &dtype,
            "transpose takes a matrix or a stack of them, the input has shape 5");

    g = good(OP_SCALE, (struct op_options){.alpha = 2, .beta = -1}, &SHAPE(5), INT16);
    assert_true(g.extent[LOOP_N] == 5 && g.in[0].loop[0] == LOOP_N && g.flops == 10 && g.bytes == 20);
    assert_string_equal(g.shape_text, "5");
    refused(OP_SCALE, (struct op_options){.alpha = 0.5}, &SHAPE(5), &dtype,
            "scale of int16 takes whole numbers that fit 64 bits, not alpha 0.5, beta 0: "
            "give its input `dtype: float64`");
    good(OP_SCALE, (struct op_options){.alpha = -0x1p63, .beta = 0x1p63 - 1024}, &SHAPE(5), INT16);
    refused(OP_SCALE, (struct op_options){.alpha = 0x1p63}, &SHAPE(5), &dtype,
            "scale of int16 takes whole numbers that fit 64 bits, not alpha 9.22337203685e+18, "
            "beta 0: give its input `dtype: float64`");
    good(OP_SCALE, (struct op_options){.alpha = 0.5}, &SHAPE(5), BFLOAT16);
}

/* Whatever was in the memory before. */
static void launches_say_what_they_are(void **state) {
    static const struct tile tile = {{0}, {1, 3, 3, 3}};
    static struct map sum = {.inputs = 2,
                             .count = 3,
                             .nodes = {{.function = MAP_INPUT, .operands = {-1, -1, -1}},
                                       {.function = MAP_INPUT, .operands = {-1, -1, -1}, .number = 1},
                                       {.function = MAP_ADD, .operands = {0, 1, -1}}}};
    for (int op = 0; op < OP_COUNT; op++)
        for (int dtype = FLOAT32; dtype <= BFLOAT16; dtype++) {
            struct geometry g = good((enum op)op, (struct op_options){.alpha = 1, .map = op == OP_MAP ? &sum : NULL},
                                     (struct shape[]){SHAPE(3, 3), SHAPE(3, 3)}, (enum dtype)dtype);
            struct launch launch;
            memset(&launch, 0x5a, sizeof launch);
            operations[op]->launch(&g, &tile, true, true, (const void *[]){NULL, NULL}, NULL, NULL, &launch);
            assert_true((int)launch.op == op && (int)launch.dtype == dtype);
        }
}

/* ---- references -------------------------------------------------------------------------------------------------- */

struct memory {
    const void *data[2];
    const struct geometry *geometry;
};

/* Reads boxes of small float32 or int32 arrays. */
static enum status read_memory(void *context, int input, const struct box *box, void *data, struct error *error) {
    (void)error;
    const struct memory *memory = context;
    const int32_t *from = memory->data[input];
    int32_t *to = data;
    int64_t start[3] = {0}, count[3] = {1, 1, 1}, size[3] = {1, 1, 1};
    for (int axis = 0, own = 3 - box->rank; own < 3; axis++, own++) {
        start[own] = box->start[axis], count[own] = box->count[axis];
        size[own] = memory->geometry->in[input].shape.size[axis];
    }
    for (int64_t b = 0; b < count[0]; b++)
        for (int64_t i = 0; i < count[1]; i++)
            for (int64_t j = 0; j < count[2]; j++)
                *to++ = from[((start[0] + b) * size[1] + start[1] + i) * size[2] + start[2] + j];
    return STATUS_OK;
}

struct results {
    double value[16], magnitude[16];
    unsigned char overflow[16];
    int64_t integer[16];
};

static struct results truth_of(const struct geometry *geometry, const void *a, const void *b, const struct box *box) {
    struct results results = {{0}, {0}, {false}, {0}};
    struct memory memory = {{a, b}, geometry};
    struct host_reader reader = {.read = read_memory, .context = &memory};
    struct truth truth = {results.value, results.magnitude, results.overflow, results.integer, NULL};
    struct error error = {0};
    assert_int_equal(operations[geometry->op]->reference(geometry, &reader, box, &truth, &error), STATUS_OK);
    return results;
}

static void references(void **state) {
    static const float a[6] = {1, -2, 3, 4, 5, -6}, b[6] = {1, 2, 3, 4, -5, 6};
    struct geometry g =
        good(OP_MATMUL, (struct op_options){.alpha = 2}, (struct shape[]){SHAPE(2, 3), SHAPE(3, 2)}, FLOAT32);
    struct box corner = {2, {1, 0}, {1, 2}};
    struct results r = truth_of(&g, a, b, &corner);
    assert_true(r.value[0] == 2 * (4 + 15 + 30) && r.value[1] == 2 * (8 + 20 - 36));
    assert_true(r.magnitude[0] == 2 * (4 + 15 + 30) && r.magnitude[1] == 2 * (8 + 20 + 36));

    g = good(OP_MATMUL, (struct op_options){.alpha = 1, .transpose_b = true},
             (struct shape[]){SHAPE(2, 3), SHAPE(2, 3)}, FLOAT32);
    struct box all = box_whole(&g.out.shape);
    r = truth_of(&g, a, b, &all);
    assert_true(r.value[0] == 1 - 4 + 9 && r.value[1] == 4 + 10 + 18 && r.value[3] == 16 - 25 - 36);

    g = good(OP_MATMUL, (struct op_options){.alpha = 1}, (struct shape[]){SHAPE(3, 1, 2), SHAPE(3, 2, 1)}, FLOAT32);
    struct box last = {3, {1, 0, 0}, {2, 1, 1}}; /* of a stack */
    r = truth_of(&g, a, b, &last);
    assert_true(r.value[0] == 9 + 16 && r.value[1] == -25 - 36);

    static const float nans[6] = {1, NAN, -3, 4, 5, NAN};
    struct box scalar = {0};
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_ARGMIN, .axis = REDUCE_ALL_AXES}, &SHAPE(2, 3), FLOAT32);
    assert_int_equal(truth_of(&g, nans, NULL, &scalar).integer[0], 1);
    assert_int_equal(truth_of(&g, a, NULL, &scalar).integer[0], 5);
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MAX, .axis = 0}, &SHAPE(2, 3), FLOAT32);
    struct box columns = {1, {1}, {2}};
    r = truth_of(&g, nans, NULL, &columns);
    assert_true(isnan(r.value[0]) && isnan(r.value[1]));
    r = truth_of(&g, a, NULL, &columns);
    assert_true(r.value[0] == 5 && r.value[1] == 3);
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MEAN, .axis = 1}, &SHAPE(2, 3), FLOAT32);
    struct box rows = box_whole(&g.out.shape);
    r = truth_of(&g, a, NULL, &rows);
    assert_true(fabs(r.value[0] - 2.0 / 3) < 1e-15 && r.magnitude[0] == 2 && r.value[1] == 1 && r.magnitude[1] == 5);

    static const int32_t integers[4] = {INT32_MAX, INT32_MAX, -7, 2};
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM, .axis = 0}, &SHAPE(4), INT32);
    assert_true(truth_of(&g, integers, NULL, &scalar).integer[0] == 2 * (int64_t)INT32_MAX - 5);
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_NORM2, .axis = 0}, &SHAPE(0), INT32);
    assert_true(truth_of(&g, integers, NULL, &scalar).value[0] == 0);
    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_MEAN, .axis = 0}, &SHAPE(0), INT32);
    assert_true(isnan(truth_of(&g, integers, NULL, &scalar).value[0]));

    g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_PROD, .axis = 0}, &SHAPE(0), INT32);
    assert_true(truth_of(&g, integers, NULL, &scalar).integer[0] == 1);

    /* What a running product loses on its way: bits below float64's least number, all of it beyond the largest. */
    static const float lost[20] = {0x1p-120f, 0x1p-120f, 0x1p-120f, 0x1p-120f, 0x1p-120f, 0x1p-120f, 0x1p-120f,
                                   0x1p-120f, 0x1p-120f, 0x1p-120f, 0x1p120f,  0x1p120f,  0x1p120f,  0x1p120f,
                                   0x1p120f,  0x1p120f,  0x1p120f,  0x1p120f,  0x1p120f,  0x1p120f};
    static const float beyond[10] = {0x1p127f, 0x1p127f, 0x1p127f, 0x1p127f, 0x1p127f,
                                     0x1p127f, 0x1p127f, 0x1p127f, 0x1p8f,   0x1p-8f};
    const struct op_options product = {.reduce = REDUCE_PROD, .axis = 0};
    g = good(OP_REDUCE, product, &SHAPE(20), FLOAT32);
    r = truth_of(&g, lost, NULL, &scalar);
    assert_true(r.value[0] == 1 && r.magnitude[0] > 1e6 && r.overflow[0] == OVERFLOW_NONE);
    r = truth_of(&g, (const float[20]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL, &scalar);
    assert_true(r.value[0] == 1 && r.magnitude[0] == 1 && r.overflow[0] == OVERFLOW_NONE);
    g = good(OP_REDUCE, product, &SHAPE(10), FLOAT32);
    r = truth_of(&g, beyond, NULL, &scalar); /* 2^1016, then 2^1024, which is none of float64's, then 2^1016 again */
    assert_true(r.value[0] == 0x1p1016 && r.magnitude[0] == r.value[0] && r.overflow[0] == OVERFLOW_ANY);

    g = good(OP_TRANSPOSE, (struct op_options){0}, &SHAPE(2, 2), INT32);
    struct box square = box_whole(&g.out.shape);
    r = truth_of(&g, integers, NULL, &square);
    assert_true((int32_t)r.integer[1] == -7 && r.integer[2] == INT32_MAX);
    g = good(OP_SCALE, (struct op_options){.alpha = 2, .beta = 3}, &SHAPE(2, 2), INT32);
    r = truth_of(&g, integers, NULL, &square);
    assert_true(r.integer[0] == 1 && r.integer[2] == -11);
}

/* Of sums that may leave their type's range; and room that is given back. */
static void truths(void **state) {
    struct geometry g = good(OP_REDUCE, (struct op_options){.axis = 0}, &SHAPE(4), FLOAT32);
    struct truth truth;
    struct error error = {0};
    assert_int_equal(truth_allocate(&g, 2, &truth, &error), STATUS_OK);
    truth_set(&truth, 0, 1, 90, 100);
    truth_set(&truth, 1, 1, 1000, 100); /* what does not overflow has stayed below 100 */
    assert_true(truth.value[0] == 1 && truth.overflow[0] == OVERFLOW_NONE && truth.magnitude[0] == 90);
    assert_true(truth.value[1] == 1 && truth.overflow[1] == OVERFLOW_ANY && truth.magnitude[1] == 100);
    for (int i = 0; i < 2; i++) truth_free(&truth); /* whoever could not fill it may free it once more */
}

/* Reads a part of a row of float64. */
static enum status read_row(void *context, int input, const struct box *box, void *data, struct error *error) {
    (void)input, (void)error;
    memcpy(data, (const double *)context + box->start[0], (size_t)box->count[0] * sizeof(double));
    return STATUS_OK;
}

/* Sums of which a part, but not the result, is beyond float64's range, or a part of its squares below it. */
static void truths_have_more_range(void **state) {
    enum { COUNT = 128 };
    const struct box scalar = {0};
    double row[COUNT];
    struct results results = {.value = {0}};
    struct host_reader reader = {.read = read_row, .context = row};
    struct truth truth = {results.value, results.magnitude, results.overflow, results.integer, NULL};
    struct error error = {0};
    for (int i = 0; i < COUNT; i++) row[i] = 0x1p-540;
    struct geometry g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_NORM2}, &SHAPE(COUNT), FLOAT64);
    assert_int_equal(operation_reduce.reference(&g, &reader, &scalar, &truth, &error), STATUS_OK);
    assert_true(fabs(results.value[0] / 0x1p-540 - sqrt(COUNT)) < 1e-12);
    memset(row, 0, sizeof row);
    for (int lane = 1; lane < COUNT / 2; lane *= 2) { /* however many sums there are at once */
        row[0] = -(0x1p1021 + 0x1.8p971),
        row[lane] = DBL_MAX; /* their sum, without the first, is rounded to infinity */
        g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM}, &SHAPE(COUNT), FLOAT64);
        assert_int_equal(operation_reduce.reference(&g, &reader, &scalar, &truth, &error), STATUS_OK);
        assert_true(results.value[0] == row[0] + DBL_MAX);
        row[lane] = 0;
    }
}

/* A stack that is read in pieces, each with matrices of its own. */
static void a_stack_is_transposed_in_pieces(void **state) {
    enum { ROWS = 1024, COLUMNS = 700, ELEMENTS = 3 * ROWS * COLUMNS };
    struct geometry g = good(OP_TRANSPOSE, (struct op_options){0}, &SHAPE(3, ROWS, COLUMNS), INT32);
    struct box all = box_whole(&g.out.shape);
    int32_t *from = malloc(ELEMENTS * sizeof *from);
    struct memory memory = {{from}, &g};
    struct host_reader reader = {.read = read_memory, .context = &memory};
    struct truth truth;
    struct error error = {0};
    assert_true(from && ELEMENTS > PIECE_ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) from[i] = i;
    assert_int_equal(truth_allocate(&g, ELEMENTS, &truth, &error), STATUS_OK);
    assert_int_equal(operation_transpose.reference(&g, &reader, &all, &truth, &error), STATUS_OK);
    for (int i = 0; i < ELEMENTS; i++) {
        int row = i / COLUMNS % ROWS, column = i % COLUMNS, matrix = i / (ROWS * COLUMNS);
        if (truth.integer[(matrix * COLUMNS + column) * ROWS + row] != i) fail_msg("element %d", i);
    }
    truth_free(&truth);
    free(from);
}

/* Other modules ask an operation for these facts instead of testing which operation it is. */
static void what_they_state(void **state) {
    for (int op = 0; op < OP_COUNT; op++) {
        const struct operation *operation = operations[op];
        assert_true(operation->inputs >= 1 && operation->inputs <= MAX_INPUTS);
        assert_true(!operation->operators == !operation->operator_of);
        assert_true((operation->rate == RATE_FLOPS) == (op == OP_MATMUL) && !operation->product == (op != OP_MATMUL));
    }
    assert_true(operation_matmul.product(&(struct op_options){.alpha = -3}) == -3);
    struct geometry g = good(OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM}, &SHAPE(100), FLOAT64), h = g;
    h.options.reduce = REDUCE_VAR; /* is off by more than a sum, and not by much more */
    double of_sum = operation_reduce.tolerance(&g, ACCURACY_FULL).relative,
           of_var = operation_reduce.tolerance(&h, ACCURACY_FULL).relative;
    assert_true(of_sum > 0 && of_var > of_sum && of_var < 2 * of_sum && of_var < 1e-13);
    for (int i = 0; i < REDUCE_OPERATOR_COUNT * DTYPE_COUNT; i++) { /* what is selected and what is integral is exact */
        enum reduce_operator operator_ = (enum reduce_operator)(i / DTYPE_COUNT);
        g = good(OP_REDUCE, (struct op_options){.reduce = operator_}, &SHAPE(100), (enum dtype)(i % DTYPE_COUNT));
        struct tolerance tolerance = operation_reduce.tolerance(&g, ACCURACY_FULL);
        bool exact = operator_ == REDUCE_MIN || operator_ == REDUCE_MAX || !dtype_is_float(g.out.dtype);
        assert_true(exact ? tolerance.relative == 0 && tolerance.absolute == 0
                          : tolerance.relative > 0 && tolerance.absolute > 0);
    }
    /* Classes below full add twice what rounding costs, half the spacing of numbers, or cutting off. */
    g = good(OP_MATMUL, (struct op_options){.alpha = 1}, (struct shape[]){SHAPE(9, 9), SHAPE(9, 9)}, FLOAT32);
    double full = operation_matmul.tolerance(&g, ACCURACY_FULL).relative,
           lost[ACCURACY_COUNT] = {[ACCURACY_TF32] = 2 * dtype_epsilon(FLOAT16), /* as many bits */
                                   [ACCURACY_FLOAT16] = dtype_epsilon(FLOAT16),
                                   [ACCURACY_BFLOAT16] = dtype_epsilon(BFLOAT16)};
    for (int accuracy = 0; accuracy < ACCURACY_COUNT; accuracy++)
        assert_true(operation_matmul.tolerance(&g, (enum accuracy)accuracy).relative == full + lost[accuracy]);
    char units[UNITS_TEXT];
    assert_true(operation_reduce.unit(&(struct op_options){.reduce = REDUCE_SUM}, (const char *[]){"m"}, units));
    assert_string_equal(units, "m");
    assert_false(operation_reduce.unit(&(struct op_options){.reduce = REDUCE_PROD}, (const char *[]){"m"}, units));
    for (int large = 0; large < 8; large++) { /* any side that 32 bits do not count */
        int64_t sides[2] = {INT32_MAX, INT64_C(1) << 31};
        struct launch launch = {
            .args.matmul = {.m = sides[large & 1], .n = sides[large >> 1 & 1], .k = sides[large >> 2]}};
        assert_int_equal(kernel_find(OP_MATMUL, "blas")->refuses(&launch) != NULL, large > 0);
    }
    /* A quarter of a wave takes as long as a whole wave, one and a half waves as long as two; parts of k fill and drain
     * the pipeline. */
    int64_t tile[LOOPS] = {1, 256, 512, 1000}, one[LOOPS] = {1, 1, 1, 1}, split[LOOPS] = {1, 1, 1, 2};
    assert_true(operation_matmul.slowdown(tile, one, 16, 1) == 4);
    assert_true(operation_matmul.slowdown(tile, one, 1, 1) == 1);
    tile[LOOP_M] = 384;
    assert_true(fabs(operation_matmul.slowdown(tile, one, 4, 1) - 4.0 / 3) < 1e-15);
    tile[LOOP_M] = 256;
    assert_true(fabs(operation_matmul.slowdown(tile, split, 4, 2) - 1.4) < 1e-15);
}

static void shapes_and_boxes(void **state) {
    char text[SHAPE_TEXT];
    struct shape scalar = {0}, large = SHAPE(INT64_C(1) << 20, INT64_C(1) << 20);
    assert_string_equal(shape_format(&scalar, text), "scalar");
    assert_true(shape_elements(&scalar) == 1 && shape_elements(&large) == INT64_C(1) << 40);
    struct box whole = box_whole(&large), part = whole;
    assert_true(box_equal(&whole, &part));
    part.start[1] = 1;
    assert_false(box_equal(&whole, &part));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(matmul_geometries),
        cmocka_unit_test(reduce_geometries),
        cmocka_unit_test(other_geometries),
        cmocka_unit_test(long_names),
        cmocka_unit_test(rearranged_axes),
        cmocka_unit_test(launches_say_what_they_are),
        cmocka_unit_test(references),
        cmocka_unit_test(truths),
        cmocka_unit_test(truths_have_more_range),
        cmocka_unit_test(a_stack_is_transposed_in_pieces),
        cmocka_unit_test(what_they_state),
        cmocka_unit_test(shapes_and_boxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
