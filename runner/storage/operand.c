/* operand.c - maps boxes with merged axes to boxes of arrays, and widens elements. */
#include "operand.h"

#include "../../kernels/core/convert.h"

#include "../base/fail.h"
#include "../base/workers.h"

#include <string.h>

#define PIECE   (INT64_C(1) << 18) /* elements that are rearranged at a time */
#define WIDENED (INT64_C(1) << 13) /* elements that one thread widens at a time */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* One block of widen_in_place. */
struct operand_widening {
    enum dtype from_type, to_type;
    int64_t count; /* elements of the block */
    const char *from;
    char *to;
};

static void widen_some(void *context, int64_t item, int thread) {
    (void)thread;
    const struct operand_widening *block = context;
    int64_t start = item * WIDENED, remaining = block->count - start;
    struct casts ignored = {0}; /* a wider type loses nothing but rounding */
    convert_elements(block->from_type, block->from + start * (int64_t)dtype_size(block->from_type),
                     remaining < WIDENED ? remaining : WIDENED, block->to_type,
                     block->to + start * (int64_t)dtype_size(block->to_type), &ignored);
}

/* Widens elements in place. The narrow ones are at the end of the memory; blocks are widened from the front, so none is
 * overwritten before it is read. */
static void widen_in_place(const struct operand_reading *reading, int64_t count, void *elements) {
    char *data = elements;
    enum dtype from = reading->reader->array->dtype, to = reading->operand->dtype;
    int64_t size = (int64_t)dtype_size(from), wide = (int64_t)dtype_size(to);
    const char *narrow = data + count * (wide - size);
    if (from == to || count == 0) return;
    OWNED char *memory = must_malloc((size_t)((count < PIECE ? count : PIECE) * size));
    for (int64_t start = 0; start < count; start += PIECE) {
        struct operand_widening block = {from, to, count - start < PIECE ? count - start : PIECE, memory,
                                         data + start * wide};
        memcpy(memory, narrow + start * size, (size_t)(block.count * size));
        workers_run((block.count + WIDENED - 1) / WIDENED, widen_some, &block);
    }
}

/* One call of operand_read or operand_for_each. */
struct transfer {
    const struct operand *operand;
    const struct operand_reading *reading; /* operand_read */
    const struct operand_visitor *visitor; /* operand_for_each */
    char *data;                            /* elements of the next box */
};

/* Maps a box in the axes of the operand to a box of the array. */
static struct box box_in_array(const struct operand *operand, const struct box *part) {
    const struct axes *axes = &operand->axes;
    if (operand_is_plain(operand)) return *part;
    struct box box = {.rank = axes->array_rank, .count = {1, 1, 1, 1, 1, 1, 1, 1}};
    for (int axis = 0; axis < axes->rank; axis++) {
        if (axes->array_axis[axis] < 0) continue;
        box.start[axes->array_axis[axis]] = part->start[axis];
        box.count[axes->array_axis[axis]] = part->count[axis];
    }
    return box;
}

static enum status read_in_array(const struct operand_reading *reading, const struct box *box, bool fresh, void *data,
                                 struct error *error) {
    struct reader *reader = reading->reader;
    struct read_counts before = reader->counts;
    if (fresh && reading->hashed)
        TRY(reader_read_hashed(reader, box, data, reading->trace, error));
    else
        TRY(reader_read(reader, box, data, reading->trace, error));
    if (fresh && reading->counted) reader_casts_add(reader, &before, box);
    return STATUS_OK;
}

static enum status read_in_order(void *context, const struct box *part, struct error *error) {
    struct transfer *transfer = context;
    const struct operand_reading *reading = transfer->reading;
    struct box box = box_in_array(transfer->operand, part);
    int64_t elements = box_elements(&box), size = (int64_t)dtype_size(reading->reader->array->dtype);
    int64_t wide = (int64_t)dtype_size(reading->operand->dtype);
    TRY(read_in_array(reading, &box, reading->fresh, transfer->data + elements * (wide - size), error));
    widen_in_place(reading, elements, transfer->data);
    transfer->data += elements * wide;
    return STATUS_OK;
}

