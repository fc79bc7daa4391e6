/* compare.c - compares runs of elements in vectorised loops, and looks at single elements only in runs where the loop
 * finds an element that is wrong or not finite. */
#include "compare.h"

#include "../../kernels/core/axes.h"
#include "../../kernels/core/convert.h"
#include "../../kernels/core/cpu.h"
#include "../../kernels/core/reference.h"
#include <math.h>
#include <string.h>

#define RUN 2048 /* elements; a run's buffers fit into the L1 cache */

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Computes the largest error of a run; NaN if an element neither equals the rounded truth nor is at a finite distance
 * from it. */
CPU_BODY largest_error_body(int64_t count, const double *out, const double *rounded, const double *value,
                            const double *magnitude, double absolute, double *result) {
    double largest = 0, odd = 0;
#pragma omp simd reduction(max : largest) reduction(+ : odd)
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(out[i] - value[i]), excess = difference - absolute;
        bool same = out[i] == rounded[i], slight = excess <= 0;
        double error = (same | slight) ? 0 : excess / magnitude[i];
        odd += (same | (difference < INFINITY)) ? 0 : 1; /* NaN fails the comparison and counts */
        largest = error > largest ? error : largest;
    }
    *result = odd > 0 ? NAN : largest;
}
CPU_VERSIONS(largest_error,
             (int64_t count, const double *out, const double *rounded, const double *value, const double *magnitude,
              double absolute, double *result),
             (count, out, rounded, value, magnitude, absolute, result))

static double rounded_to(enum dtype dtype, double value) {
    uint64_t room;
    dtype_store(dtype, &room, 0, value);
    return dtype_load(dtype, &room, 0);
}

/* The smallest number that rounds to infinity. For float64, which cannot represent it, the largest finite number. */
static double least_infinite(enum dtype dtype) {
    double largest = dtype_largest(dtype);
    return dtype == FLOAT64 ? largest : largest + ldexp(dtype_epsilon(dtype) / 2, ilogb(largest));
}

static double element_error(enum dtype dtype, double out, const struct truth *truth, int64_t i,
                            const struct tolerance *tolerance) {
    double value = truth->value[i], rounded = rounded_to(dtype, value);
    if (out == rounded || (isnan(out) && (isnan(rounded) || truth->overflow[i] != OVERFLOW_NONE))) return 0;
    if (isinf(out) && truth->overflow[i] == OVERFLOW_ANY) return 0;
    if (isnan(out) || !isfinite(value)) return INFINITY;
    double number = isinf(out) ? copysign(least_infinite(dtype), out) : out;
    double excess = fabs(number - value) - tolerance->absolute;
    double error = excess <= 0 ? 0 : excess / truth->magnitude[i];
    return isinf(out) && !(error <= tolerance->relative) ? INFINITY : error;
}

/* The largest error of elements [start, start + count). *wrong: the index of the first wrong element; -1: none. */
static double compare_floats(enum dtype dtype, const char *data, const struct truth *truth, int64_t start,
                             int64_t count, const struct tolerance *tolerance, int64_t *wrong) {
    double out[RUN], rounded[RUN], largest;
    char room[RUN * sizeof(double)];
    convert_to_double(dtype, data + start * (int64_t)dtype_size(dtype), count, out);
    convert_from_double(dtype, truth->value + start, count, room);
    convert_to_double(dtype, room, count, rounded);
    *wrong = -1;
    largest_error(count, out, rounded, truth->value + start, truth->magnitude + start, tolerance->absolute, &largest);
    if (largest <= tolerance->relative) return largest;
    largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double error = element_error(dtype, out[i], truth, start + i, tolerance);
        if (error > largest) largest = error;
        if (!(error <= tolerance->relative) && *wrong < 0) *wrong = start + i;
    }
    return largest;
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

CPU_BODY count_different_body(int64_t count, const int64_t *a, const int64_t *b, int64_t *result) {
    int64_t different = 0;
#pragma omp simd reduction(+ : different)
    for (int64_t i = 0; i < count; i++) different += a[i] != b[i];
    *result = different;
}
CPU_VERSIONS(count_different, (int64_t count, const int64_t *a, const int64_t *b, int64_t *result),
             (count, a, b, result))

