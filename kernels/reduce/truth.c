/* reduce/truth.c - reductions by straightforward loops, with more precision and range than any variant. */
#include "truth.h"

#include "../core/cpu.h"
#include "state.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN     4096               /* elements along the reduced axis that one thread adds at a time */
#define COLUMNS 1024               /* outputs that one thread computes at a time */
#define LANES   16                 /* sums of neighbours in progress at once */
#define OUTPUTS (INT64_C(1) << 17) /* outputs in progress at once: bounds memory */

int64_t reduced_elements(const struct geometry *geometry) {
    int64_t elements = 1;
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop]) elements *= geometry->extent[loop];
    return elements;
}

/* ---- the accumulator of one output ------------------------------------------------------------------------------- */

/* The operator and the type decide which members are used. */
struct accumulator {
    struct reduce_state state;    /* exact results: integers, selections */
    long double value, magnitude; /* a sum, and the sum of its finite terms' magnitudes; or a product's mantissa */
    int64_t exponent;             /* the product is value * 2^exponent */
    int64_t lowest_exponent, highest_exponent; /* bounds of the exponent while the product grew */
    int64_t non_nans;                          /* number of elements that are not NaN */
    long double mean, deviation; /* the mean as rounded, and the sum of the elements' differences from it */
    wide_int integer_sum;
};

/* Two passes over the input make a variance: means, then deviations from them. */
enum kind { KIND_STATE, KIND_SUM, KIND_PRODUCT, KIND_MEAN, KIND_DEVIATIONS };

/* What a pass over the input needs. */
struct truth_pass {
    const struct geometry *geometry;
    enum reduce_operator operator_;
    enum kind kind;
    bool skip_nan;
    enum dtype widened; /* type of a piece's elements: double or a 64-bit integer */
    int64_t out_stride[MAX_RANK], position_stride[MAX_RANK]; /* in the output's box, and along the reduced axis */
    struct accumulator *acc;                                 /* one for each output of the part that is computed */
};

/* The accumulator before any element. */
static struct accumulator empty_accumulator(const struct truth_pass *pass) {
    return (struct accumulator){.state = reduce_state_empty(pass->operator_, pass->widened),
                                .value = pass->kind == KIND_PRODUCT};
}

/* Moves the exponent of a product's value into `exponent`, and updates its bounds. */
static void normalize(struct accumulator *product) {
    if (product->value == 0 || !isfinite(product->value)) return;
    int exponent;
    product->value = frexpl(product->value, &exponent); /* in [1/2, 1) */
    product->exponent += exponent;
    if (product->exponent < product->lowest_exponent) product->lowest_exponent = product->exponent;
    if (product->exponent > product->highest_exponent) product->highest_exponent = product->exponent;
}

/* Merges `from`, which covers later elements, into `into`. */
static void merge(const struct truth_pass *pass, struct accumulator *into, const struct accumulator *from) {
    into->non_nans += from->non_nans;
    if (pass->kind == KIND_MEAN || pass->kind == KIND_DEVIATIONS) {
        into->value += from->value;
        into->deviation += from->deviation;
        into->integer_sum += from->integer_sum;
    } else if (pass->kind == KIND_STATE) {
        reduce_state_merge(pass->operator_, pass->widened, &into->state, &from->state);
    } else if (pass->kind == KIND_SUM) {
        into->value += from->value;
        into->magnitude += from->magnitude;
    } else {
        int64_t lowest_exponent = into->exponent + from->lowest_exponent,
                highest_exponent = into->exponent + from->highest_exponent;
        if (lowest_exponent < into->lowest_exponent) into->lowest_exponent = lowest_exponent;
        if (highest_exponent > into->highest_exponent) into->highest_exponent = highest_exponent;
        into->value *= from->value;
        into->exponent += from->exponent;
        normalize(into);
    }
}

/* ---- sums of several columns at once, by vector instructions ---- */

/* Adds row after row. values[i] + losses[i] is a sum without rounding errors (Knuth's two-sum); magnitudes[i] is the
 * sum of the |x|. */
