/* reduce/op.c - sum, prod, min, max, mean, norm2, argmin, argmax, var, std, count_nan along one axis or over all;
 * NumPy's results and types. */
#include "../core/reference.h"

#include "state.h"
#include "truth.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const operators[REDUCE_OPERATOR_COUNT + 1] = {
    [REDUCE_SUM] = "sum",       [REDUCE_PROD] = "prod",           [REDUCE_MIN] = "min",
    [REDUCE_MAX] = "max",       [REDUCE_MEAN] = "mean",           [REDUCE_NORM2] = "norm2",
    [REDUCE_ARGMIN] = "argmin", [REDUCE_ARGMAX] = "argmax",       [REDUCE_VAR] = "var",
    [REDUCE_STD] = "std",       [REDUCE_COUNT_NAN] = "count_nan",
};

static int reduce_operator_of(const struct op_options *options) {
    return (int)options->reduce;
}

/* Sets the loop along each axis: LOOP_K along the reduced one, and the loops of operation.h's table along the others.
 * If all axes are reduced, the last one has LOOP_K. */
static void name_loops(int rank, int axis, enum loop loop[OPERAND_RANK]) {
    static const enum loop along[OPERAND_RANK + 1][OPERAND_RANK][OPERAND_RANK] = {
        [1] = {{LOOP_K}},
        [2] = {{LOOP_K, LOOP_N}, {LOOP_M, LOOP_K}},
        [3] = {{LOOP_K, LOOP_M, LOOP_N}, {LOOP_B, LOOP_K, LOOP_N}, {LOOP_B, LOOP_M, LOOP_K}},
    };
    for (int i = 0; i < rank; i++) loop[i] = along[rank][axis == REDUCE_ALL_AXES ? rank - 1 : axis][i];
}

/* Does the reduction leave out NaNs? Integers have none, and a count of NaNs counts them. */
static bool skips_nan(const struct op_options *options, enum dtype dtype) {
    return options->skip_nan && dtype_is_float(dtype) && options->reduce != REDUCE_COUNT_NAN;
}

/* operation->geometry: up to three axes, of which one or all are reduced. */
static enum status reduce_geometry(const struct op_options *options, const struct shape shapes[],
                                   const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct shape *shape = &shapes[0];
    int rank = shape->rank, axis = options->axis;
    char text[SHAPE_TEXT];
    if (rank < 1) return fail_key(error, "inputs", 0, "reduce takes an array, the input is a scalar");
    bool all = axis == REDUCE_ALL_AXES;
    if (!all && (axis < -rank || axis >= rank))
        return fail_key(error, "axis", 0, "there is no axis %d in shape %s: axes are numbered from 0", axis,
                        shape_format(shape, text));
    if (!all && axis < 0) axis += rank;

    *geometry = (struct geometry){.op = OP_REDUCE,
                                  .options = *options,
                                  .extent = {1, 1, 1, 1},
                                  .inputs = 1,
                                  .in[0] = {.dtype = dtypes[0], .shape = *shape},
                                  .partial_size = reduce_state_size(options->reduce, skips_nan(options, dtypes[0])),
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
        return fail_key(error, "inputs", 0, "%s of nothing: the axis to reduce is empty in shape %s",
                        operators[options->reduce], shape_format(shape, text));
    geometry->flops = (double)shape_elements(shape);
    geometry->bytes = (double)shape_elements(shape) * (double)dtype_size(in->dtype) +
                      (double)shape_elements(&out->shape) * (double)dtype_size(out->dtype);
    shape_format(shape, geometry->shape_text);
    return STATUS_OK;
}

/* operation->computes_in. Integers are summed in 64 bits: sums of narrower integers cannot overflow, sums of 64-bit
 * ones and products can. */
static enum dtype reduce_computes_in(const struct op_options *options, const enum dtype dtypes[], enum dtype as) {
    enum reduce_operator operator_ = options->reduce;
    bool selects = reduce_selects(operator_) || operator_ == REDUCE_COUNT_NAN;
    if (selects || !dtype_is_float(as)) return DTYPE_COUNT;
    if (dtype_is_float(dtypes[0])) return dtype_common(as, dtypes, 1);
    bool overflows = operator_ == REDUCE_PROD || (operator_ == REDUCE_SUM && dtype_size(dtypes[0]) == 8);
    return overflows ? FLOAT64 : DTYPE_COUNT;
}

/* operation->launch: the loops before the reduced axis become `outer`, the loops behind it `inner`. */
static void reduce_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                          const void *const in[], void *partial, void *out, struct launch *launch) {
    struct reduce_args args = {.operator_ = geometry->options.reduce,
                               .outer = 1,
                               .length = 1,
                               .inner = 1,
                               .total = reduced_elements(geometry),
                               .ddof = geometry->options.ddof,
                               .skip_nan = skips_nan(&geometry->options, geometry->in[0].dtype),
                               .x = in[0],
                               .state = partial,
                               .y = out,
                               .first = first,
                               .last = last};
    const struct operand *x = &geometry->in[0];
    bool inside = false; /* the axis follows the reduced axis */
    for (int axis = 0; axis < x->shape.rank; axis++) {
        enum loop loop = x->loop[axis];
        if (geometry->reduces[loop]) {
            args.length *= tile->count[loop];
            args.offset = args.offset * geometry->extent[loop] + tile->start[loop];
            inside = true;
        } else if (inside) {
            args.inner *= tile->count[loop];
        } else {
            args.outer *= tile->count[loop];
        }
    }
    launch->op = OP_REDUCE;
    launch->dtype = x->dtype;
    launch->args.reduce = args;
}

