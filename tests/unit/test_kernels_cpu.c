/* test_kernels_cpu.c - compares every CPU variant in the registry with its operation's reference: all types and
 * operators, shapes around tile sizes, empty shapes, stacks; each of them whole and cut into tiles, reductions in
 * several launches. */
#include "../../kernels/core/cpu.h"
#include "../../kernels/core/operation.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- arrays in memory -------------------------------------------------------------------------------------------- */

struct array {
    const struct operand *operand;
    char *data;
};
struct arrays {
    struct array in[2], out;
};

static void *aligned(size_t bytes) {
    void *memory = aligned_alloc(256, (bytes + 511) / 256 * 256);
    assert_non_null(memory);
    return memory;
}

/* Copies a box between an array and packed memory, element by element: slow, and obviously right. */
static void copy_box(const struct array *array, const struct box *box, char *packed, bool to_array) {
    size_t size = dtype_size(array->operand->dtype);
    int64_t at[MAX_RANK] = {0};
    for (int64_t e = 0, elements = box_elements(box); e < elements; e++) {
        int64_t index = 0;
        for (int axis = 0; axis < box->rank; axis++)
            index = index * array->operand->shape.size[axis] + box->start[axis] + at[axis];
        char *element = array->data + (size_t)index * size, *other = packed + (size_t)e * size;
        if (to_array)
            memcpy(element, other, size);
        else
            memcpy(other, element, size);
        for (int axis = box->rank - 1; axis >= 0 && ++at[axis] == box->count[axis]; axis--) at[axis] = 0;
    }
}