CPU_BODY add_rows_body(const double *x, int64_t rows, int64_t pitch, int64_t columns, bool squares, double *values,
                       double *losses, double *magnitudes) {
    for (int64_t r = 0; r < rows; r++, x += pitch) {
#pragma omp simd
        for (int64_t c = 0; c < columns; c++) {
            double element = squares ? x[c] * x[c] : x[c];
            double sum = values[c] + element, added = sum - values[c];
            losses[c] += (values[c] - (sum - added)) + (element - added) + (squares ? fma(x[c], x[c], -element) : 0);
            values[c] = sum;
            magnitudes[c] += fabs(element);
        }
    }
}
CPU_VERSIONS(add_rows,
             (const double *x, int64_t rows, int64_t pitch, int64_t columns, bool squares, double *values,
              double *losses, double *magnitudes),
             (x, rows, pitch, columns, squares, values, losses, magnitudes))

/* Adds one column in long double, for elements or squares that leave the range of float64. */
static void add_column(const double *x, int64_t rows, int64_t pitch, bool squares, struct accumulator *into) {
    for (int64_t r = 0; r < rows; r++) {
        long double element = squares ? (long double)x[r * pitch] * x[r * pitch] : x[r * pitch];
        into->value += element;
        if (isfinite(element)) into->magnitude += fabsl(element);
    }
}

/* Adds rows of `columns` elements to an accumulator per column: by vectors, or in long double where these leave the
 * range. */
static void add_columns(const double *x, int64_t rows, int64_t pitch, int64_t columns, bool squares,
                        struct accumulator *acc) {
    double values[COLUMNS], losses[COLUMNS], magnitudes[COLUMNS];
    for (int64_t c = 0; c < columns; c++) values[c] = losses[c] = magnitudes[c] = 0;
    add_rows(x, rows, pitch, columns, squares, values, losses, magnitudes);
    for (int64_t c = 0; c < columns; c++) {
        /* A loss may leave the range though the sum does not: -3.1e307 + 1.797e308 is less than `added`. */
        bool in_range = isfinite(values[c]) && isfinite(losses[c]) && (!squares || values[c] > 0x1p-900);
        if (in_range) {
            acc[c].value += (long double)values[c] + losses[c];
            acc[c].magnitude += magnitudes[c];
        } else {
            add_column(x + c, rows, pitch, squares, &acc[c]);
        }
    }
}