/* operation->tolerance, relative to the sum of |x| (sum, mean) or to the result (norm2, prod, var, std). Variants
 * accumulate in float64, so results of narrower types have little more than their own rounding error. If elements are
 * equal, rounding errors add up: to a quarter of the length for the plain loop; to half of it for a variance, most of
 * which is there after a few elements. A lost element of average size is still detected up to lengths of 2^26. Sums of
 * subnormal numbers are exact; the absolute tolerance covers the rounding of the result, of a mean's quotient and of a
 * variance's terms. Integral and selected results are exact. */
static struct tolerance reduce_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)accuracy; /* no variant computes in less than float64 */
    enum reduce_operator operator_ = geometry->options.reduce;
    enum dtype dtype = geometry->out.dtype;
    if (reduce_selects(operator_) || !dtype_is_float(dtype)) return (struct tolerance){0, 0};
    double length = (double)reduced_elements(geometry);
    double if_elements_are_equal = length / (operator_ == REDUCE_VAR ? 2 : 4);
    double roundings = operator_ == REDUCE_PROD ? length : sqrt(length) + if_elements_are_equal;
    double accumulation = dtype_epsilon(FLOAT64) * (4 + roundings);
    double smallest = dtype_smallest(FLOAT64); /* the smallest subnormal number */
    if (reduce_is_variance(operator_)) {       /* margins for the additional roundings of moments (reduce/moments.h) */
        accumulation += 12 * dtype_epsilon(FLOAT64);
        smallest *= 16;
    }
    if (operator_ == REDUCE_STD) smallest = sqrt(smallest);
    return (struct tolerance){dtype_epsilon(dtype) + accumulation, dtype_smallest(dtype) + smallest};
}

/* operation->unit. An index and a count have the unit 1. A product has none: its exponent would be the length of the
 * axis. */
static bool reduce_unit(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    static const char *const number[] = {"1"};
    if (options->reduce == REDUCE_PROD) return false;
    if (options->reduce == REDUCE_VAR && in[0] && strcmp(in[0], "1") != 0)
        return snprintf(text, UNITS_TEXT, "(%s)2", in[0]) < UNITS_TEXT;
    bool is_number =
        options->reduce == REDUCE_ARGMIN || options->reduce == REDUCE_ARGMAX || options->reduce == REDUCE_COUNT_NAN;
    return unit_of_input(options, is_number ? number : in, text);
}

/* operation->long_name: "sum of load over axes 0, 1, without NaN". */
static bool reduce_long_name(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]) {
    if (!in[0]) return false;
    int length = snprintf(text, LONG_NAME_TEXT, "%s of %s", operators[options->reduce], in[0]);
    bool several = options->axis_count > 1;
    for (int i = 0; i < options->axis_count && options->axis != REDUCE_ALL_AXES && length < LONG_NAME_TEXT; i++)
        length += snprintf(text + length, LONG_NAME_TEXT - (size_t)length, "%s%d",
                           i         ? ", "
                           : several ? " over axes "
                                     : " over axis ",
                           options->axes[i]);
    if (options->axis_count == 0 && options->axis != REDUCE_ALL_AXES && length < LONG_NAME_TEXT)
        length += snprintf(text + length, LONG_NAME_TEXT - (size_t)length, " over axis %d", options->axis);
    if (options->skip_nan && length < LONG_NAME_TEXT)
        length += snprintf(text + length, LONG_NAME_TEXT - (size_t)length, ", without NaN");
    return length < LONG_NAME_TEXT;
}

const struct operation operation_reduce = {
    .name = "reduce",
    .summary = "sum, prod, min, max, mean, norm2, argmin, argmax, var, std or count_nan along axes or over all",
    .min_inputs = 1,
    .inputs = 1,
    .dimensions = 3,
    .operators = operators,
    .operator_of = reduce_operator_of,
    .geometry = reduce_geometry,
    .computes_in = reduce_computes_in,
    .merge = reduce_merge_axes,
    .launch = reduce_launch,
    .reference = reduce_reference,
    .unit = reduce_unit,
    .long_name = reduce_long_name,
    .tolerance = reduce_tolerance,
};