static enum status read_input(void *context, int input, const struct box *box, void *data, struct error *error) {
    (void)error;
    struct arrays *arrays = context;
    copy_box(&arrays->in[input], box, data, false);
    return STATUS_OK;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Floats within about [-1, 1], with few different values so that there are ties; integers of any bits. */
static void fill(const struct array *array, uint64_t seed) {
    enum dtype dtype = array->operand->dtype;
    for (int64_t i = 0, count = shape_elements(&array->operand->shape); i < count; i++) {
        uint64_t x = next_random(&seed);
        if (dtype_is_float(dtype))
            dtype_store(dtype, array->data, i, (double)(int64_t)(x % 2001) * 1e-3 - 1);
        else
            dtype_store_integer(dtype, array->data, i, (int64_t)x);
    }
}

/* ---- a run over tiles -------------------------------------------------------------------------------------------- */

static struct box tile_box(const struct operand *operand, const struct tile *tile) {
    struct box box = {.rank = operand->shape.rank};
    for (int axis = 0; axis < box.rank; axis++) {
        box.start[axis] = tile->start[operand->loop[axis]];
        box.count[axis] = tile->count[operand->loop[axis]];
    }
    return box;
}

static void launch_tile(const struct kernel *kernel, const struct geometry *geometry, const struct tile *tile,
                        struct arrays *arrays, const bool ends[2], char *const packed[4], void *workspace) {
    const void *in[2] = {packed[0], packed[1]};
    for (int i = 0; i < geometry->inputs; i++) {
        struct box box = tile_box(&geometry->in[i], tile);
        copy_box(&arrays->in[i], &box, packed[i], false);
    }
    struct launch launch = {.multiprocessors = 2};
    operations[geometry->op]->launch(geometry, tile, ends[0], ends[1], in, packed[2], packed[3], &launch);
    launch.workspace = workspace;
    assert_int_equal(kernel->launch(&launch), 0);
    if (!ends[1]) return;
    struct box box = tile_box(&geometry->out, tile);
    copy_box(&arrays->out, &box, packed[3], true);
}

/* The workspace of a run whose largest tile has these sizes. */
static void *open_workspace(const struct kernel *kernel, const struct geometry *geometry, const int64_t step[LOOPS]) {
    struct tile tile = {{0}, {0}};
    struct launch launch = {.multiprocessors = 2};
    const void *const nowhere[2] = {NULL, NULL};
    memcpy(tile.count, step, sizeof tile.count);
    operations[geometry->op]->launch(geometry, &tile, true, true, nowhere, NULL, NULL, &launch);
    size_t bytes = kernel_workspace(kernel, &launch);
    return bytes ? memset(aligned(bytes), 0, bytes) : NULL;
}

/* Runs the kernel over the whole output, or over ragged tiles: thirds and a remainder. */
static void run_tiles(const struct kernel *kernel, const struct geometry *geometry, bool cut, struct arrays *arrays) {
    int64_t step[LOOPS], count[LOOPS], steps = 1;
    for (int loop = 0; loop < LOOPS; loop++) {
        int64_t extent = geometry->extent[loop];
        bool may_cut = !geometry->row_major_tiles || (enum loop)loop == geometry->in[0].loop[0];
        step[loop] = cut && may_cut ? extent / 3 + 1 : extent;
        count[loop] = extent ? (extent + step[loop] - 1) / step[loop] : geometry->reduces[loop];
        steps *= count[loop];
    }
    int64_t out = shape_elements(&geometry->out.shape);
    char *packed[4] = {NULL, NULL, aligned((size_t)out * (geometry->partial_size + 16)), aligned((size_t)out * 8)};
    for (int i = 0; i < geometry->inputs; i++)
        packed[i] = aligned((size_t)shape_elements(&geometry->in[i].shape) * dtype_size(geometry->in[i].dtype));
    void *workspace = open_workspace(kernel, geometry, step);
    for (int64_t number = 0; number < steps; number++) {
        struct tile tile;
        bool ends[2] = {true, true};
        int64_t rest = number;
        for (int loop = LOOPS - 1; loop >= 0; loop--) {
            int64_t i = rest % count[loop], extent = geometry->extent[loop];
            rest /= count[loop];
            tile.start[loop] = i * step[loop];
            tile.count[loop] = step[loop] < extent - i * step[loop] ? step[loop] : extent - i * step[loop];
            if (!geometry->reduces[loop]) continue;
            ends[0] = ends[0] && i == 0;
            ends[1] = ends[1] && i == count[loop] - 1;
        }
        launch_tile(kernel, geometry, &tile, arrays, ends, packed, workspace);
    }
    free(workspace);
    for (int i = 0; i < 4; i++) free(packed[i]);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool is_right(const struct geometry *geometry, const struct array *out, const struct truth *truth, int64_t i) {
    enum dtype dtype = geometry->out.dtype;
    if (truth->integer) { /* bits */
        static const enum dtype of_size[9] = {[1] = UINT8, [2] = UINT16, [4] = UINT32, [8] = UINT64};
        enum dtype bits = operations[geometry->op]->exact ? of_size[dtype_size(dtype)] : dtype;
        return dtype_load_integer(bits, out->data, i) == truth->integer[i];
    }
    double got = dtype_load(dtype, out->data, i), rounded;
    uint64_t room;
    dtype_store(dtype, &room, 0, truth->value[i]);
    rounded = dtype_load(dtype, &room, 0);
    if (got == rounded || (isnan(got) && isnan(rounded))) return true;
    struct tolerance tolerance = operations[geometry->op]->tolerance(geometry, ACCURACY_FULL);
    double most = tolerance.relative * truth->magnitude[i] + tolerance.absolute;
    return fabs(got - truth->value[i]) <= most && isfinite(got) && isfinite(rounded);
}

static struct launch whole_launch(const struct geometry *geometry) {
    struct launch launch = {.multiprocessors = 2};
    struct tile tile = {{0}, {0}};
    const void *const nowhere[2] = {NULL, NULL};
    memcpy(tile.count, geometry->extent, sizeof tile.count);
    operations[geometry->op]->launch(geometry, &tile, true, true, nowhere, NULL, NULL, &launch);
    return launch;
}

/* Checks one operation on given inputs with every CPU variant that takes them, whole and in tiles. */
static void check_variants(enum op op, const struct geometry *geometry, struct arrays *arrays) {
    size_t out = (size_t)shape_elements(&geometry->out.shape) + 1;
    struct host_reader reader = {.read = read_input, .context = arrays};
    struct box box = box_whole(&geometry->out.shape);
    struct error error = {0};
    struct truth truth;
    assert_int_equal(truth_allocate(geometry, (int64_t)out, &truth, &error), STATUS_OK);
    assert_int_equal(operations[op]->reference(geometry, &reader, &box, &truth, &error), STATUS_OK);
    for (int v = 0; v < kernel_count; v++) {
        const struct kernel *kernel = kernel_registry[v];
        if (kernel->op != op || kernel->device != DEVICE_CPU || !(kernel->dtypes & DTYPE_BIT(geometry->in[0].dtype)) ||
            !kernel_has_operator(kernel, &geometry->options))
            continue;
        const struct launch launch = whole_launch(geometry);
        if (kernel_refusal(kernel, &launch)) continue;
        for (int cut = 0; cut < 2; cut++) {
            memset(arrays->out.data, 0xa5, out * dtype_size(geometry->out.dtype));
            run_tiles(kernel, geometry, cut, arrays);
            for (int64_t i = 0; i < box_elements(&box); i++)
                if (!is_right(geometry, &arrays->out, &truth, i))
                    fail_msg("%s %s%s %s %s %s %s: element %lld is %g, should be %g", operations[op]->name,
                             op == OP_REDUCE ? operation_operator(operations[op], &geometry->options) : "",
                             geometry->options.skip_nan ? " skip_nan" : "", kernel->name,
                             dtype_name(geometry->in[0].dtype), geometry->shape_text, cut ? "in tiles" : "whole",
                             (long long)i, dtype_load(geometry->out.dtype, arrays->out.data, i),
                             truth.value ? truth.value[i] : dtype_load(geometry->out.dtype, &truth.integer[i], 0));
        }
    }
    truth_free(&truth);
}

/* `spoil`: put NaNs and infinities among the inputs. */
static void check(enum op op, const struct op_options *options, const struct shape shapes[], enum dtype dtype,
                  bool spoil) {
    struct geometry geometry;
    struct error error = {0};
    enum dtype dtypes[2] = {dtype, dtype};
    if (operations[op]->geometry(options, shapes, dtypes, &geometry, &error) != STATUS_OK) fail_msg("%s", error.text);
    struct arrays arrays = {.out = {&geometry.out, aligned((size_t)shape_elements(&geometry.out.shape) * 8)}};
    for (int i = 0; i < geometry.inputs; i++) {
        int64_t elements = shape_elements(&shapes[i]);
        arrays.in[i] = (struct array){&geometry.in[i], aligned((size_t)elements * 8)};
        fill(&arrays.in[i], 17u + (unsigned)i);
        if (!spoil || elements < 4) continue;
        dtype_store(dtype, arrays.in[i].data, elements / 2, NAN);
        dtype_store(dtype, arrays.in[i].data, elements / 3, INFINITY);
        dtype_store(dtype, arrays.in[i].data, elements - 1, NAN);
    }
    check_variants(op, &geometry, &arrays);
    for (int i = 0; i < 2; i++) free(arrays.in[i].data);
    free(arrays.out.data);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

/* Sizes around the register tiles (6 and 12 rows, 8 to 32 columns) and the depth of a panel (256), primes, and 0. */
static void matmul_of_all_shapes(void **state) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {5, 7, 3},   {6, 16, 256},  {11, 31, 255}, {12, 32, 257},
                                       {13, 33, 64}, {1, 67, 41}, {67, 1, 41},   {37, 29, 600}, {0, 5, 7},
                                       {5, 0, 7},    {5, 7, 0},   {97, 1030, 9}, {970, 41, 5}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int dtype = FLOAT32; dtype <= BFLOAT16; dtype++)
            for (int turned = 0; turned < 4; turned++) {
                int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                struct op_options options = {.transpose_a = turned & 1, .transpose_b = turned & 2, .alpha = 1.5};
                struct shape shapes[2] = {{2, {m, k}}, {2, {k, n}}};
                if (options.transpose_a) shapes[0] = (struct shape){2, {k, m}};
                if (options.transpose_b) shapes[1] = (struct shape){2, {n, k}};
                check(OP_MATMUL, &options, shapes, (enum dtype)dtype, s == 3);
            }
}

static void matmul_of_stacks(void **state) {
    static const struct shape shapes[][2] = {{{3, {3, 13, 40}}, {3, {3, 40, 21}}},
                                             {{3, {3, 13, 40}}, {2, {40, 21}}},
                                             {{2, {13, 40}}, {3, {3, 40, 21}}},
                                             {{3, {0, 4, 5}}, {3, {0, 5, 6}}}};
    struct op_options options = {.alpha = 1};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = FLOAT32; dtype <= BFLOAT16; dtype++)
            check(OP_MATMUL, &options, shapes[s], (enum dtype)dtype, false);
}