/* Adds `count` neighbours to one sum: LANES at a time, then the remaining ones. */
static void add_neighbours(const struct truth_pass *pass, const double *x, int64_t count, bool squares,
                           struct accumulator *into) {
    struct accumulator lanes[LANES];
    int64_t rows = count >= 4 * LANES ? count / LANES : 0;
    for (int i = 0; i < LANES && rows > 0; i++) lanes[i] = empty_accumulator(pass);
    if (rows > 0) add_columns(x, rows, LANES, LANES, squares, lanes);
    for (int i = 0; i < LANES && rows > 0; i++) merge(pass, into, &lanes[i]);
    add_column(x + rows * LANES, count - rows * LANES, 1, squares, into);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* A piece as an array [outer][length][inner], with the reduced axes as `length`. A piece is consecutive in the input
 * and in the output, so outputs and positions are consecutive too. */
struct piece_array {
    const double *x; /* or 64-bit integers */
    int64_t outer, length, inner;
    struct accumulator *out; /* the accumulator of the piece's first output */
    int64_t out_stride;      /* outputs from one outer index to the next */
    int64_t position;        /* the first element's position along the reduced axis */
};

/* Describes a piece of `box` as x[outer][length][inner], `length` along the reduced axis. */
static struct piece_array array_of(const struct truth_pass *pass, const struct box *box, const struct box *piece,
                                   const void *x) {
    const struct operand *in = &pass->geometry->in[0];
    struct piece_array array = {.x = x, .outer = 1, .length = 1, .inner = 1, .out = pass->acc, .out_stride = 1};
    bool inside = false; /* the axis follows the reduced axis */
    for (int axis = 0; axis < piece->rank; axis++) {
        if (pass->geometry->reduces[in->loop[axis]]) {
            array.length *= piece->count[axis];
            array.position += piece->start[axis] * pass->position_stride[axis];
            inside = true;
            continue;
        }
        array.out += (piece->start[axis] - box->start[axis]) * pass->out_stride[axis];
        if (inside) {
            array.inner *= piece->count[axis];
        } else {
            array.outer *= piece->count[axis];
            array.out_stride = pass->out_stride[axis];
        }
    }
    return array;
}

/* ---- variances --------------------------------------------------------------------------------------------------- */

/* Adds elements in one of the two passes of a variance. The sum of integers is kept in 128 bits, because long double
 * holds 64-bit integers, but not sums of them. */
static void add_deviations(const struct truth_pass *pass, const double *x, int64_t rows, int64_t pitch, int64_t columns,
                           struct accumulator *acc) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const void *at = x + r * pitch + c;
            long double element = pass->widened == FLOAT64 ? (long double)*(const double *)at
                                  : pass->widened == INT64 ? (long double)*(const int64_t *)at
                                                           : (long double)*(const uint64_t *)at;
            if (pass->skip_nan && isnan(element)) continue;
            if (pass->kind == KIND_MEAN) {
                acc[c].non_nans++;
                acc[c].value += element;
                if (pass->widened != FLOAT64)
                    acc[c].integer_sum +=
                        pass->widened == INT64 ? (wide_int) * (const int64_t *)at : (wide_int) * (const uint64_t *)at;
            } else {
                long double deviation = element - acc[c].mean;
                acc[c].deviation += deviation;
                acc[c].value += deviation * deviation;
            }
        }
}

/* Computes the means, after the first pass. */
static void finish_means(const struct truth_pass *pass, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        struct accumulator *acc = &pass->acc[i];
        long double sum = pass->widened == FLOAT64 ? acc->value : (long double)acc->integer_sum;
        acc->mean = sum / (long double)acc->non_nans;
        acc->value = 0;
    }
}

/* Sets a variance or standard deviation. The sum of the deviations corrects the rounding of the mean. */
static void set_variance(const struct truth_pass *pass, const struct accumulator *acc, struct truth *truth,
                         int64_t at) {
    const struct op_options *options = &pass->geometry->options;
    long double non_nans = (long double)acc->non_nans, divisor = non_nans - (long double)options->ddof;
    long double squares = acc->value - acc->deviation * acc->deviation / non_nans;
    if (squares < 0) squares = 0;
    long double variance = divisor > 0 ? squares / divisor : (long double)NAN;
    long double value = pass->operator_ == REDUCE_STD ? sqrtl(variance) : variance;
    truth_set(truth, at, value, isfinite(value) ? value : 0, INFINITY);
    /* Squares about another number than the mean are a few times larger. */
    if (squares > DBL_MAX / 64 / non_nans) truth->overflow[at] = OVERFLOW_ANY;
}

/* ---- elements of a piece ----------------------------------------------------------------------------------------- */

/* Merges one element after another into its column's state. Is inlined with constants for `operator_` and `widened`. */
static inline __attribute__((always_inline)) void add_states(enum reduce_operator operator_, enum dtype widened,
                                                             const double *x, int64_t rows, int64_t pitch,
                                                             int64_t columns, int64_t position, bool skip_nan,
                                                             struct accumulator *acc) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            struct reduce_state one = {.index = position + r};
            memcpy(&one.value, x + r * pitch + c, sizeof one.value); /* 64 bits of any type */
            if (operator_ == REDUCE_COUNT_NAN) one.value.i = widened == FLOAT64 && isnan(x[r * pitch + c]);
            if (skip_nan && isnan(x[r * pitch + c])) continue;
            reduce_state_merge(operator_, widened, &acc[c].state, &one);
        }
}

