/* overflows.c - scans results for infinities, and the inputs for infinities that explain them. */
#include "overflows.h"

#include "../../kernels/core/convert.h"

#include "../base/fail.h"
#include "../base/workers.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLICE (INT64_C(1) << 15) /* elements that one thread scans at a time */
#define PIECE (INT64_C(1) << 21) /* elements of an input that are read at a time */

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* Allocates bits for `count` elements, all 0. The caller frees. */
static enum status bits_allocate(int64_t count, unsigned char **bits, struct error *error) {
    *bits = calloc((size_t)(count / 8 + 1), 1);
    if (*bits) return STATUS_OK;
    return fail(error, STATUS_RUN, "no host memory to count the elements that overflowed");
}

static void bit_set(unsigned char *bits, int64_t at) {
    bits[at / 8] = (unsigned char)(bits[at / 8] | 1 << at % 8);
}

static bool bit_get(const unsigned char *bits, int64_t at) {
    return bits[at / 8] >> at % 8 & 1;
}

/* ---- scanning ---------------------------------------------------------------------------------------------------- */

struct overflows overflows_begin(const struct run *run, const struct geometry *geometry) {
    const struct operation *operation = operations[geometry->op];
    /* Operators that only select elements, such as min, have tolerance 0. */
    bool computes = dtype_is_float(geometry->out.dtype) && !operation->exact &&
                    operation->tolerance(geometry, ACCURACY_FULL).relative > 0;
    return (struct overflows){.geometry = computes && !run->kernel->is_roof ? geometry : NULL};
}

/* A search for infinities in slices, on all cores. */
struct scan {
    enum dtype dtype;
    int64_t count;
    const char *data;
    atomic_llong found;
};

static void scan_slice(void *context, int64_t item, int thread) {
    (void)thread;
    struct scan *scan = context;
    int64_t start = item * SLICE, remaining = scan->count - start;
    int64_t found = convert_infinities(scan->dtype, scan->data + start * (int64_t)dtype_size(scan->dtype),
                                       remaining < SLICE ? remaining : SLICE);
    if (found) atomic_fetch_add(&scan->found, found);
}

static bool has_infinities(enum dtype dtype, int64_t count, const void *data) {
    struct scan scan = {dtype, count, data, 0};
    workers_run((count + SLICE - 1) / SLICE, scan_slice, &scan);
    return scan.found > 0;
}

/* Advances to the next element of a box in row-major order. */
static void advance(const struct box *box, int64_t at[MAX_RANK]) {
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        if (++at[axis] < box->start[axis] + box->count[axis]) return;
        at[axis] = box->start[axis];
    }
}

/* The row-major index of an element by the axes of its operand that are not reduced. */
static int64_t kept_index(const struct geometry *geometry, const struct operand *operand, const int64_t at[LOOPS]) {
    int64_t index = 0;
    for (int axis = 0; axis < operand->shape.rank; axis++) {
        enum loop loop = operand->loop[axis];
        if (!geometry->reduces[loop]) index = index * operand->shape.size[axis] + at[loop];
    }
    return index;
}

/* The number of elements along the axes of an operand that are not reduced: kept_index is below it. */
static int64_t kept_elements(const struct geometry *geometry, const struct operand *operand) {
    int64_t elements = 1;
    for (int axis = 0; axis < operand->shape.rank; axis++)
        if (!geometry->reduces[operand->loop[axis]]) elements *= operand->shape.size[axis];
    return elements;
}

/* Sets the bits of a packed box's infinities, by kept_index. */
static void mark_infinities(const struct geometry *geometry, const struct operand *operand, const struct box *box,
                            const void *data, unsigned char *bits) {
    int64_t at[MAX_RANK], loops[LOOPS] = {0}, count = box_elements(box);
    memcpy(at, box->start, sizeof at);
    for (int64_t i = 0; i < count; i++, advance(box, at)) {
        if (!isinf(dtype_load(operand->dtype, data, i))) continue;
        for (int axis = 0; axis < box->rank; axis++) loops[operand->loop[axis]] = at[axis];
        bit_set(bits, kept_index(geometry, operand, loops));
    }
}

enum status overflows_scan(struct overflows *overflows, const struct box *box, const void *data, struct error *error) {
    const struct geometry *geometry = overflows->geometry;
    if (!geometry || !has_infinities(geometry->out.dtype, box_elements(box), data)) return STATUS_OK;
    if (!overflows->infinite) TRY(bits_allocate(kept_elements(geometry, &geometry->out), &overflows->infinite, error));
    mark_infinities(geometry, &geometry->out, box, data, overflows->infinite);
    return STATUS_OK;
}

void overflows_end(struct overflows *overflows) {
    free(overflows->infinite);
    overflows->infinite = NULL;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Reads an input and sets the bits of its infinities, indexed by the axes that are not reduced. *bits stays NULL if it
 * has no infinities. */
static enum status search_input(const struct geometry *geometry, const struct run *run, int input,
                                const struct host_reader *reader, unsigned char **bits, struct error *error) {
    const struct operand *operand = &geometry->in[input];
    const struct storage *storage = &run->tiling.in_storage[input];
    struct box whole = box_whole(&operand->shape);
    struct grid grid = {.grain = storage->chunk, .keep_grains = true};
    struct cut cut = cut_box(&whole, storage->filtered ? &grid : NULL, PIECE);
    OWNED void *data = try_malloc((size_t)cut_max_elements(&cut) * dtype_size(operand->dtype) + 1);
    if (!data) return fail(error, STATUS_RUN, "no host memory to count the elements that overflowed");
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        TRY(reader->read(reader->context, input, &piece, data, error));
        if (!has_infinities(operand->dtype, box_elements(&piece), data)) continue;
        if (!*bits) TRY(bits_allocate(kept_elements(geometry, operand), bits, error));
        if (*bits) mark_infinities(geometry, operand, &piece, data, *bits);
    }
    return STATUS_OK;
}

/* Counts the infinities of the result that depend on no infinity of an input. inputs[i] may be NULL: no infinities. */
static int64_t count_unexplained(const struct overflows *overflows, unsigned char *const inputs[]) {
    const struct geometry *geometry = overflows->geometry;
    const struct box whole = box_whole(&geometry->out.shape);
    int64_t at[MAX_RANK] = {0}, loops[LOOPS] = {0}, count = 0, elements = box_elements(&whole);
    for (int64_t i = 0; i < elements; i++, advance(&whole, at)) {
        if (!bit_get(overflows->infinite, i)) continue;
        bool explained = false;
        for (int axis = 0; axis < whole.rank; axis++) loops[geometry->out.loop[axis]] = at[axis];
        for (int input = 0; input < geometry->inputs; input++)
            explained |= inputs[input] && bit_get(inputs[input], kept_index(geometry, &geometry->in[input], loops));
        count += !explained;
    }
    return count;
}

enum status overflows_count(const struct overflows *overflows, const struct run *run, const struct host_reader *reader,
                            int64_t *count, struct error *error) {
    const struct geometry *geometry = overflows->geometry;
    unsigned char *inputs[MAX_INPUTS] = {NULL};
    enum status status = STATUS_OK;
    *count = 0;
    if (!overflows->infinite) return STATUS_OK;
    for (int input = 0; input < geometry->inputs && !status; input++)
        if (dtype_is_float(geometry->in[input].dtype))
            status = search_input(geometry, run, input, reader, &inputs[input], error);
    if (!status) *count = count_unexplained(overflows, inputs);
    for (int input = 0; input < geometry->inputs; input++) free(inputs[input]);
    return status;
}