static void check_reduce(const struct shape *shape, enum dtype dtype, bool spoil) {
    for (int operator_ = 0; operator_ < REDUCE_OPERATOR_COUNT; operator_++)
        for (int axis = 0; axis <= shape->rank; axis++) {
            bool all = axis == shape->rank;
            bool selects = (REDUCE_BIT(operator_) & (REDUCE_BIT(REDUCE_MIN) | REDUCE_BIT(REDUCE_MAX) |
                                                     REDUCE_BIT(REDUCE_ARGMIN) | REDUCE_BIT(REDUCE_ARGMAX))) != 0;
            if (selects && (all ? shape_elements(shape) : shape->size[axis]) == 0) continue;
            for (int skips = 0; skips < 2; skips++) {
                struct op_options options = {.reduce = (enum reduce_operator)operator_,
                                             .axis = all ? REDUCE_ALL_AXES : axis,
                                             .ddof = axis / 2.0,
                                             .skip_nan = skips};
                check(OP_REDUCE, &options, shape, dtype, spoil);
            }
        }
}

static void reduce_of_all_shapes(void **state) {
    static const struct shape shapes[] = {
        {1, {1}},    {1, {63}},      {1, {64}},        {1, {65}},         {1, {4099}},    {1, {70001}},
        {1, {0}},    {2, {1, 9}},    {2, {9, 1}},      {2, {17, 257}},    {2, {1030, 3}}, {2, {0, 4}},
        {2, {4, 0}}, {3, {3, 5, 7}}, {3, {2, 1, 129}}, {3, {2, 1025, 2}}, {3, {2, 0, 3}}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) check_reduce(&shapes[s], (enum dtype)dtype, false);
}

