/* random_problem.h - for test_kernels_random.c: a problem for all variants of an operation, its operands and its
 * truth. */
#include "../../runner/plan/plan.h"

#include "kernel_draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PIECES   4  /* launches that a reduction is split into, at most */
#define VARIANTS 32 /* per operation, at most */

/* The variants of an operation that run on a device. */
struct variants {
    enum op op;
    const struct device_facts *facts;
    const struct kernel *kernels[VARIANTS];
    int count;
};

struct problem {
    int64_t number;
    struct draws draws;
    struct geometry geometry;
    enum values values;
    int64_t cut[PIECES + 1]; /* of the reduced loop, if there is one: where its pieces begin, then its end */
    int pieces, passes, multiprocessors;
    bool grown; /* the workspace is as large as a larger launch of the same run would need */
    char *in[2];
    struct truth truth;
    char *turned; /* for a transpose, instead of the truth */
};

static int64_t minimum_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static unsigned operators_of(const struct kernel *kernel) {
    return kernel->operators ? kernel->operators : REDUCE_ALL_OPERATORS;
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

/* Limits for the elements of an operand and for multiplications: mostly small. */
static void draw_budget(struct draws *draws, const struct variants *variants, int64_t *elements, int64_t *work) {
    bool cuda = variants->facts->kind == DEVICE_CUDA;
    int64_t kind = draw_below(draws, 1024);
    *elements = INT64_C(1) << (kind < 16 ? (cuda ? 21 : 19) : kind < 256 ? (cuda ? 18 : 16) : cuda ? 16 : 13);
    *work = INT64_C(1) << (kind < 16 ? (cuda ? 28 : 24) : kind < 256 ? (cuda ? 24 : 21) : cuda ? 22 : 18);
    /* Large enough that the blocks of reduce/tuned/stream.cu draw pieces, and ragged columns are glued. */
    if (cuda && variants->op == OP_REDUCE && kind == 0) *elements = INT64_C(1) << 26;
}

/* The sizes of a launch. The dimensions are drawn in turn, from a random one on; each takes part of the budget that the
 * earlier ones leave, and the last sometimes takes all of it. */
static void draw_sizes(struct draws *draws, const struct variants *variants, const struct kernel *kernel,
                       int64_t elements, int64_t work, int64_t size[KERNEL_DIMENSIONS]) {
    int count = operations[variants->op]->dimensions, first = (int)draw_below(draws, count);
    int64_t all = 1, largest = 1;
    for (int i = 0; i < count; i++) {
        int dimension = (first + i) % count;
        int64_t most = elements / (variants->op == OP_MATMUL ? largest : all);
        if (variants->op == OP_MATMUL) most = minimum_of(most, work / all);
        if (most < 1) most = 1;
        bool flat = variants->op == OP_REDUCE && dimension != 1 && one_in(draws, 2);
        bool full = i == count - 1 && (one_in(draws, 8) || elements > 1 << 22);
        size[dimension] = flat ? 1 : full ? most : draw_size(draws, kernel->edges[dimension], most);
        if (size[dimension] > 1) all *= size[dimension];
        if (size[dimension] > largest) largest = size[dimension];
    }
}

/* Member `number` of a set of bits, counted cyclically. */
static int member(unsigned set, int64_t number) {
    int members = __builtin_popcount(set), bit = 0;
    for (int64_t skip = number % members;; bit++)
        if (set >> bit & 1 && skip-- == 0) return bit;
}

static bool selects(enum reduce_operator operator_) {
    return operator_ == REDUCE_MIN || operator_ == REDUCE_MAX || operator_ == REDUCE_ARGMIN ||
           operator_ == REDUCE_ARGMAX;
}

static struct op_options draw_options(struct draws *draws, enum op op, enum dtype dtype, int operator_) {
    static const double factors[] = {1, 1, 1, -1, 0, 0.5, 1.1, -0.3, 1000.25};
    struct op_options options = {.alpha = factors[draw_below(draws, 9)], .beta = factors[draw_below(draws, 9)]};
    if (op == OP_MATMUL) {
        options.transpose_a = one_in(draws, 2), options.transpose_b = one_in(draws, 2);
        if (options.alpha > 1) options.alpha = 1.5;
    }
    if (op == OP_SCALE && !dtype_is_float(dtype)) {
        options.alpha = (double)((int64_t)draw(draws) >> draw_below(draws, 62));
        options.beta = (double)((int64_t)draw(draws) >> draw_below(draws, 62));
        if (options.alpha >= 0x1p63) options.alpha = 0x1p62;
        if (options.beta >= 0x1p63) options.beta = 0x1p62;
    }
    if (op == OP_REDUCE) {
        options.reduce = (enum reduce_operator)operator_, options.axis = 1;
        options.skip_nan = one_in(draws, 3), options.ddof = (double)draw_below(draws, 5) / 2;
    }
    return options;
}

static struct shape matrices(bool stack, int64_t batch, int64_t rows, int64_t columns) {
    return stack ? (struct shape){3, {batch, rows, columns}} : (struct shape){2, {rows, columns}};
}

/* Fills the geometry of case `number`. Variants, their types and their operators take turns. */
static void draw_geometry(const struct variants *variants, struct problem *problem) {
    struct draws *draws = &problem->draws;
    const struct kernel *kernel = variants->kernels[problem->number % variants->count];
    int64_t turn = problem->number / variants->count, elements, work, size[KERNEL_DIMENSIONS] = {1, 1, 1};
    enum dtype dtype = (enum dtype)member(kernel->dtypes, turn);
    int operator_ = member(operators_of(kernel), turn / __builtin_popcount(kernel->dtypes));
    draw_budget(draws, variants, &elements, &work);
    int64_t batch = one_in(draws, 4) ? draw_below(draws, 6) : 1;
    draw_sizes(draws, variants, kernel, elements / (batch > 1 ? batch : 1), work / (batch > 1 ? batch : 1), size);
    struct op_options options = draw_options(draws, variants->op, dtype, operator_);
    struct shape shapes[MAX_INPUTS] = {{1, {size[0]}}, {1, {size[0]}}};
    if (variants->op == OP_MATMUL) {
        int64_t m = size[0], n = size[1], k = size[2];
        bool stacked[2] = {batch != 1 || one_in(draws, 4), batch != 1 || one_in(draws, 4)};
        if (batch != 1 && one_in(draws, 2)) stacked[draw_below(draws, 2)] = false; /* one matrix for all */
        shapes[0] = matrices(stacked[0], batch, options.transpose_a ? k : m, options.transpose_a ? m : k);
        shapes[1] = matrices(stacked[1], batch, options.transpose_b ? n : k, options.transpose_b ? k : n);
    }
    if (variants->op == OP_REDUCE) {
        if (size[1] == 0 && selects(options.reduce)) size[1] = 1;
        shapes[0] = (struct shape){3, {size[0], size[1], size[2]}};
    }
    if (variants->op == OP_TRANSPOSE) shapes[0] = matrices(batch != 1 || one_in(draws, 4), batch, size[0], size[1]);
    enum dtype dtypes[MAX_INPUTS] = {dtype, dtype};
    struct error error = {.status = STATUS_OK};
    assert_int_equal(operations[variants->op]->geometry(&options, shapes, dtypes, &problem->geometry, &error),
                     STATUS_OK);
}

/* Draws a kind of values for which a tolerance exists. There is none for a result that leaves its type's range, or for
 * sums that leave the accumulator's. */
static enum values draw_values(struct draws *draws, const struct geometry *geometry) {
    enum dtype dtype = geometry->in[0].dtype;
    enum values values = (enum values)draw_below(draws, VALUES_COUNT);
    const struct op_options *options = &geometry->options;
    bool reduces = geometry->op == OP_REDUCE, counts = reduces && options->reduce == REDUCE_COUNT_NAN;
    bool extreme = reduces && (selects(options->reduce) || counts);
    bool spreads = reduces && (options->reduce == REDUCE_VAR || options->reduce == REDUCE_STD);
    if (values == VALUES_OFFSET && !spreads && geometry->op != OP_TRANSPOSE) return VALUES_NORMAL;
    if (values == VALUES_GAPS && !counts && !(reduces && options->skip_nan)) return VALUES_NORMAL;
    if (geometry->op == OP_TRANSPOSE) return one_in(draws, 4) ? VALUES_INTEGERS : VALUES_BITS;
    if (values == VALUES_BITS && dtype_is_float(dtype) && geometry->op != OP_SCALE && !extreme) return VALUES_NORMAL;
    return values;
}

/* The exponent below which huge values keep the result finite. */
static int huge_exponent(const struct geometry *geometry) {
    int top = float_top(geometry->in[0].dtype), terms = (int)ceil(log2((double)geometry->extent[LOOP_K] + 1));
    switch (geometry->op) {
    case OP_MATMUL: return (top - 2 - terms) / 2;
    case OP_REDUCE:
        if (selects(geometry->options.reduce)) return top;
        return top - terms;
    default: return top - 11; /* alpha is below 2^10 */
    }
}

static struct terms terms_of(const struct problem *problem, int input) {
    const struct geometry *geometry = &problem->geometry;
    struct terms terms = {.values = problem->values,
                          .dtype = geometry->in[input].dtype,
                          .seed = mixed(problem->draws.seed, UINT64_MAX - (uint64_t)input)};
    if (terms.values == VALUES_HUGE) terms.exponent = huge_exponent(geometry);
    if (terms.values == VALUES_SUBNORMAL && input == 1)
        terms.exponent = terms.dtype == FLOAT64 ? 300 : terms.dtype == FLOAT16 ? 8 : 60;
    bool product = geometry->op == OP_REDUCE && geometry->options.reduce == REDUCE_PROD;
    if (product && dtype_is_float(terms.dtype)) terms.twos = geometry->extent[LOOP_K] / 8 + 2;
    return terms;
}

/* Cuts the reduced loop into pieces, also at edges of one of the variants. */
static void draw_pieces(const struct variants *variants, struct problem *problem) {
    struct draws *draws = &problem->draws;
    const struct kernel *kernel = variants->kernels[problem->number % variants->count];
    const struct geometry *geometry = &problem->geometry;
    int64_t left = geometry->extent[LOOP_K], wanted = one_in(draws, 2) ? 1 : 1 + draw_below(draws, PIECES);
    bool reduces = geometry->reduces[LOOP_K];
    problem->pieces = 0;
    problem->cut[0] = 0;
    do {
        bool last = !reduces || problem->pieces == wanted - 1 || left <= 1;
        int64_t size = last ? left : draw_size(draws, kernel->edges[variants->op == OP_MATMUL ? 2 : 1], left);
        if (size < 1) size = left;
        problem->cut[problem->pieces + 1] = problem->cut[problem->pieces] + size;
        problem->pieces++;
        left -= size;
    } while (left > 0);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Packs a box of an array. */
static void pack(const struct operand *operand, const char *array, const struct box *box, char *packed) {
    size_t size = dtype_size(operand->dtype);
    int64_t extent[OPERAND_RANK] = {1, 1, 1}, start[OPERAND_RANK] = {0}, count[OPERAND_RANK] = {1, 1, 1};
    for (int axis = 0; axis < box->rank; axis++) {
        int to = axis + OPERAND_RANK - box->rank;
        extent[to] = operand->shape.size[axis], start[to] = box->start[axis], count[to] = box->count[axis];
    }
    size_t row = (size_t)count[2] * size;
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1] && row > 0; j++) {
            int64_t at = ((start[0] + i) * extent[1] + start[1] + j) * extent[2] + start[2];
            memcpy(packed + (size_t)(i * count[1] + j) * row, array + (size_t)at * size, row);
        }
}

