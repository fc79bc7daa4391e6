/* compare.c - compares slices of elements in vectorised loops, and looks at single elements only in slices where the
 * loop finds an element that is wrong or not finite. */
#include "compare.h"

#include "../../kernels/core/axes.h"
#include "../../kernels/core/convert.h"
#include "../../kernels/core/cpu.h"
#include "../../kernels/core/reference.h"
#include "../base/text.h"
#include <math.h>
#include <string.h>

#define SLICE 2048 /* elements; the buffers of a slice fit into the L1 cache */

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Computes the largest error of a slice; NaN if an element neither equals the rounded truth nor is at a finite distance
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

/* The smallest number that rounds to infinity. For float64, which cannot represent it, the largest finite number. */
static double min_infinite(enum dtype dtype) {
    double largest = dtype_largest(dtype);
    return dtype == FLOAT64 ? largest : largest + ldexp(dtype_epsilon(dtype) / 2, ilogb(largest));
}

/* Half the distance between neighbouring numbers at `value`; 0 at infinity. */
static double half_spacing(enum dtype dtype, double value) {
    if (isinf(value)) return 0;
    return fmax(dtype_smallest(dtype), value == 0 ? 0 : ldexp(dtype_epsilon(dtype), ilogb(value))) / 2;
}

/* The error of element i at that distance from its truth: what exceeds the absolute tolerance and the truth's slack,
 * over the magnitude. */
static double relative_error(double distance, const struct truth *truth, int64_t i, const struct tolerance *tolerance) {
    double excess = distance - tolerance->absolute - (truth->slack ? truth->slack[i] : 0);
    return excess <= 0 ? 0 : excess / truth->magnitude[i];
}

/* The error of element i, a float `out` of type `stored`, which may differ from the type that it was computed in.
 * `right`: the truth as it would be stored. Infinite: the element is wrong with any tolerance. */
static double float_error(enum dtype computed, enum dtype stored, double out, double right, const struct truth *truth,
                          int64_t i, const struct tolerance *tolerance) {
    double value = truth->value[i];
    if (out == right || (isnan(out) && (isnan(right) || truth->overflow[i] != OVERFLOW_NONE))) return 0;
    if (isinf(out) && truth->overflow[i] == OVERFLOW_ANY) return 0;
    if (isnan(out) || !isfinite(value)) return INFINITY;
    double infinite = fmin(min_infinite(computed), min_infinite(stored));
    double number = isinf(out) ? copysign(infinite, out) : out;
    double conversion = stored == computed ? 0 : half_spacing(stored, out); /* the conversion may round by this much */
    double error = relative_error(fabs(number - value) - conversion, truth, i, tolerance);
    return isinf(out) && !(error <= tolerance->relative) ? INFINITY : error;
}

/* The largest error of elements [start, start + count), at most SLICE. Sets wrong[i], false before, if element start +
 * i is wrong. */
static double compare_floats(enum dtype dtype, const char *data, const struct truth *truth, int64_t start,
                             int64_t count, const struct tolerance *tolerance, bool *wrong) {
    double out[SLICE], rounded[SLICE], largest;
    char converted[SLICE * sizeof(double)];
    convert_to_double(dtype, data + start * (int64_t)dtype_size(dtype), count, out);
    convert_from_double(dtype, truth->value + start, count, converted);
    convert_to_double(dtype, converted, count, rounded);
    largest_error(count, out, rounded, truth->value + start, truth->magnitude + start, tolerance->absolute, &largest);
    if (largest <= tolerance->relative) return largest;
    largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double error = float_error(dtype, dtype, out[i], rounded[i], truth, start + i, tolerance);
        if (error > largest) largest = error;
        wrong[i] = !(error <= tolerance->relative);
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

/* Like compare_floats, for elements that must equal their truths: the error is 0 or infinite. */
static double compare_bits(enum dtype dtype, const char *data, const struct truth *truth, int64_t start, int64_t count,
                           bool *wrong) {
    int64_t out[SLICE], different;
    convert_to_integer(dtype, data + start * (int64_t)dtype_size(dtype), count, out);
    count_different(count, out, truth->integer + start, &different);
    if (different == 0) return 0;
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
        bool any_is_right = truth->overflow && truth->overflow[start + i] == OVERFLOW_ANY;
        wrong[i] = out[i] != truth->integer[start + i] && !any_is_right;
        any = any || wrong[i];
    }
    return any ? INFINITY : 0;
}

/* ---- outputs stored as another type ------------------------------------------------------------------------------ */

/* Converts the truth as a right output would be: to the type that is computed in, then to the stored type. */
static void right_elements(const struct geometry *geometry, enum dtype stored, const struct truth *truth, int64_t start,
                           int64_t count, void *to) {
    enum dtype computed = geometry->out.dtype;
    uint64_t right[SLICE];
    struct casts ignored = {0};
    if (truth->integer)
        for (int64_t i = 0; i < count; i++)
            dtype_store_integer(dtype_of_bits(computed), right, i, truth->integer[start + i]);
    else
        convert_from_double(computed, truth->value + start, count, right);
    convert_elements(computed, right, count, stored, to, &ignored);
}