static void reduce_keeps_nan(void **state) {
    static const struct shape shapes[] = {{1, {1000}}, {2, {65, 70}}, {3, {3, 5, 70}}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = FLOAT32; dtype <= BFLOAT16; dtype++) check_reduce(&shapes[s], (enum dtype)dtype, true);
}

/* Columns that take a step from 0 to a number, after which rounding errors of equal deviations would point one way. */
static void variances_of_steps(void **state) {
    enum { ROWS = 1024, COLUMNS = 256 };
    static const int places[] = {1, 2, 3, 8, 64, 100, 200, 512};
    const struct shape shape = {2, {ROWS, COLUMNS}};
    const enum dtype dtype = FLOAT64;
    for (size_t p = 0; p < 2 * sizeof places / sizeof *places; p++) {
        struct op_options options = {.reduce = p % 2 ? REDUCE_STD : REDUCE_VAR};
        struct geometry geometry;
        struct error error = {0};
        assert_int_equal(operations[OP_REDUCE]->geometry(&options, &shape, &dtype, &geometry, &error), STATUS_OK);
        double *x = aligned(ROWS * COLUMNS * sizeof *x), step[COLUMNS];
        struct arrays arrays = {.in = {{&geometry.in[0], (char *)x}}, .out = {&geometry.out, aligned(COLUMNS * 8)}};
        uint64_t seed = p;
        for (int c = 0; c < COLUMNS; c++) step[c] = 1 + (double)(next_random(&seed) >> 12) * 0x1p-52;
        for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = i / COLUMNS < places[p / 2] ? 0 : step[i % COLUMNS];
        check_variants(OP_REDUCE, &geometry, &arrays);
        free(x);
        free(arrays.out.data);
    }
}

