/* reference.c - reading inputs for the references. */
#include "reference.h"

#include "convert.h"
#include "cpu.h"
#include <stdlib.h>

#define CONVERTED (INT64_C(1) << 14) /* elements at a time */

/* How large a piece is along each axis: whole trailing axes while they fit. */
static void piece_size(const struct box *box, int64_t size[MAX_RANK]) {
    int64_t room = PIECE_ELEMENTS;
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        size[axis] = min_int64(box->count[axis], room > 0 ? room : 1);
        room /= size[axis] > 0 ? size[axis] : 1;
    }
}

int64_t piece_count(const struct box *box) {
    if (box_elements(box) == 0) return 0;
    int64_t size[MAX_RANK], pieces = 1;
    piece_size(box, size);
    for (int axis = 0; axis < box->rank; axis++) pieces *= ceil_div(box->count[axis], size[axis]);
    return pieces;
}

struct box piece_box(const struct box *box, int64_t number) {
    int64_t size[MAX_RANK];
    struct box piece = {.rank = box->rank};
    piece_size(box, size);
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        int64_t pieces = ceil_div(box->count[axis], size[axis]), before = number % pieces * size[axis];
        piece.start[axis] = box->start[axis] + before;
        piece.count[axis] = min_int64(size[axis], box->count[axis] - before);
        number /= pieces;
    }
    return piece;
}

enum status piece_allocate(struct piece *piece, int64_t elements, struct error *error) {
    size_t bytes = (size_t)elements * 8 + 8;
    *piece = (struct piece){malloc(bytes), malloc(bytes), malloc(bytes)};
    if (piece->raw && piece->value && piece->integer) return STATUS_OK;
    piece_free(piece);
    return fail(error, STATUS_RUN, "no host memory for the reference: %zu bytes", 3 * bytes);
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
    enum status status = reader->read(reader->context, input, box, piece->raw, error);
    if (status != STATUS_OK) return status;
    int64_t elements = box_elements(box);
#pragma omp parallel for
    for (int64_t at = 0; at < elements; at += CONVERTED) {
        const char *raw = (const char *)piece->raw + at * (int64_t)dtype_size(dtype);
        int64_t count = min_int64(CONVERTED, elements - at);
        convert_to_double(dtype, raw, count, piece->value + at);
        if (!dtype_is_float(dtype)) convert_to_integer(dtype, raw, count, piece->integer + at);
    }
    return STATUS_OK;
}