static double compare_bits(enum dtype dtype, const char *data, const struct truth *truth, int64_t start, int64_t count,
                           int64_t *wrong) {
    int64_t out[RUN], different;
    convert_to_integer(dtype, data + start * (int64_t)dtype_size(dtype), count, out);
    count_different(count, out, truth->integer + start, &different);
    *wrong = -1;
    if (different == 0) return 0;
    for (int64_t i = 0; i < count && *wrong < 0; i++)
        if (out[i] != truth->integer[start + i]) *wrong = start + i;
    return INFINITY;
}

/* ---- outputs stored as another type ------------------------------------------------------------------------------ */

/* Converts the truth as a right output would be: to the type that is computed in, then to the stored type. */
static void right_elements(const struct geometry *geometry, enum dtype stored, const struct truth *truth, int64_t start,
                           int64_t count, void *to) {
    enum dtype computed = geometry->out.dtype;
    uint64_t right[RUN];
    struct casts ignored = {0};
    if (truth->integer)
        for (int64_t i = 0; i < count; i++)
            dtype_store_integer(dtype_of_bits(computed), right, i, truth->integer[start + i]);
    else
        convert_from_double(computed, truth->value + start, count, right);
    convert_elements(computed, right, count, stored, to, &ignored);
}

static double half_spacing(enum dtype dtype, double value) {
    if (isinf(value)) return 0;
    return fmax(dtype_least(dtype), value == 0 ? 0 : ldexp(dtype_epsilon(dtype), ilogb(value))) / 2;
}

static double relative_error(double distance, const struct truth *truth, int64_t i, const struct tolerance *tolerance) {
    double excess = distance - tolerance->absolute;
    return excess <= 0 ? 0 : excess / truth->magnitude[i];
}

/* The error of a stored float. `right`: the truth as it would be stored. */
static double float_error(enum dtype computed, enum dtype stored, double out, double right, const struct truth *truth,
                          int64_t i, const struct tolerance *tolerance) {
    double value = truth->value[i];
    if (out == right || (isnan(out) && (isnan(right) || truth->overflow[i] != OVERFLOW_NONE))) return 0;
    if (isinf(out) && truth->overflow[i] == OVERFLOW_ANY) return 0;
    if (isnan(out) || !isfinite(value)) return INFINITY;
    double infinite = fmin(least_infinite(computed), least_infinite(stored));
    double number = isinf(out) ? copysign(infinite, out) : out;
    double error = relative_error(fabs(number - value) - half_spacing(stored, out), truth, i, tolerance);
    return isinf(out) && !(error <= tolerance->relative) ? INFINITY : error;
}

/* The error of a stored integer: the distance from the truth to the nearest number that converts to `out`. Conversion
 * cuts off the fraction and takes the rest modulo 2^bits; NaN and infinity become 0. */
static double integer_error(enum dtype computed, enum dtype stored, int64_t out, const struct truth *truth, int64_t i,
                            const struct tolerance *tolerance) {
    double value = truth->value[i], whole = trunc(value), fraction = value - whole;
    if (out == 0 && truth->overflow[i] != OVERFLOW_NONE) return 0;
    if (!isfinite(value)) return INFINITY;
    int above = 64 - 8 * (int)dtype_size(stored);
    uint64_t wrapped;
    struct casts ignored = {0};
    convert_elements(FLOAT64, &whole, 1, stored, &wrapped, &ignored);
    uint64_t apart = ((uint64_t)out - (uint64_t)dtype_load_integer(stored, &wrapped, 0)) << above;
    double steps = ldexp((double)(int64_t)apart, -above), distance = 0;
    if (steps > 0) distance = steps - fraction - (whole + steps > 0 ? 0 : 1);
    if (steps < 0) distance = fraction - steps - (whole + steps < 0 ? 0 : 1);
    if (out == 0) distance = fmin(distance, least_infinite(computed) - fabs(value));
    return relative_error(distance, truth, i, tolerance);
}

/* As compare_floats and compare_bits, for outputs that are stored as another type. */
static double compare_converted(const struct geometry *geometry, enum dtype stored, const char *data,
                                const struct truth *truth, int64_t start, int64_t count,
                                const struct tolerance *tolerance, int64_t *wrong) {
    enum dtype computed = geometry->out.dtype;
    uint64_t right[RUN];
    size_t size = dtype_size(stored);
    const char *out = data + start * (int64_t)size;
    double largest = 0;
    *wrong = -1;
    right_elements(geometry, stored, truth, start, count, right);
    if (memcmp(out, right, (size_t)count * size) == 0) return 0;
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(out + i * (int64_t)size, (const char *)right + i * (int64_t)size, size) == 0) continue;
        double error = truth->integer           ? INFINITY
                       : dtype_is_float(stored) ? float_error(computed, stored, dtype_load(stored, out, i),
                                                              dtype_load(stored, right, i), truth, start + i, tolerance)
                                                : integer_error(computed, stored, dtype_load_integer(stored, out, i),
                                                                truth, start + i, tolerance);
        if (error > largest) largest = error;
        if (!(error <= tolerance->relative) && *wrong < 0) *wrong = start + i;
    }
    return largest;
}

