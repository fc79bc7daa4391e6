/* op_reduce.c - sum, prod, min, max, mean, norm2, argmin, argmax along one axis or over all; NumPy's results and types.
 */
#include "../core/reference.h"

#include "../core/cpu.h"
#include "state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN     4096 /* elements along what is reduced, and outputs, that one thread takes at a time for the reference */
#define COLUMNS 1024

/* Which loop runs along each axis: k along the reduced one; b, m, n where einsum would write them. */
static void name_loops(int rank, int axis, enum loop loop[MAX_RANK]) {
    static const enum loop along[MAX_RANK + 1][MAX_RANK][MAX_RANK] = {
        [1] = {{LOOP_K}},
        [2] = {{LOOP_K, LOOP_N}, {LOOP_M, LOOP_K}},
        [3] = {{LOOP_K, LOOP_M, LOOP_N}, {LOOP_B, LOOP_K, LOOP_N}, {LOOP_B, LOOP_M, LOOP_K}},
    };
    for (int i = 0; i < rank; i++) loop[i] = along[rank][axis == REDUCE_ALL_AXES ? rank - 1 : axis][i];
}

static int64_t reduced_elements(const struct geometry *geometry) {
    int64_t elements = 1;
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop]) elements *= geometry->extent[loop];
    return elements;
}

static enum status reduce_geometry(const struct op_options *options, const struct shape shapes[],
                                   const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct shape *shape = &shapes[0];
    int rank = shape->rank, axis = options->axis;
    char text[SHAPE_TEXT];
    if (rank < 1) return fail(error, STATUS_USAGE, "reduce takes an array, the input is a scalar");
    bool all = axis == REDUCE_ALL_AXES;
    if (!all && (axis < -rank || axis >= rank))
        return fail(error, STATUS_USAGE, "there is no axis %d in shape %s", axis, shape_format(shape, text));
    if (!all && axis < 0) axis += rank;

    *geometry = (struct geometry){.op = OP_REDUCE,
                                  .options = *options,
                                  .extent = {1, 1, 1, 1},
                                  .inputs = 1,
                                  .in[0] = {.dtype = dtypes[0], .shape = *shape},
                                  .partial_size = sizeof(struct reduce_state),
                                  .partial_always = true,
                                  .row_major_tiles = all};
    geometry->options.axis = axis;
    struct operand *in = &geometry->in[0], *out = &geometry->out;
    name_loops(rank, axis, in->loop);
    out->dtype = reduce_result_type(options->reduce, dtypes[0]);
    for (int i = 0; i < rank; i++) {
        geometry->extent[in->loop[i]] = shape->size[i];
        geometry->reduces[in->loop[i]] = all || i == axis;
        if (all || i == axis) continue;
        out->loop[out->shape.rank] = in->loop[i];
        out->shape.size[out->shape.rank++] = shape->size[i];
    }
    if (reduced_elements(geometry) == 0 && reduce_selects(options->reduce))
        return fail(error, STATUS_USAGE, "%s of nothing: the axis to reduce is empty in shape %s",
                    reduce_operator_name(options->reduce), shape_format(shape, text));
    geometry->flops = (double)shape_elements(shape);
    geometry->bytes = (double)shape_elements(shape) * (double)dtype_size(in->dtype) +
                      (double)shape_elements(&out->shape) * (double)dtype_size(out->dtype);
    shape_format(shape, geometry->shape_text);
    return STATUS_OK;
}

static void reduce_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                          const void *const in[], void *partial, void *out, struct launch *launch) {
    struct reduce_args args = {.operator_ = geometry->options.reduce,
                               .outer = 1,
                               .length = 1,
                               .inner = 1,
                               .total = reduced_elements(geometry),
                               .x = in[0],
                               .state = partial,
                               .y = out,
                               .first = first,
                               .last = last};
    const struct operand *x = &geometry->in[0];
    bool behind = false; /* the reduced axis */
    for (int axis = 0; axis < x->shape.rank; axis++) {
        enum loop loop = x->loop[axis];
        if (geometry->reduces[loop]) {
            args.length *= tile->count[loop];
            args.offset = args.offset * geometry->extent[loop] + tile->start[loop];
            behind = true;
        } else if (behind) {
            args.inner *= tile->count[loop];
        } else {
            args.outer *= tile->count[loop];
        }
    }
    launch->op = OP_REDUCE;
    launch->dtype = x->dtype;
    launch->args.reduce = args;
}

/* ---- the truth --------------------------------------------------------------------------------------------------- */

/* What is known of one output: `state` decides what is exact (integers, selections), the long doubles what is rounded.
 */
struct sums {
    struct reduce_state state;
    long double value, magnitude;
};

struct walk {
    const struct geometry *geometry;
    bool exact;
    enum dtype widened; /* type of a piece's elements: double, or a 64-bit integer */
    int64_t out_stride[MAX_RANK], position_stride[MAX_RANK]; /* of the output's box, and along what is reduced */
    struct sums *sums;
};