#define ADD_STATES(operator_)                                                                                          \
    case operator_:                                                                                                    \
        if (pass->widened == FLOAT64)                                                                                  \
            add_states(operator_, FLOAT64, x, rows, pitch, columns, position, pass->skip_nan, acc);                    \
        else if (pass->widened == INT64)                                                                               \
            add_states(operator_, INT64, x, rows, pitch, columns, position, false, acc);                               \
        else                                                                                                           \
            add_states(operator_, UINT64, x, rows, pitch, columns, position, false, acc);                              \
        break

/* Merges one element after another into its column's state, for any operator and type. */
static void add_any_states(const struct truth_pass *pass, const double *x, int64_t rows, int64_t pitch, int64_t columns,
                           int64_t position, struct accumulator *acc) {
    switch (pass->operator_) {
        ADD_STATES(REDUCE_SUM);
        ADD_STATES(REDUCE_PROD);
        ADD_STATES(REDUCE_MIN);
        ADD_STATES(REDUCE_MAX);
        ADD_STATES(REDUCE_ARGMIN);
        ADD_STATES(REDUCE_ARGMAX);
        ADD_STATES(REDUCE_COUNT_NAN);
    case REDUCE_MEAN:
    case REDUCE_NORM2:
    case REDUCE_VAR:
    case REDUCE_STD:
    case REDUCE_OPERATOR_COUNT: break; /* sums, norms and variances are no states */
    }
}

/* Adds elements [first, last) along the reduced axis, of outer index o, to the accumulators of outputs [from, to) along
 * inner. */
static void add_run(const struct truth_pass *pass, const struct piece_array *array, int64_t o, int64_t first,
                    int64_t last, int64_t from, int64_t to, struct accumulator *acc) {
    const double *x = array->x + (o * array->length + first) * array->inner + from;
    int64_t rows = last - first, pitch = array->inner, columns = to - from;
    bool squares = pass->operator_ == REDUCE_NORM2;
    if (pass->kind == KIND_STATE) {
        add_any_states(pass, x, rows, pitch, columns, array->position + first, acc);
    } else if (pass->kind == KIND_MEAN || pass->kind == KIND_DEVIATIONS) {
        add_deviations(pass, x, rows, pitch, columns, acc);
    } else if (pass->kind == KIND_SUM && pitch == 1) {
        add_neighbours(pass, x, rows, squares, acc);
    } else if (pass->kind == KIND_SUM) {
        add_columns(x, rows, pitch, columns, squares, acc);
    } else {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                acc[c].value *= x[r * pitch + c];
                normalize(&acc[c]);
            }
    }
}

/* Replaces NaNs by 0 in sums and by 1 in products, and counts the other elements. */
static void skip_nans(const struct truth_pass *pass, const struct piece_array *array, int64_t o, int64_t first,
                      int64_t last, int64_t from, int64_t to, struct accumulator *acc) {
    for (int64_t r = first; r < last; r++)
        for (int64_t c = from; c < to; c++) {
            double *x = (double *)array->x + (o * array->length + r) * array->inner + c;
            acc[c - from].non_nans += !isnan(*x);
            if (isnan(*x)) *x = pass->kind == KIND_PRODUCT;
        }
}

/* Adds one piece on all cores. A thread adds runs of RUN elements for up to COLUMNS outputs. The runs of one output
 * are merged in order, so the truth does not depend on the threads. */
static void add_piece(const struct truth_pass *pass, const struct box *box, const struct box *piece, const void *x,
                      struct accumulator *partial) {
    const struct piece_array array = array_of(pass, box, piece, x);
    int64_t outer = array.outer, inner = array.inner;
    int64_t runs = ceil_div(array.length, RUN), columns = ceil_div(inner, COLUMNS);
#pragma omp parallel for collapse(3) if (outer * array.length * inner > CPU_ALONE)
    for (int64_t o = 0; o < outer; o++)
        for (int64_t run = 0; run < runs; run++)
            for (int64_t column = 0; column < columns; column++) {
                int64_t from = column * COLUMNS, to = min_int64(inner, from + COLUMNS), first = run * RUN;
                struct accumulator *acc = array.out + o * array.out_stride + from;
                if (runs > 1) {
                    acc = partial + (o * runs + run) * inner + from;
                    for (int64_t i = from; i < to; i++) {
                        acc[i - from] = empty_accumulator(pass);
                        acc[i - from].mean = array.out[o * array.out_stride + i].mean;
                    }
                }
                if (pass->skip_nan && (pass->kind == KIND_SUM || pass->kind == KIND_PRODUCT))
                    skip_nans(pass, &array, o, first, min_int64(array.length, first + RUN), from, to, acc);
                add_run(pass, &array, o, first, min_int64(array.length, first + RUN), from, to, acc);
            }
    for (int64_t i = 0; runs > 1 && i < outer * runs * inner; i++)
        merge(pass, array.out + i / (runs * inner) * array.out_stride + i % inner, partial + i);
}