/* The error of a stored integer: the distance from the truth to the nearest number that converts to `out`. Conversion
 * cuts off the fraction and wraps modulo 2^bits; NaN and infinity become 0. integral + steps is the nearest whole
 * number that wraps to `out`. */
static double integer_error(enum dtype computed, enum dtype stored, int64_t out, const struct truth *truth, int64_t i,
                            const struct tolerance *tolerance) {
    double value = truth->value[i], integral = trunc(value), fraction = value - integral;
    if (out == 0 && truth->overflow[i] != OVERFLOW_NONE) return 0;
    if (!isfinite(value)) return INFINITY;
    int above = 64 - 8 * (int)dtype_size(stored);
    uint64_t wrapped;
    struct casts ignored = {0};
    convert_elements(FLOAT64, &integral, 1, stored, &wrapped, &ignored);
    uint64_t apart = ((uint64_t)out - (uint64_t)dtype_load_integer(stored, &wrapped, 0)) << above;
    double steps = ldexp((double)(int64_t)apart, -above), distance = 0;
    if (steps > 0) distance = steps - fraction - (integral + steps > 0 ? 0 : 1);
    if (steps < 0) distance = fraction - steps - (integral + steps < 0 ? 0 : 1);
    if (out == 0) distance = fmin(distance, min_infinite(computed) - fabs(value));
    return relative_error(distance, truth, i, tolerance);
}

/* Like compare_floats and compare_bits, but for outputs that are stored as another type. */
static double compare_converted(const struct geometry *geometry, enum dtype stored, const char *data,
                                const struct truth *truth, int64_t start, int64_t count,
                                const struct tolerance *tolerance, bool *wrong) {
    enum dtype computed = geometry->out.dtype;
    uint64_t right[SLICE];
    size_t size = dtype_size(stored);
    const char *out = data + start * (int64_t)size;
    double largest = 0;
    right_elements(geometry, stored, truth, start, count, right);
    if (memcmp(out, right, (size_t)count * size) == 0) return 0;
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(out + i * (int64_t)size, (const char *)right + i * (int64_t)size, size) == 0) continue;
        bool any_is_right = truth->integer && truth->overflow && truth->overflow[start + i] == OVERFLOW_ANY;
        double error = truth->integer           ? (any_is_right ? 0 : INFINITY)
                       : dtype_is_float(stored) ? float_error(computed, stored, dtype_load(stored, out, i),
                                                              dtype_load(stored, right, i), truth, start + i, tolerance)
                                                : integer_error(computed, stored, dtype_load_integer(stored, out, i),
                                                                truth, start + i, tolerance);
        if (error > largest) largest = error;
        wrong[i] = !(error <= tolerance->relative);
    }
    return largest;
}

/* ---- a box ------------------------------------------------------------------------------------------------------- */

/* Finds the position of an element, given by its row-major index in the box, in the output's array; returns the array's
 * rank. */
static int element_position(const struct operand *out, const struct box *box, int64_t index, int64_t at[MAX_RANK]) {
    const struct axes *axes = &out->axes;
    int64_t unmerged[MAX_RANK] = {0};
    int rank = box->rank;
    for (int axis = rank - 1; axis >= 0; axis--) {
        at[axis] = box->start[axis] + index % box->count[axis];
        index /= box->count[axis];
    }
    if (operand_is_plain(out)) return rank;
    /* Splits the position along each merged axis into positions along the axes of the array, from the last on. */
    for (int group = axes->groups - 1, axis = rank = axes->rank; group >= 0; group--)
        for (int i = 0; i < axes->group[group]; i++, axis--) {
            unmerged[axis - 1] = at[group] % axes->size[axis - 1];
            at[group] /= axes->size[axis - 1];
        }
    memcpy(at, unmerged, sizeof unmerged);
    return rank;
}

/* Writes the position of an element in the output's array: "[3, 17]". */
static void element_place(const struct operand *out, const struct box *box, int64_t index, char text[96]) {
    int64_t at[MAX_RANK] = {0};
    int rank = element_position(out, box, index, at), length = snprintf(text, 96, "[");
    for (int axis = 0; axis < rank; axis++)
        length += snprintf(text + length, 96 - (size_t)length, "%s%lld", axis ? ", " : "", (long long)at[axis]);
    snprintf(text + length, 96 - (size_t)length, "]");
}

/* Adds the wrong elements `more` to `all`. */
static void wrong_join(struct wrong_elements *all, const struct wrong_elements *more) {
    for (int axis = 0; axis < more->rank; axis++) {
        all->first[axis] = all->count ? min_int64(all->first[axis], more->first[axis]) : more->first[axis];
        all->last[axis] = all->count ? -min_int64(-all->last[axis], -more->last[axis]) : more->last[axis];
    }
    all->rank = more->rank;
    all->count += more->count;
}

