/* array.c - operands wherever they are, and their hash. */
#include "array.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SEGMENT = 1024, BAND_BYTES = 16 << 20 };

enum status array_read(struct array *array, const struct box *box, void *data, struct error *error) {
    if (array->input && array->input->random) {
        random_fill(&array->input->terms, &array->shape, array->dtype, box, data);
        return STATUS_OK;
    }
    if (!array->dataset) return fail(error, STATUS_IO, "the result of '%s' was not stored", array->name);
    struct box in_file = *box;
    in_file.start[0] += array->first_row;
    return h5_read(array->dataset, &in_file, data, error);
}

/* Sums modulo 2^128 do not care for order: boxes and threads may come as they like. */
static void add(XXH128_hash_t *sum, XXH128_hash_t term) {
    uint64_t low = sum->low64 + term.low64;
    sum->high64 += term.high64 + (low < term.low64);
    sum->low64 = low;
}

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

/* The size of the boxes to read in: at most BAND_BYTES, cut between segments and, where that can be, between chunks. */
static struct box band_shape(const struct array *array) {
    const struct shape *shape = &array->shape;
    const struct shape *chunk = array->dataset ? &array->dataset->chunk : NULL;
    struct box band = {.rank = shape->rank};
    int last = shape->rank - 1;
    int64_t room = BAND_BYTES / (int64_t)dtype_size(array->dtype), unit[MAX_RANK];
    int64_t units = 1; /* elements of one column of chunks' leading axes */
    for (int i = 0; i < last; i++) {
        unit[i] = chunk && chunk->rank ? at_most(at_most(chunk->size[i], shape->size[i]), room / units) : 1;
        if (unit[i] < 1) unit[i] = 1;
        units *= unit[i];
    }
    int64_t columns = room / units / SEGMENT * SEGMENT;
    band.count[last] = at_most(shape->size[last], columns > SEGMENT ? columns : SEGMENT);
    room /= band.count[last];
    for (int i = last; i-- > 0;) {
        units /= unit[i];
        int64_t count = room / units / unit[i] * unit[i];
        band.count[i] = at_most(shape->size[i], count > 1 ? count : at_most(unit[i], room > 1 ? room : 1));
        room /= band.count[i];
    }
    return band;
}

/* Adds the hashes of all segments of a box, which begins at a multiple of SEGMENT along the last axis. */
static void hash_box(const struct array *array, const struct box *box, const char *data, XXH128_hash_t *sum) {
    int last = box->rank - 1;
    int64_t columns = box->count[last], rows = box_elements(box) / columns;
    int64_t matrix_rows = box->rank == 3 ? box->count[1] : rows, size = (int64_t)dtype_size(array->dtype);
    int64_t segments_in_row = (array->shape.size[last] + SEGMENT - 1) / SEGMENT;
#pragma omp parallel
    {
        XXH128_hash_t own = {0, 0};
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            int64_t row = 0; /* its number in the whole array */
            if (box->rank == 2) row = box->start[0] + r;
            if (box->rank == 3)
                row = (box->start[0] + r / matrix_rows) * array->shape.size[1] + box->start[1] + r % matrix_rows;
            int64_t number = row * segments_in_row + box->start[last] / SEGMENT;
            for (int64_t c = 0; c < columns; c += SEGMENT, number++)
                add(&own, XXH3_128bits_withSeed(data + (r * columns + c) * size,
                                                (size_t)(at_most(SEGMENT, columns - c) * size), (XXH64_hash_t)number));
        }
#pragma omp critical(array_hash)
        add(sum, own);
    }
}

enum status array_hash(struct array *array, struct error *error) {
    XXH128_hash_t sum = {0, 0};
    enum status status = STATUS_OK;
    if (shape_elements(&array->shape) > 0) {
        struct box box = band_shape(array), band = box;
        const int64_t *size = array->shape.size;
        char *data = malloc((size_t)box_elements(&band) * dtype_size(array->dtype));
        if (!data) return fail(error, STATUS_IO, "no memory left to hash input '%s'", array->name);
        for (int axis = 0; axis >= 0 && !status;) {
            for (int i = 0; i < box.rank; i++) box.count[i] = at_most(band.count[i], size[i] - box.start[i]);
            status = array_read(array, &box, data, error);
            if (!status) hash_box(array, &box, data, &sum);
            /* The next box, last axis fastest. */
            for (axis = box.rank - 1; axis >= 0; axis--) {
                box.start[axis] += band.count[axis];
                if (box.start[axis] < size[axis]) break;
                box.start[axis] = 0;
            }
        }
        free(data);
    }
    if (!status)
        snprintf(array->hash, sizeof array->hash, "%016llx%016llx", (unsigned long long)sum.high64,
                 (unsigned long long)sum.low64);
    return status;
}