/* Returns the box of the input that feeds a box of the output, and sets the strides of `pass`. */
static struct box input_box(const struct geometry *geometry, const struct box *out, struct truth_pass *pass) {
    const struct operand *in = &geometry->in[0];
    struct box box = {.rank = in->shape.rank};
    int64_t out_stride = 1, position_stride = 1;
    int out_axis = out->rank;
    for (int axis = box.rank - 1; axis >= 0; axis--) {
        if (geometry->reduces[in->loop[axis]]) {
            box.count[axis] = in->shape.size[axis];
            pass->position_stride[axis] = position_stride;
            position_stride *= in->shape.size[axis];
        } else {
            out_axis--;
            box.start[axis] = out->start[out_axis];
            box.count[axis] = out->count[out_axis];
            pass->out_stride[axis] = out_stride;
            out_stride *= out->count[out_axis];
        }
    }
    return box;
}

/* Sets the truth of a product. A result from which underflow on the way has taken bits, or all of them, is right
 * too. */
static void set_product(const struct accumulator *product, double relative, struct truth *truth, int64_t i) {
    /* The exponent, in a range that int holds and that goes beyond long double's. */
    int64_t exponent = product->exponent < -40000 ? -40000 : product->exponent > 40000 ? 40000 : product->exponent;
    long double value = ldexpl(product->value, (int)exponent), magnitude = fabsl(value);
    /* Bits of the running product below float64's least normal number. */
    int64_t lost = -1021 - product->lowest_exponent;
    if (lost > 0 && isfinite(value)) magnitude *= 1 + ldexpl(DBL_EPSILON, (int)(lost > 52 ? 52 : lost)) / relative;
    truth_set(truth, i, value, magnitude, DBL_MAX);
    truth->overflow[i] = isfinite(value) && product->highest_exponent > 1024 ? OVERFLOW_ANY : OVERFLOW_NONE;
}