static enum status read_operand(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct problem *problem = context;
    (void)error;
    pack(&problem->geometry.in[input], problem->in[input], box, data);
    return STATUS_OK;
}

static void *room(int64_t bytes) {
    void *memory = malloc((size_t)bytes + 8);
    assert_non_null(memory);
    return memory;
}

/* y[b][c][r] = x[b][r][c] */
static void turn(const struct geometry *geometry, const char *x, char *y) {
    size_t size = dtype_size(geometry->in[0].dtype);
    int64_t rows = geometry->extent[LOOP_M], columns = geometry->extent[LOOP_N];
#pragma omp parallel for collapse(2)
    for (int64_t b = 0; b < geometry->extent[LOOP_B]; b++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                memcpy(y + (size_t)((b * columns + c) * rows + r) * size,
                       x + (size_t)((b * rows + r) * columns + c) * size, size);
}

static void problem_open(const struct variants *variants, uint64_t seed, int64_t number, struct problem *problem) {
    *problem = (struct problem){.number = number};
    problem->draws.seed = mixed(seed, (uint64_t)number << 8 | (uint64_t)variants->op);
    draw_geometry(variants, problem);
    struct geometry *geometry = &problem->geometry;
    struct draws *draws = &problem->draws;
    problem->values = draw_values(draws, geometry);
    draw_pieces(variants, problem);
    problem->passes = one_in(draws, 3) ? 2 : 1;
    problem->grown = one_in(draws, 3);
    /* Variants split work by the number of multiprocessors, so other devices' numbers are tried too. */
    int there = variants->facts->multiprocessors, few = there < 8 ? 1 : 8;
    problem->multiprocessors = one_in(draws, 2) ? there : few + (int)draw_below(draws, there - few + 1);

    for (int i = 0; i < geometry->inputs; i++) {
        const struct terms terms = terms_of(problem, i);
        int64_t elements = shape_elements(&geometry->in[i].shape);
        problem->in[i] = room(elements * (int64_t)dtype_size(terms.dtype));
        fill_values(&terms, elements, problem->in[i]);
    }
    int64_t outputs = shape_elements(&geometry->out.shape);
    if (geometry->op == OP_TRANSPOSE) {
        problem->turned = room(outputs * (int64_t)dtype_size(geometry->out.dtype));
        turn(geometry, problem->in[0], problem->turned);
        return;
    }
    struct host_reader reader = {.read = read_operand, .context = problem};
    struct box box = box_whole(&geometry->out.shape);
    struct error error = {.status = STATUS_OK};
    assert_int_equal(truth_allocate(geometry, outputs, &problem->truth, &error), STATUS_OK);
    assert_int_equal(operations[geometry->op]->reference(geometry, &reader, &box, &problem->truth, &error), STATUS_OK);
}

static void problem_close(struct problem *problem) {
    for (int i = 0; i < 2; i++) free(problem->in[i]);
    free(problem->turned);
    truth_free(&problem->truth);
}