/* Of zeros of both signs the least is -0 and the largest +0, in whatever order they come. */
static void check_zeros(const struct kernel *kernel, enum reduce_operator operator_, enum dtype dtype, int axis) {
    enum { FEW = 3, MANY = 70 };
    struct shape shape = {2, {axis ? MANY : FEW, axis ? FEW : MANY}};
    struct op_options options = {.reduce = operator_, .axis = axis};
    struct geometry geometry;
    struct error error = {0};
    uint64_t seed = 3;
    bool minus[FEW * MANY];
    assert_int_equal(operations[OP_REDUCE]->geometry(&options, &shape, &dtype, &geometry, &error), STATUS_OK);
    struct arrays arrays = {.in = {{&geometry.in[0], aligned(FEW * MANY * 8)}},
                            .out = {&geometry.out, aligned(MANY * 8)}};
    for (int i = 0; i < FEW * MANY; i++) {
        minus[i] = next_random(&seed) & 1;
        dtype_store(dtype, arrays.in[0].data, i, minus[i] ? -0.0 : 0.0);
    }
    for (int cut = 0; cut < 2; cut++) {
        run_tiles(kernel, &geometry, cut, &arrays);
        for (int i = 0; i < MANY; i++) {
            int count = 0;
            for (int j = 0; j < FEW; j++) count += minus[axis ? i * FEW + j : j * MANY + i];
            double got = dtype_load(dtype, arrays.out.data, i);
            assert_true(got == 0);
            assert_int_equal(signbit(got) != 0, operator_ == REDUCE_MIN ? count > 0 : count == FEW);
        }
    }
    free(arrays.in[0].data);
    free(arrays.out.data);
}

static void reduce_knows_signs_of_zero(void **state) {
    for (int v = 0; v < kernel_count; v++) {
        const struct kernel *kernel = kernel_registry[v];
        for (int dtype = FLOAT32; dtype <= BFLOAT16 && kernel->op == OP_REDUCE; dtype++) {
            struct op_options options = {.reduce = REDUCE_MIN};
            if (kernel->device != DEVICE_CPU || !(kernel->dtypes & DTYPE_BIT(dtype)) ||
                !kernel_has_operator(kernel, &options))
                continue;
            for (int axis = 0; axis < 2; axis++) {
                check_zeros(kernel, REDUCE_MIN, (enum dtype)dtype, axis);
                check_zeros(kernel, REDUCE_MAX, (enum dtype)dtype, axis);
            }
        }
    }
}

static void transpose_of_all_shapes(void **state) {
    static const struct shape shapes[] = {{2, {1, 1}},    {2, {1, 70}}, {2, {70, 1}},     {2, {63, 65}}, {2, {64, 64}},
                                          {2, {131, 67}}, {2, {0, 5}},  {3, {3, 65, 66}}, {3, {0, 2, 3}}};
    struct op_options options = {0};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
            check(OP_TRANSPOSE, &options, &shapes[s], (enum dtype)dtype, dtype_is_float((enum dtype)dtype));
}

static void scale_of_all_shapes(void **state) {
    static const struct shape shapes[] = {{1, {1}}, {1, {8191}}, {1, {8193}}, {1, {0}}, {2, {33, 7}}, {3, {3, 5, 7}}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            bool real = dtype_is_float((enum dtype)dtype);
            struct op_options options = {.alpha = real ? 1.1 : -3, .beta = real ? -0.3 : 100};
            check(OP_SCALE, &options, &shapes[s], (enum dtype)dtype, real);
        }
}

/* What the variant `blocked` keeps of the numbers' sum. */
static double sum_of(enum dtype dtype, const void *x, int64_t count, int threads) {
    struct reduce_state room;
    double y;
    struct launch launch = {.op = OP_REDUCE, .dtype = dtype, .multiprocessors = threads};
    launch.args.reduce = (struct reduce_args){.operator_ = REDUCE_SUM,
                                              .outer = 1,
                                              .length = count,
                                              .inner = 1,
                                              .total = count,
                                              .x = x,
                                              .state = &room,
                                              .y = &y,
                                              .first = true};
    assert_int_equal(kernel_find(OP_REDUCE, "blocked")->launch(&launch), 0);
    return room.value.f;
}

/* The result has the same bits for any number of threads. */
static void reduce_does_not_depend_on_threads(void **state) {
    enum { COUNT = 300007 };
    float *x = aligned(COUNT * sizeof *x);
    uint64_t seed = 1;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(next_random(&seed) >> 40) * 1e-3f;
    double sums[3];
    for (int threads = 1; threads <= 3; threads++) sums[threads - 1] = sum_of(FLOAT32, x, COUNT, threads);
    assert_true(sums[0] == sums[1] && sums[0] == sums[2]);
    free(x);
}

static void threads_are_as_many_as_asked(void **state) {
    omp_set_num_threads(5);
    for (int threads = 1; threads <= 4; threads++) {
        const struct launch asked = {.multiprocessors = threads}, any = {.multiprocessors = 0};
        assert_true(cpu_threads(&asked, 1e9) == threads && cpu_threads(&asked, 1) == 1 && cpu_threads(&any, 1e9) == 5);
    }
}