/* Converts the accumulators of `count` outputs to truths, from element `at` on. */
static void set_truths(const struct truth_pass *pass, int64_t count, struct truth *truth, int64_t at) {
    enum reduce_operator operator_ = pass->operator_;
    double relative = operations[OP_REDUCE]->tolerance(pass->geometry, ACCURACY_FULL).relative;
    for (int64_t i = 0; i < count; i++, at++) {
        const struct accumulator *acc = &pass->acc[i];
        long double total = (long double)(pass->skip_nan ? acc->non_nans : reduced_elements(pass->geometry));
        if (pass->kind == KIND_DEVIATIONS) {
            set_variance(pass, acc, truth, at);
        } else if (pass->kind == KIND_PRODUCT) {
            set_product(acc, relative, truth, at);
        } else if (pass->kind == KIND_STATE && pass->widened == FLOAT64 && pass->geometry->out.dtype != INT64) {
            double value = acc->state.index < 0 ? (double)NAN : acc->state.value.f; /* no sum: no overflow */
            truth_set(truth, at, value, fabs(value), INFINITY);
        } else if (pass->kind == KIND_STATE) {
            bool index = operator_ == REDUCE_ARGMIN || operator_ == REDUCE_ARGMAX;
            truth->integer[at] = index ? acc->state.index : acc->state.value.i;
        } else if (operator_ == REDUCE_MEAN) {
            truth_set(truth, at, acc->value / total, acc->magnitude / total, DBL_MAX / total);
        } else if (operator_ == REDUCE_NORM2) {
            long double norm = sqrtl(acc->value);
            truth_set(truth, at, norm, isfinite(norm) ? norm : 0, DBL_MAX); /* of one sign: infinities stay */
        } else {
            truth_set(truth, at, acc->value, acc->magnitude, DBL_MAX);
        }
    }
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

/* The kind of accumulators in the first pass. `in_double`: the elements are read as doubles. */
static enum kind first_kind(enum reduce_operator operator_, bool in_double) {
    if (reduce_is_variance(operator_)) return KIND_MEAN;
    if (reduce_selects(operator_) || !in_double || operator_ == REDUCE_COUNT_NAN) return KIND_STATE;
    return operator_ == REDUCE_PROD ? KIND_PRODUCT : KIND_SUM;
}

/* Computes the truth about a part of a box, and stores it from output number `at` on. `piece`: memory for what is read.
 * `accumulators`: one for each output of the part, then 2 * PIECE_ELEMENTS / RUN for the runs of a piece. */
static enum status reduce_part(const struct geometry *geometry, const struct host_reader *reader,
                               const struct box *part, struct piece *piece, struct accumulator *accumulators,
                               struct truth *truth, int64_t at, struct error *error) {
    enum reduce_operator operator_ = geometry->options.reduce;
    enum dtype dtype = geometry->in[0].dtype;
    bool in_double = reduce_in_double(operator_, dtype);
    struct truth_pass pass = {.geometry = geometry, .operator_ = operator_, .acc = accumulators};
    pass.skip_nan = geometry->options.skip_nan && dtype_is_float(dtype) && operator_ != REDUCE_COUNT_NAN;
    if (operator_ == REDUCE_COUNT_NAN && dtype_is_float(dtype))
        in_double = true; /* NaNs are counted in the widened floats */
    pass.kind = first_kind(operator_, in_double);
    pass.widened = in_double ? FLOAT64 : dtype_is_signed(dtype) ? INT64 : UINT64;
    struct box input = input_box(geometry, part, &pass);
    int64_t outputs = box_elements(part);
    for (int64_t i = 0; i < outputs; i++) pass.acc[i] = empty_accumulator(&pass);
    struct cut cut = pieces_of(&input);
    for (int passes = pass.kind == KIND_MEAN ? 2 : 1; passes > 0; passes--) {
        for (int64_t number = 0; number < cut.pieces; number++) {
            struct box box = cut_piece(&cut, number);
            TRY(piece_read(piece, geometry, reader, 0, &box, error));
            add_piece(&pass, &input, &box, in_double ? (void *)piece->value : (void *)piece->integer,
                      accumulators + outputs);
        }
        if (passes < 2) break;
        finish_means(&pass, outputs);
        pass.kind = KIND_DEVIATIONS;
    }
    set_truths(&pass, outputs, truth, at);
    return STATUS_OK;
}

enum status reduce_reference(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error) {
    struct cut cut = cut_box(box, NULL, OUTPUTS);
    struct truth_pass pass = {.geometry = geometry};
    struct box input = input_box(geometry, box, &pass);
    int64_t outputs = min_int64(OUTPUTS, box_elements(box)), runs = 2 * PIECE_ELEMENTS / RUN; /* per piece */
    struct piece piece;
    struct accumulator *accumulators = malloc((size_t)(outputs + runs) * sizeof *accumulators);
    if (!accumulators) return fail(error, STATUS_RUN, "no host memory left to compute the reference result");
    enum status status = piece_allocate(&piece, min_int64(PIECE_ELEMENTS, box_elements(&input)), error);
    for (int64_t number = 0, at = 0; number < cut.pieces && status == STATUS_OK; number++) {
        struct box part = cut_piece(&cut, number);
        status = reduce_part(geometry, reader, &part, &piece, accumulators, truth, at, error);
        at += box_elements(&part);
    }
    piece_free(&piece);
    free(accumulators);
    return status;
}