/* ---- a box ------------------------------------------------------------------------------------------------------- */

/* Writes the position of an element, given by its row-major index in the box, in the output's array: "[3, 17]". */
static void element_place(const struct operand *out, const struct box *box, int64_t index, char text[96]) {
    const struct axes *axes = &out->axes;
    int64_t at[MAX_RANK] = {0}, apart[MAX_RANK] = {0};
    int rank = box->rank;
    for (int axis = rank - 1; axis >= 0; axis--) {
        at[axis] = box->start[axis] + index % box->count[axis];
        index /= box->count[axis];
    }
    if (!operand_is_plain(out)) {
        for (int group = axes->groups - 1, axis = rank = axes->rank; group >= 0; group--)
            for (int i = 0; i < axes->group[group]; i++, axis--) {
                apart[axis - 1] = at[group] % axes->size[axis - 1];
                at[group] /= axes->size[axis - 1];
            }
        memcpy(at, apart, sizeof at);
    }
    int length = snprintf(text, 96, "[");
    for (int axis = 0; axis < rank; axis++)
        length += snprintf(text + length, 96 - (size_t)length, "%s%lld", axis ? ", " : "", (long long)at[axis]);
    snprintf(text + length, 96 - (size_t)length, "]");
}

static void element_print(enum dtype dtype, const void *data, int64_t i, char text[32]) {
    if (dtype_is_float(dtype))
        snprintf(text, 32, "%.9g", dtype_load(dtype, data, i));
    else
        snprintf(text, 32, dtype_is_signed(dtype) ? "%lld" : "%llu", (long long)dtype_load_integer(dtype, data, i));
}

static void write_message(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                          const struct truth *truth, int64_t i, struct verdict *verdict) {
    enum dtype dtype = geometry->out.dtype;
    char place[96], is[32], should[32];
    element_place(&geometry->out, box, i, place);
    if (stored != dtype) {
        uint64_t right;
        right_elements(geometry, stored, truth, i, 1, &right);
        element_print(stored, data, i, is);
        element_print(stored, &right, 0, should);
        snprintf(verdict->message, sizeof verdict->message, "%s is %s, should be %s", place, is, should);
        return;
    }
    if (!dtype_is_float(dtype)) {
        snprintf(verdict->message, sizeof verdict->message,
                 dtype_is_signed(dtype) ? "%s is %lld, should be %lld" : "%s is %llu, should be %llu", place,
                 (long long)dtype_load_integer(dtype, data, i),
                 (long long)dtype_load_integer(dtype, &truth->integer[i], 0));
        return;
    }
    double out = dtype_load(dtype, data, i);
    double value = truth->integer ? dtype_load(dtype, &truth->integer[i], 0) : truth->value[i];
    bool bits = truth->integer && (out == value || (isnan(out) && isnan(value))); /* zeros of different sign, or NaNs */
    snprintf(verdict->message, sizeof verdict->message, "%s is %.9g, should be %.9g%s", place, out, value,
             bits ? " with other bits" : "");
}

void compare_elements(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict) {
    enum dtype dtype = geometry->out.dtype;
    enum dtype bits = operations[geometry->op]->exact ? dtype_of_bits(dtype) : dtype;
    int64_t elements = box_elements(box), first = INT64_MAX;
    double largest = 0;
#pragma omp parallel for reduction(max : largest) reduction(min : first)
    for (int64_t start = 0; start < elements; start += RUN) {
        int64_t count = min_int64(RUN, elements - start), wrong;
        double error = stored != dtype
                           ? compare_converted(geometry, stored, data, truth, start, count, tolerance, &wrong)
                       : truth->integer ? compare_bits(bits, data, truth, start, count, &wrong)
                                        : compare_floats(dtype, data, truth, start, count, tolerance, &wrong);
        if (error > largest) largest = error;
        if (wrong >= 0 && wrong < first) first = wrong;
    }
    if (largest > verdict->error) verdict->error = largest;
    if (first == INT64_MAX || !verdict->right) return;
    verdict->right = false;
    write_message(geometry, stored, data, box, truth, first, verdict);
}