/* Neighbours are added by lanes: equal ones, whose rounding errors point one way, lose what 1024 additions do and not
 * what 65536 do. */
static void sums_of_neighbours_lose_little(void **state) {
    enum { COUNT = 64 * 1024 };
    double *x = aligned(COUNT * sizeof *x);
    uint64_t seed = 2;
    for (int number = 0; number < 20; number++) {
        double one = 1 + (double)(next_random(&seed) >> 12) * 0x1p-52;
        for (int i = 0; i < COUNT; i++) x[i] = one;
        assert_true(fabs(sum_of(FLOAT64, x, COUNT, 1) / COUNT - one) <= 300 * DBL_EPSILON * one);
    }
    free(x);
}

/* By the register tile of this processor's widest vectors: the workspace of the least product is one. */
static void products_take_the_widest_vectors(void **state) {
    int64_t rows = 6, bytes = 16;
#ifdef CPU_AVX512
    if (CPU_HAS_AVX2()) bytes = 32;
    if (CPU_HAS_AVX512()) bytes = 64, rows = 12;
#endif
    for (int dtype = FLOAT32; dtype <= FLOAT64; dtype++) {
        const int64_t size = (int64_t)dtype_size((enum dtype)dtype), columns = 2 * bytes / size;
        struct launch launch = {.op = OP_MATMUL, .dtype = (enum dtype)dtype, .multiprocessors = 1};
        launch.args.matmul = (struct matmul_args){.batch = 1, .m = 1, .n = 1, .k = 1, .first = true, .last = true};
        const int64_t elements = 16 * (ceil_div(rows, 16) + ceil_div(columns, 16) + ceil_div(rows * columns, 16));
        assert_int_equal(kernel_workspace(kernel_find(OP_MATMUL, "blocked"), &launch), elements * size);
    }
}

/* Which of two NaNs an addition keeps is the compiler's choice, for each row of a register tile: all are one in C. */
static void products_have_one_nan(void **state) {
    enum { M = 25, N = 70, K = 3 };
    uint64_t seed = 5;
    for (int dtype = FLOAT32; dtype <= FLOAT64; dtype++) {
        const size_t size = dtype_size((enum dtype)dtype);
        char *a = aligned(M * K * size), *b = aligned(K * N * size), *c = aligned(M * N * size);
        for (int i = 0; i < M * K + K * N; i++) { /* of any sign and payload */
            char *to = i < M * K ? a + (size_t)i * size : b + (size_t)(i - M * K) * size;
            const uint64_t bits = next_random(&seed) | (dtype == FLOAT32 ? 0x7fc00000u : UINT64_C(0x7ff8) << 48);
            memcpy(to, &bits, size);
        }
        struct launch launch = {.op = OP_MATMUL, .dtype = (enum dtype)dtype, .multiprocessors = 1};
        launch.args.matmul = (struct matmul_args){
            .batch = 1, .m = M, .n = N, .k = K, .a = a, .b = b, .c = c, .alpha = -1, .first = true, .last = true};
        const struct kernel *kernel = kernel_find(OP_MATMUL, "blocked");
        launch.workspace = aligned(kernel_workspace(kernel, &launch));
        assert_int_equal(kernel->launch(&launch), 0);
        for (size_t i = 1; i < M * N; i++) assert_memory_equal(c + i * size, c, size);
        free(launch.workspace), free(a), free(b), free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_of_all_shapes),
        cmocka_unit_test(matmul_of_stacks),
        cmocka_unit_test(reduce_of_all_shapes),
        cmocka_unit_test(reduce_keeps_nan),
        cmocka_unit_test(variances_of_steps),
        cmocka_unit_test(reduce_knows_signs_of_zero),
        cmocka_unit_test(transpose_of_all_shapes),
        cmocka_unit_test(scale_of_all_shapes),
        cmocka_unit_test(reduce_does_not_depend_on_threads),
        cmocka_unit_test(threads_are_as_many_as_asked),
        cmocka_unit_test(sums_of_neighbours_lose_little),
        cmocka_unit_test(products_take_the_widest_vectors),
        cmocka_unit_test(products_have_one_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