static struct sums sums_empty(const struct walk *walk) {
    enum reduce_operator operator_ = walk->geometry->options.reduce;
    return (struct sums){reduce_state_empty(operator_, walk->widened), operator_ == REDUCE_PROD, 0};
}

static void sums_merge(const struct walk *walk, struct sums *into, const struct sums *from) {
    enum reduce_operator operator_ = walk->geometry->options.reduce;
    if (walk->exact) {
        reduce_state_merge(operator_, walk->widened, &into->state, &from->state);
    } else if (operator_ == REDUCE_PROD) {
        into->value *= from->value;
    } else {
        into->value += from->value;
        into->magnitude += from->magnitude;
    }
}

/* One element of a piece. */
static inline void sums_take(const struct walk *walk, struct sums *into, const double *x, int64_t position) {
    enum reduce_operator operator_ = walk->geometry->options.reduce;
    if (walk->exact) {
        struct reduce_state one = {.index = position};
        memcpy(&one.value, x, sizeof one.value); /* 64 bits, of whatever type */
        reduce_state_merge(operator_, walk->widened, &into->state, &one);
        return;
    }
    long double value = *x;
    if (operator_ == REDUCE_NORM2) value *= value;
    sums_merge(walk, into, &(struct sums){.value = value, .magnitude = fabsl(value)});
}

/* A piece as [outer][length][inner] around what is reduced. What is cut of the array to make a piece, and what of the
 * output, is a run of it, so outputs and positions follow one another. */
struct block {
    const double *x; /* or 64-bit integers */
    int64_t outer, length, inner;
    struct sums *out;   /* of its first output */
    int64_t out_stride; /* from one of `outer` to the next */
    int64_t position;   /* of its first element along what is reduced */
};

static struct block block_of(const struct walk *walk, const struct box *box, const struct box *piece, const void *x) {
    const struct operand *in = &walk->geometry->in[0];
    struct block block = {.x = x, .outer = 1, .length = 1, .inner = 1, .out = walk->sums, .out_stride = 1};
    bool behind = false; /* the reduced axis */
    for (int axis = 0; axis < piece->rank; axis++) {
        if (walk->geometry->reduces[in->loop[axis]]) {
            block.length *= piece->count[axis];
            block.position += piece->start[axis] * walk->position_stride[axis];
            behind = true;
            continue;
        }
        block.out += (piece->start[axis] - box->start[axis]) * walk->out_stride[axis];
        if (behind) {
            block.inner *= piece->count[axis];
        } else {
            block.outer *= piece->count[axis];
            block.out_stride = walk->out_stride[axis];
        }
    }
    return block;
}

/* Sums of neighbours, the most that is asked for. */
static void add_up(const double *x, int64_t count, bool squares, struct sums *sums) {
    long double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < count; i++) {
        const long double value = squares ? (long double)x[i] * x[i] : x[i];
        sum += value;
        magnitude += fabsl(value);
    }
    sums->value += sum;
    sums->magnitude += magnitude;
}

/* Takes elements [first, last) along what is reduced, of the outputs [from, to) of inner, into `sums`. */
static void take_run(const struct walk *walk, const struct block *block, int64_t o, int64_t first, int64_t last,
                     int64_t from, int64_t to, struct sums *sums) {
    enum reduce_operator operator_ = walk->geometry->options.reduce;
    if (!walk->exact && operator_ != REDUCE_PROD && block->inner == 1) {
        add_up(block->x + o * block->length + first, last - first, operator_ == REDUCE_NORM2, sums);
        return;
    }
    for (int64_t l = first; l < last; l++) {
        const double *row = block->x + (o * block->length + l) * block->inner;
        for (int64_t i = from; i < to; i++) sums_take(walk, &sums[i - from], row + i, block->position + l);
    }
}

/* Takes in one piece, on all cores: each takes runs of RUN elements of up to COLUMNS outputs. Where there is more than
 * one to an output they are merged in order, so that the truth does not depend on who took what. */
static void take_piece(const struct walk *walk, const struct box *box, const struct box *piece, const void *x) {
    const struct block block = block_of(walk, box, piece, x);
    int64_t outer = block.outer, inner = block.inner;
    int64_t runs = ceil_div(block.length, RUN), columns = ceil_div(inner, COLUMNS);
    struct sums partial[2 * PIECE_ELEMENTS / RUN] = {0};
#pragma omp parallel for collapse(3)
    for (int64_t o = 0; o < outer; o++)
        for (int64_t run = 0; run < runs; run++)
            for (int64_t column = 0; column < columns; column++) {
                int64_t from = column * COLUMNS, to = min_int64(inner, from + COLUMNS), first = run * RUN;
                struct sums *sums = block.out + o * block.out_stride + from;
                if (runs > 1) {
                    sums = partial + (o * runs + run) * inner + from;
                    for (int64_t i = from; i < to; i++) sums[i - from] = sums_empty(walk);
                }
                take_run(walk, &block, o, first, min_int64(block.length, first + RUN), from, to, sums);
            }
    for (int64_t i = 0; runs > 1 && i < outer * runs * inner; i++)
        sums_merge(walk, block.out + i / (runs * inner) * block.out_stride + i % inner, partial + i);
}