/* Copies elements of a packed box of the array into the order of `axes`, where the last axis is contiguous. */
static void rearrange(const struct operand *operand, const struct box *part, const struct box *box, const char *from,
                      size_t size, char *to) {
    const struct axes *axes = &operand->axes;
    /* In elements: array_stride along the axes of `box`, axis_stride along those of `part`; `at`: index in `part`. */
    int64_t axis_stride[MAX_RANK] = {0}, array_stride[MAX_RANK] = {0}, at[MAX_RANK] = {0}, offset = 0;
    int64_t remaining = box_elements(part);
    int last = axes->rank - 1;
    for (int64_t axis = box->rank - 1, elements = 1; axis >= 0; axis--) {
        array_stride[axis] = elements;
        elements *= box->count[axis];
    }
    for (int axis = 0; axis <= last; axis++)
        axis_stride[axis] = axes->array_axis[axis] < 0 ? 0 : array_stride[axes->array_axis[axis]];
    while (remaining > 0) {
        int64_t run = part->count[last];
        for (int64_t i = 0; i < run; i++, to += size)
            memcpy(to, from + (offset + i * axis_stride[last]) * (int64_t)size, size);
        remaining -= run;
        for (int axis = last - 1; axis >= 0; axis--) {
            offset += axis_stride[axis];
            if (++at[axis] < part->count[axis]) break;
            offset -= at[axis] * axis_stride[axis];
            at[axis] = 0;
        }
    }
}

/* Reads pieces that are adjacent in the packed box. A repeated element is fresh only where it is first read. */
static enum status read_rearranged(void *context, const struct box *part, struct error *error) {
    struct transfer *transfer = context;
    const struct operand_reading *reading = transfer->reading;
    const struct operand *operand = transfer->operand;
    size_t size = dtype_size(reading->reader->array->dtype);
    int64_t wide = (int64_t)dtype_size(operand->dtype);
    struct cut cut = cut_box(part, NULL, PIECE);
    OWNED char *memory = must_malloc((size_t)PIECE * size);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number), box = box_in_array(operand, &piece);
        bool fresh = reading->fresh;
        for (int axis = 0; axis < operand->axes.rank; axis++)
            fresh = fresh && (operand->axes.array_axis[axis] >= 0 || piece.start[axis] == 0);
        TRY(read_in_array(reading, &box, fresh, memory, error));
        int64_t elements = box_elements(&piece);
        rearrange(operand, &piece, &box, memory, size, transfer->data + elements * (wide - (int64_t)size));
        widen_in_place(reading, elements, transfer->data);
        transfer->data += elements * wide;
    }
    return STATUS_OK;
}

enum status operand_read(const struct operand_reading *reading, const struct box *box, void *data,
                         struct error *error) {
    struct transfer transfer = {.operand = reading->operand, .reading = reading, .data = data};
    box_callback *read = operand_is_rearranged(reading->operand) ? read_rearranged : read_in_order;
    return operand_boxes(reading->operand, box, read, &transfer, error);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static enum status transfer_box(void *context, const struct box *part, struct error *error) {
    struct transfer *transfer = context;
    struct box box = box_in_array(transfer->operand, part);
    TRY(transfer->visitor->visit(transfer->visitor->context, &box, transfer->data, error));
    transfer->data += box_elements(&box) * (int64_t)dtype_size(transfer->operand->dtype);
    return STATUS_OK;
}

enum status operand_for_each(const struct operand *operand, const struct box *box, void *data,
                             const struct operand_visitor *visitor, struct error *error) {
    struct transfer transfer = {.operand = operand, .visitor = visitor, .data = data};
    return operand_boxes(operand, box, transfer_box, &transfer, error);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

struct shape operand_grain(const struct operand *operand, const struct shape *chunk, int64_t shift[MAX_RANK]) {
    const struct axes *axes = &operand->axes;
    struct shape grain = {.rank = 0};
    int64_t merged_shift[MAX_RANK] = {0};
    if (operand_is_plain(operand)) return *chunk;
    if (operand_is_rearranged(operand) || chunk->rank == 0) return grain;
    for (int group = 0, axis = 0; group < axes->groups; group++) {
        int64_t inner_elements = 1;
        int end = axis + axes->group[group];
        for (int i = end - 1; i >= axis; i--) { /* find the outermost axis along which a chunk has several elements */
            int64_t size = axes->array_axis[i] < 0 ? 1 : chunk->size[axes->array_axis[i]];
            if (size > 1 || i == end - 1) {
                grain.size[group] = size * inner_elements;
                merged_shift[group] =
                    shift && axes->array_axis[i] >= 0 ? shift[axes->array_axis[i]] * inner_elements : 0;
            }
            inner_elements *= axes->size[i];
        }
        if (axes->group[group] == 0) grain.size[group] = 1;
        axis = end;
    }
    grain.rank = axes->groups;
    if (shift) memcpy(shift, merged_shift, sizeof merged_shift);
    return grain;
}
