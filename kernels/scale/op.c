/* scale/op.c - y = alpha x + beta, element by element. */
#include "../core/reference.h"

#include "../core/cpu.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define RUN 16384 /* elements that one thread takes at a time for the reference */

/* Is the value an integer of 64 bits? For integer types alpha and beta must be, since arithmetic is modulo 2^64. */
static bool is_int64(double value) {
    return value >= (double)INT64_MIN && value < -(double)INT64_MIN && value == floor(value);
}

/* operation->geometry. Reports an alpha or beta that is no integer if the elements are integers. */
static enum status scale_geometry(const struct op_options *options, const struct shape shapes[],
                                  const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    static const enum loop along[OPERAND_RANK] = {LOOP_B, LOOP_M, LOOP_N};
    const struct shape *shape = &shapes[0];
    if (!dtype_is_float(dtypes[0]) && !(is_int64(options->alpha) && is_int64(options->beta)))
        return fail_key(error, is_int64(options->alpha) ? "beta" : "alpha", -1,
                        "scale of %s takes whole numbers that fit 64 bits, not alpha %.12g, beta %.12g: "
                        "give its input `dtype: float64`",
                        dtype_name(dtypes[0]), options->alpha, options->beta);
    *geometry = (struct geometry){.op = OP_SCALE, .options = *options, .extent = {1, 1, 1, 1}, .inputs = 1};
    struct operand *in = &geometry->in[0];
    *in = (struct operand){.dtype = dtypes[0], .shape = *shape};
    for (int axis = 0; axis < shape->rank; axis++) {
        in->loop[axis] = along[OPERAND_RANK - shape->rank + axis];
        geometry->extent[in->loop[axis]] = shape->size[axis];
    }
    geometry->out = *in;
    geometry->flops = 2.0 * (double)shape_elements(shape);
    geometry->bytes = geometry->flops * (double)dtype_size(dtypes[0]);
    shape_format(shape, geometry->shape_text);
    return STATUS_OK;
}

static enum dtype scale_computes_in(const struct op_options *options, const enum dtype dtypes[], enum dtype as) {
    (void)options;
    if (dtype_is_float(as)) return dtype_common(as, dtypes, 1);
    return !dtype_is_float(dtypes[0]) && dtype_holds(as, dtypes[0]) ? as : DTYPE_COUNT;
}

static void scale_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                         const void *const in[], void *partial, void *out, struct launch *launch) {
    (void)first, (void)last, (void)partial; /* nothing is reduced */
    const int64_t *count = tile->count;
    launch->op = OP_SCALE;
    launch->dtype = geometry->in[0].dtype;
    launch->args.scale = (struct scale_args){.count = count[LOOP_B] * count[LOOP_M] * count[LOOP_N],
                                             .alpha = geometry->options.alpha,
                                             .beta = geometry->options.beta,
                                             .x = in[0],
                                             .y = out};
}

/* alpha x + beta modulo 2^64, narrowed to the type's width. */
static int64_t scaled_integer(enum dtype dtype, double alpha, double beta, int64_t x) {
    int64_t bits = 0, value = (int64_t)((uint64_t)(int64_t)alpha * (uint64_t)x + (uint64_t)(int64_t)beta);
    dtype_store_integer(dtype, &bits, 0, value);
    return dtype_load_integer(dtype, &bits, 0);
}

/* Computes the truth with one rounding, to float64. Variants round once more, to the type (kernel.h). */
CPU_BODY scale_truth_body(double alpha, double beta, int64_t count, const double *x, double *value, double *magnitude) {
    const double largest = DBL_MAX;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        double size = fabs(alpha * x[i]) + fabs(beta);
        value[i] = fma(alpha, x[i], beta);
        magnitude[i] = size < largest ? size : largest;
    }
}
CPU_VERSIONS(scale_truth, (double alpha, double beta, int64_t count, const double *x, double *value, double *magnitude),
             (alpha, beta, count, x, value, magnitude))

/* The truth about `count` elements from number `at` on. */
static void set_truth(const struct geometry *geometry, const struct piece *piece, int64_t count, int64_t at,
                      struct truth *truth) {
    enum dtype dtype = geometry->in[0].dtype;
    double alpha = geometry->options.alpha, beta = geometry->options.beta;
#pragma omp parallel for if (count > CPU_ALONE)
    for (int64_t start = 0; start < count; start += RUN) {
        int64_t run = min_int64(RUN, count - start), to = at + start;
        if (dtype_is_float(dtype)) {
            scale_truth(alpha, beta, run, piece->value + start, truth->value + to, truth->magnitude + to);
            memset(truth->overflow + to, OVERFLOW_NONE, (size_t)run);
        } else {
            for (int64_t i = 0; i < run; i++)
                truth->integer[to + i] = scaled_integer(dtype, alpha, beta, piece->integer[start + i]);
        }
    }
}

/* operation->reference: reads the input piece by piece. */
static enum status scale_reference(const struct geometry *geometry, const struct host_reader *reader,
                                   const struct box *box, struct truth *truth, struct error *error) {
    struct cut cut = pieces_of(box);
    struct piece piece;
    int64_t at = 0;
    enum status status = piece_allocate(&piece, min_int64(PIECE_ELEMENTS, box_elements(box)), error);
    for (int64_t number = 0; number < cut.pieces && status == STATUS_OK; number++) {
        struct box part = cut_piece(&cut, number);
        status = piece_read(&piece, geometry, reader, 0, &part, error);
        if (status == STATUS_OK) set_truth(geometry, &piece, box_elements(&part), at, truth);
        at += box_elements(&part);
    }
    piece_free(&piece);
    return status;
}

/* operation->unit: the input's if beta is 0. With an addend it is unknown, such as degrees Celsius made of K. */
// NOLINTNEXTLINE(readability-non-const-parameter): the type is operation->unit
static bool scale_unit(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    return options->beta == 0 && unit_of_input(options, in, text);
}

/* operation->tolerance, relative to |alpha x| + |beta|: one rounding of the result. */
static struct tolerance scale_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)accuracy; /* no variant computes in less than float64 */
    return (struct tolerance){dtype_epsilon(geometry->out.dtype), dtype_smallest(geometry->out.dtype)};
}

const struct operation operation_scale = {
    .name = "scale",
    .summary = "y = alpha x + beta",
    .min_inputs = 1,
    .inputs = 1,
    .dimensions = 1,
    .geometry = scale_geometry,
    .computes_in = scale_computes_in,
    .merge = scale_merge_axes,
    .launch = scale_launch,
    .reference = scale_reference,
    .unit = scale_unit,
    .long_name = long_name_of_input,
    .tolerance = scale_tolerance,
};