/* The box of the input that feeds a box of the output; strides are set on the way. */
static struct box input_box(const struct geometry *geometry, const struct box *out, struct walk *walk) {
    const struct operand *in = &geometry->in[0];
    struct box box = {.rank = in->shape.rank};
    int64_t out_stride = 1, position_stride = 1;
    int out_axis = out->rank;
    for (int axis = box.rank - 1; axis >= 0; axis--) {
        if (geometry->reduces[in->loop[axis]]) {
            box.count[axis] = in->shape.size[axis];
            walk->position_stride[axis] = position_stride;
            position_stride *= in->shape.size[axis];
        } else {
            out_axis--;
            box.start[axis] = out->start[out_axis];
            box.count[axis] = out->count[out_axis];
            walk->out_stride[axis] = out_stride;
            out_stride *= out->count[out_axis];
        }
    }
    return box;
}

static void tell(const struct walk *walk, int64_t count, struct truth *truth) {
    enum reduce_operator operator_ = walk->geometry->options.reduce;
    long double total = (long double)reduced_elements(walk->geometry);
    for (int64_t i = 0; i < count; i++) {
        const struct sums *sums = &walk->sums[i];
        long double value = sums->value, magnitude = sums->magnitude;
        if (walk->exact) {
            truth->integer[i] = sums->state.value.i;
            if (operator_ == REDUCE_ARGMIN || operator_ == REDUCE_ARGMAX) truth->integer[i] = sums->state.index;
            value = walk->widened == FLOAT64 ? sums->state.value.f : 0;
            magnitude = fabsl(value);
        } else if (operator_ == REDUCE_MEAN) {
            value /= total;
            magnitude /= total;
        } else if (operator_ == REDUCE_NORM2) {
            value = magnitude = sqrtl(value);
        } else if (operator_ == REDUCE_PROD) {
            magnitude = fabsl(value);
        }
        truth->value[i] = (double)value;
        truth->magnitude[i] = (double)magnitude;
    }
}

static enum status reduce_reference(const struct geometry *geometry, const struct host_reader *reader,
                                    const struct box *box, struct truth *truth, struct error *error) {
    enum reduce_operator operator_ = geometry->options.reduce;
    enum dtype dtype = geometry->in[0].dtype;
    struct walk walk = {.geometry = geometry};
    walk.exact = reduce_selects(operator_) || !reduce_in_double(operator_, dtype);
    walk.widened = reduce_in_double(operator_, dtype) ? FLOAT64 : dtype_is_signed(dtype) ? INT64 : UINT64;
    struct box input = input_box(geometry, box, &walk);
    int64_t outputs = box_elements(box), pieces = piece_count(&input);
    walk.sums = calloc((size_t)outputs + 1, sizeof *walk.sums);
    if (!walk.sums) return fail(error, STATUS_RUN, "no host memory for the reference");
    for (int64_t i = 0; i < outputs; i++) walk.sums[i] = sums_empty(&walk);
    struct piece piece;
    enum status status = piece_allocate(&piece, min_int64(PIECE_ELEMENTS, box_elements(&input)), error);
    for (int64_t number = 0; number < pieces && status == STATUS_OK; number++) {
        struct box part = piece_box(&input, number);
        status = piece_read(&piece, geometry, reader, 0, &part, error);
        if (status == STATUS_OK)
            take_piece(&walk, &input, &part, walk.widened == FLOAT64 ? (void *)piece.value : (void *)piece.integer);
    }
    if (status == STATUS_OK) tell(&walk, outputs, truth);
    piece_free(&piece);
    free(walk.sums);
    return status;
}

/* Relative to the sum of |x| (sum, mean) or to the result (norm2, prod). Accumulation is in float64, so that narrower
 * floats see little but the rounding of the result; roundings of sums are taken as independent, those of a product add
 * up. All that is integral or selected is exact. */
static double reduce_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)accuracy; /* no variant computes in less than float64 */
    enum reduce_operator operator_ = geometry->options.reduce;
    if (reduce_selects(operator_) || !dtype_is_float(geometry->out.dtype)) return 0;
    double length = (double)reduced_elements(geometry);
    double accumulation = dtype_epsilon(FLOAT64) * (4 + (operator_ == REDUCE_PROD ? length : sqrt(length)));
    return dtype_epsilon(geometry->out.dtype) + accumulation;
}

const struct operation operation_reduce = {
    .name = "reduce",
    .summary = "sum, prod, min, max, mean, norm2, argmin or argmax along one axis or over all",
    .inputs = 1,
    .geometry = reduce_geometry,
    .launch = reduce_launch,
    .reference = reduce_reference,
    .tolerance = reduce_tolerance,
};