/* Adds the elements of a slice that are wrong; returns the index of the first in the box, or INT64_MAX. */
static int64_t wrong_add(struct wrong_elements *all, const struct operand *out, const struct box *box, int64_t start,
                         int64_t count, const bool *wrong) {
    int64_t first = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        struct wrong_elements one = {.count = 1};
        if (!wrong[i]) continue;
        if (first == INT64_MAX) first = start + i;
        one.rank = element_position(out, box, start + i, one.first);
        memcpy(one.last, one.first, sizeof one.last);
        wrong_join(all, &one);
    }
    return first;
}

void compare_finish(struct verdict *verdict) {
    const struct wrong_elements *wrong = &verdict->wrong;
    size_t size = sizeof verdict->message, length = strlen(verdict->message);
    if (verdict->right) return;
    length += (size_t)snprintf(verdict->message + length, size - length, " (%lld of %lld %selements %s wrong",
                               (long long)wrong->count, (long long)verdict->compared,
                               strcmp(verdict->how, "full") == 0 ? "" : "checked ", wrong->count == 1 ? "is" : "are");
    for (int axis = 0; axis < wrong->rank && wrong->count > 1 && length < size; axis++)
        length += (size_t)snprintf(verdict->message + length, size - length, "%s%lld:%lld%s", axis ? ", " : ", in [",
                                   (long long)wrong->first[axis], (long long)wrong->last[axis] + 1,
                                   axis + 1 == wrong->rank ? "]" : "");
    if (length < size) snprintf(verdict->message + length, size - length, ", largest error %.2g)", verdict->error);
}

/* Writes the value of element i. */
static void element_print(enum dtype dtype, const void *data, int64_t i, char text[32]) {
    if (dtype_is_float(dtype))
        value_text(dtype_load(dtype, data, i), text);
    else
        snprintf(text, 32, dtype_is_signed(dtype) ? "%lld" : "%llu", (long long)dtype_load_integer(dtype, data, i));
}

/* Writes a sentence about the first wrong element: its position, its value and the right value. */
static void write_message(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                          const struct truth *truth, int64_t i, struct verdict *verdict) {
    enum dtype dtype = geometry->out.dtype;
    char position[96], found[32], expected[32];
    bool same_number = false; /* zeros of different sign, or NaNs */
    element_place(&geometry->out, box, i, position);
    element_print(stored, data, i, found);
    if (stored != dtype) {
        uint64_t right;
        right_elements(geometry, stored, truth, i, 1, &right);
        element_print(stored, &right, 0, expected);
    } else if (truth->integer) {
        double out = dtype_load(dtype, data, i), value = dtype_load(dtype, &truth->integer[i], 0);
        same_number = dtype_is_float(dtype) && (out == value || (isnan(out) && isnan(value)));
        element_print(dtype, &truth->integer[i], 0, expected);
    } else {
        value_text(truth->value[i], expected);
        if (strcmp(found, expected) == 0) { /* they differ in a later digit */
            snprintf(found, sizeof found, "%.17g", dtype_load(stored, data, i));
            snprintf(expected, sizeof expected, "%.17g", truth->value[i]);
        }
    }
    snprintf(verdict->message, sizeof verdict->message, "%s is %s, should be %s%s", position, found, expected,
             same_number ? " with other bits" : "");
}

void compare_elements(const struct geometry *geometry, enum dtype stored, const void *data, const struct box *box,
                      const struct truth *truth, const struct tolerance *tolerance, struct verdict *verdict) {
    enum dtype dtype = geometry->out.dtype;
    enum dtype bits = operations[geometry->op]->exact ? dtype_of_bits(dtype) : dtype;
    int64_t elements = box_elements(box), first = INT64_MAX;
    double largest = 0;
    struct wrong_elements *all = &verdict->wrong;
    verdict->compared += elements;
#pragma omp parallel for reduction(max : largest) reduction(min : first) if (elements > CPU_ALONE)
    for (int64_t start = 0; start < elements; start += SLICE) {
        int64_t count = min_int64(SLICE, elements - start);
        bool wrong[SLICE] = {false};
        struct wrong_elements here = {.count = 0};
        double error = stored != dtype
                           ? compare_converted(geometry, stored, data, truth, start, count, tolerance, wrong)
                       : truth->integer ? compare_bits(bits, data, truth, start, count, wrong)
                                        : compare_floats(dtype, data, truth, start, count, tolerance, wrong);
        if (error > largest) largest = error;
        if (!memchr(wrong, 1, (size_t)count)) continue;
        first = min_int64(first, wrong_add(&here, &geometry->out, box, start, count, wrong));
#pragma omp critical
        wrong_join(all, &here);
    }
    if (largest > verdict->error) verdict->error = largest;
    if (first == INT64_MAX || !verdict->right) return;
    verdict->right = false;
    write_message(geometry, stored, data, box, truth, first, verdict);
}
