/* reference.c - reads inputs for the references, and allocates and fills truths. */
#include "reference.h"

#include "convert.h"
#include "cpu.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define CONVERTED (INT64_C(1) << 14) /* elements that a thread converts at a time */

/* Returns the bytes of `elements` 64-bit numbers and of one more, since malloc(0) may return NULL. */
static size_t bytes_of(int64_t elements) {
    return ((size_t)elements + 1) * 8;
}

enum status host_reader_get(const struct host_reader *reader, int input, const struct box *box, void *data,
                            const void **at, struct error *error) {
    *at = reader->lend ? reader->lend(reader->context, input, box) : NULL;
    if (*at) return STATUS_OK;
    *at = data;
    return reader->read(reader->context, input, box, data, error);
}

struct cut pieces_of(const struct box *box) {
    return cut_box(box, NULL, PIECE_ELEMENTS);
}

enum status piece_allocate(struct piece *piece, int64_t elements, struct error *error) {
    size_t bytes = bytes_of(elements);
    *piece = (struct piece){malloc(bytes), malloc(bytes), malloc(bytes)};
    if (piece->raw && piece->value && piece->integer) return STATUS_OK;
    piece_free(piece);
    return fail(error, STATUS_RUN, "no host memory left to compute the reference result: %zu bytes", 3 * bytes);
}

void piece_free(struct piece *piece) {
    free(piece->raw);
    free(piece->value);
    free(piece->integer);
    *piece = (struct piece){NULL, NULL, NULL};
}

enum status piece_read(struct piece *piece, const struct geometry *geometry, const struct host_reader *reader,
                       int input, const struct box *box, struct error *error) {
    enum dtype dtype = geometry->in[input].dtype;
    const void *from;
    TRY(host_reader_get(reader, input, box, piece->raw, &from, error));
    int64_t elements = box_elements(box);
#pragma omp parallel for if (elements > CONVERTED) /* idle OpenMP threads would spin while others read */
    for (int64_t at = 0; at < elements; at += CONVERTED) {
        const char *raw = (const char *)from + at * (int64_t)dtype_size(dtype);
        int64_t count = min_int64(CONVERTED, elements - at);
        convert_to_double(dtype, raw, count, piece->value + at);
        if (!dtype_is_float(dtype)) convert_to_integer(dtype, raw, count, piece->integer + at);
    }
    return STATUS_OK;
}

enum status truth_allocate(const struct geometry *geometry, int64_t elements, struct truth *truth,
                           struct error *error) {
    bool as_integers = operations[geometry->op]->exact || !dtype_is_float(geometry->out.dtype);
    size_t bytes = bytes_of(elements);
    *truth = (struct truth){0};
    if (as_integers) {
        truth->integer = malloc(bytes);
        bool ambiguous_integers = operations[geometry->op]->ambiguous_integers;
        if (ambiguous_integers) truth->overflow = malloc((size_t)elements + 1);
        if (truth->integer && (truth->overflow || !ambiguous_integers)) return STATUS_OK;
    } else {
        truth->value = malloc(bytes);
        truth->magnitude = malloc(bytes);
        truth->overflow = malloc((size_t)elements + 1);
        if (truth->value && truth->magnitude && truth->overflow) return STATUS_OK;
    }
    truth_free(truth);
    return fail(error, STATUS_RUN, "no host memory left to compute %lld reference elements", (long long)elements);
}

void truth_free(struct truth *truth) {
    free(truth->value);
    free(truth->magnitude);
    free(truth->overflow);
    free(truth->integer);
    free(truth->slack);
    *truth = (struct truth){0};
}

void truth_set(struct truth *truth, int64_t i, long double value, long double magnitude, long double limit) {
    /* A value between DBL_MAX and 2^1024 (and 2^-40 of that above, for the error of long double) may round to DBL_MAX
     * or to infinity, so both are right. It counts as DBL_MAX. */
    bool barely = fabsl(value) > DBL_MAX && fabsl(value) < 0x1.0000000001p1024L;
    truth->value[i] = barely ? copysign(DBL_MAX, (double)value) : (double)value;
    bool exceeds = !isnan(value) && magnitude > 0.99L * limit; /* 0.99 allows for the roundings on the way */
    truth->overflow[i] = !exceeds ? OVERFLOW_NONE : isinf(value) ? OVERFLOW_NAN : OVERFLOW_ANY;
    if (exceeds && magnitude > limit) magnitude = limit;
    if (magnitude > DBL_MAX) magnitude = DBL_MAX;
    truth->magnitude[i] = (double)magnitude;
}
