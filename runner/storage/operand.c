/* operand.c - maps boxes with merged axes to boxes of arrays, and widens elements. */
#include "operand.h"

#include "../../kernels/core/convert.h"
#include "../../kernels/core/cpu.h"
#include "../../kernels/core/cut.h"

#include "../base/fail.h"
#include "../base/workers.h"

#include <string.h>

#define PIECE   (INT64_C(1) << 18) /* elements that are rearranged at a time */
#define WIDENED (INT64_C(1) << 13) /* elements that one thread widens, or rearranges, at a time */
#define RUN     1024               /* elements that are read in one go of an array without chunks */

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* A chunk of the array, or if it has none, a run of its elements: whole runs keep pieces of a rearranged operand from
 * reading a few elements here and a few there. */
static struct shape chunk_or_run(const struct operand *operand, const struct shape *chunk) {
    if (chunk->rank > 0) return *chunk;
    const struct shape array = operand_array(operand);
    struct shape run = {.rank = array.rank};
    int64_t elements = RUN;
    for (int axis = array.rank - 1; axis >= 0; axis--) {
        run.size[axis] = array.size[axis] < 1 ? 1 : min_int64(array.size[axis], elements);
        elements = ceil_div(elements, run.size[axis]);
    }
    return run;
}

/* The grid of the array's chunks in the unmerged axes of a rearranged operand. */
static struct grid grid_of_part(const struct operand_reading *reading) {
    const struct array *array = reading->reader->array;
    const struct axes *axes = &reading->operand->axes;
    const struct shape of_view = view_grain(&array->view, &array->chunk);
    const struct shape chunk = chunk_or_run(reading->operand, &of_view);
    struct grid grid = {.grain = {.rank = axes->rank}, .keep_grains = true};
    int64_t shift[MAX_RANK];
    view_shift(&array->view, shift);
    for (int axis = 0; axis < axes->rank; axis++) {
        int in_array = axes->array_axis[axis];
        grid.grain.size[axis] = in_array < 0 ? 1 : chunk.size[in_array];
        grid.shift[axis] = in_array < 0 ? 0 : shift[in_array];
    }
    return grid;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* One block of widen_in_place. */
struct operand_widening {
    enum dtype from_type, to_type;
    int64_t count; /* elements of the block */
    const char *from;
    char *to;
};

/* Widens WIDENED elements of a block. */
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

/* Reads a box of the array; hashes and counts fresh elements as the reading wants it. */
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

/* Reads a box of the operand whose elements have the same order in the array. */
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

/* One piece that is rearranged: copies elements of a packed box of the array to their positions in a packed box whose
 * axes have the order of the operand. Rows run along the last axis of several elements. */
struct rearrangement {
    const char *from;
    char *to;
    size_t size; /* bytes of an element */
    int64_t rows, length, from_step, to_step;
    int axes; /* of the rows */
    int64_t count[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK];
};

/* Copies a row of elements whose size is that of `type`. */
#define COPY_ROW(type)                                                                                                 \
    for (int64_t i = 0; i < copy->length; i++)                                                                         \
    ((type *)to)[i * copy->to_step] = ((const type *)from)[i * copy->from_step]

/* Copies about WIDENED elements, in whole rows; elements have 1, 2, 4 or 8 bytes. */
static void rearrange_rows(void *context, int64_t item, int thread) {
    (void)thread;
    const struct rearrangement *copy = context;
    int64_t rows = ceil_div(WIDENED, copy->length), end = min_int64(copy->rows, (item + 1) * rows);
    for (int64_t row = item * rows; row < end; row++) {
        int64_t from_offset = 0, to_offset = 0, rest = row;
        for (int axis = 0; axis < copy->axes; axis++) {
            from_offset += rest % copy->count[axis] * copy->from_stride[axis];
            to_offset += rest % copy->count[axis] * copy->to_stride[axis];
            rest /= copy->count[axis];
        }
        const char *from = copy->from + from_offset * (int64_t)copy->size;
        char *to = copy->to + to_offset * (int64_t)copy->size;
        switch (copy->size) {
        case 1: COPY_ROW(uint8_t); break;
        case 2: COPY_ROW(uint16_t); break;
        case 4: COPY_ROW(uint32_t); break;
        default: COPY_ROW(uint64_t);
        }
    }
}

/* Copies the packed elements of `box` of the array to `piece` of the packed elements `to` of `part`. The last axis of
 * several elements makes the rows that are copied; the other axes number them. */
static void rearrange(const struct axes *axes, const struct box *part, const struct box *piece, const struct box *box,
                      const char *from, size_t size, char *to) {
    struct rearrangement copy = {.from = from, .size = size, .rows = 1, .length = 1};
    int64_t array_stride[MAX_RANK] = {0}, elements = 1, to_stride = 1;
    copy.to = to;
    for (int axis = box->rank - 1; axis >= 0; elements *= box->count[axis--]) array_stride[axis] = elements;
    for (int axis = axes->rank - 1; axis >= 0; to_stride *= part->count[axis--]) {
        int64_t from_stride = axes->array_axis[axis] < 0 ? 0 : array_stride[axes->array_axis[axis]];
        copy.to += (piece->start[axis] - part->start[axis]) * to_stride * (int64_t)size;
        if (piece->count[axis] == 1) continue;
        if (copy.length == 1) {
            copy.length = piece->count[axis], copy.from_step = from_stride, copy.to_step = to_stride;
            continue;
        }
        copy.count[copy.axes] = piece->count[axis];
        copy.from_stride[copy.axes] = from_stride;
        copy.to_stride[copy.axes++] = to_stride;
        copy.rows *= piece->count[axis];
    }
    workers_run(ceil_div(copy.rows, ceil_div(WIDENED, copy.length)), rearrange_rows, &copy);
}

/* Reads a box of a rearranged operand, in pieces of whole chunks. A repeated element is fresh only where it is first
 * read. */
static enum status read_rearranged(void *context, const struct box *part, struct error *error) {
    struct transfer *transfer = context;
    const struct operand_reading *reading = transfer->reading;
    const struct axes *axes = &transfer->operand->axes;
    int64_t size = (int64_t)dtype_size(reading->reader->array->dtype);
    int64_t wide = (int64_t)dtype_size(transfer->operand->dtype);
    const struct grid grid = grid_of_part(reading);
    struct cut cut = cut_box(part, &grid, PIECE);
    OWNED char *memory = must_malloc((size_t)(cut_max_elements(&cut) * wide));
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number), box = box_in_array(transfer->operand, &piece);
        bool fresh = reading->fresh;
        for (int axis = 0; axis < axes->rank; axis++)
            fresh = fresh && (axes->array_axis[axis] >= 0 || piece.start[axis] == 0);
        int64_t elements = box_elements(&box);
        TRY(read_in_array(reading, &box, fresh, memory + elements * (wide - size), error));
        widen_in_place(reading, elements, memory);
        rearrange(axes, part, &piece, &box, memory, (size_t)wide, transfer->data);
    }
    transfer->data += box_elements(part) * wide;
    return STATUS_OK;
}

enum status operand_read(const struct operand_reading *reading, const struct box *box, void *data,
                         struct error *error) {
    struct transfer transfer = {.operand = reading->operand, .reading = reading, .data = data};
    box_callback *read = operand_is_rearranged(reading->operand) ? read_rearranged : read_in_order;
    return operand_boxes(reading->operand, box, read, &transfer, error);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Passes a box of the array and its elements to the visitor. */
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

struct shape operand_grain(const struct operand *operand, const struct shape *of_array, int64_t shift[MAX_RANK]) {
    const struct axes *axes = &operand->axes;
    struct shape grain = {.rank = 0};
    int64_t merged_shift[MAX_RANK] = {0};
    if (operand_is_plain(operand)) return *of_array;
    if (!operand_is_rearranged(operand) && of_array->rank == 0) return grain;
    const struct shape chunk = chunk_or_run(operand, of_array);
    for (int group = 0, axis = 0; group < axes->groups; group++) {
        int64_t inner_elements = 1;
        int end = axis + axes->group[group];
        for (int i = end - 1; i >= axis; i--) { /* find the outermost axis along which a chunk has several elements */
            int64_t size = axes->array_axis[i] < 0 ? 1 : chunk.size[axes->array_axis[i]];
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
