/* pieces.c - assembles boxes from the data sets that hold parts of them. */
#include "pieces.h"

#include "../../kernels/core/cut.h"

#include "../base/fail.h"
#include "elements/layout.h"
#include "h5/h5io.h"
#include <stdlib.h>
#include <string.h>

enum { PIECES_OPEN = 16 }; /* data sets that are open at the same time */
#define BAND_BYTES (INT64_C(16) << 20)

struct piece {
    struct reader reader;
    struct box place; /* position in the array */
};

struct pieces {
    struct array plain; /* the array that readers of pieces see: whole, and not an input */
    int count, next;    /* `next`: entry of `open` that is replaced next */
    struct reader *open[PIECES_OPEN];
    struct piece of[];
};

struct pieces *pieces_create(const struct array *array, int count) {
    struct pieces *pieces = must_malloc(sizeof *pieces + (size_t)count * sizeof *pieces->of);
    *pieces = (struct pieces){.count = count};
    pieces->plain = (struct array){.name = array->name, .label = array->label, .dtype = array->dtype};
    pieces->plain.shape = array->shape;
    if (!array->input) pieces->plain.decoding = array->decoding, pieces->plain.packed = array->packed;
    for (int i = 0; i < count; i++) {
        pieces->of[i] = (struct piece){.place.rank = array->shape.rank};
        reader_init(&pieces->of[i].reader, &pieces->plain);
    }
    return pieces;
}

void pieces_set(struct pieces *pieces, int number, const struct box *place, const char *file, const char *object,
                const struct stat *version) {
    struct piece *piece = &pieces->of[number];
    piece->place = *place;
    reader_set_dataset(&piece->reader, file, object);
    piece->reader.version = *version;
}

/* Opens the reader of a piece, and closes the one that was opened PIECES_OPEN pieces before. */
static enum status open_piece(struct pieces *pieces, struct reader *reader, struct error *error) {
    if (reader->dataset) return STATUS_OK;
    struct reader **entry = &pieces->open[pieces->next];
    if (*entry) reader_close(*entry);
    *entry = reader;
    pieces->next = (pieces->next + 1) % PIECES_OPEN;
    return reader_open(reader, error);
}

struct pieces *pieces_of_parts(const struct array *array, const char *object) {
    const struct array_parts *parts = array->parts;
    struct pieces *pieces = pieces_create(array, parts->count);
    for (int i = 0; i < parts->count; i++) {
        pieces_set(pieces, i, &parts->of[i].place, parts->of[i].file, object, &parts->of[i].version);
        pieces->of[i].reader.foreign = true;
        pieces->of[i].reader.field = array->input->field;
        if (!array->packed) pieces->of[i].reader.decoding = parts->of[i].decoding;
    }
    return pieces;
}

enum status pieces_open_first(struct pieces *pieces, const struct h5_dataset **dataset, struct error *error) {
    TRY(open_piece(pieces, &pieces->of[0].reader, error));
    *dataset = pieces->of[0].reader.dataset;
    return STATUS_OK;
}

void pieces_close(struct pieces *pieces) {
    for (int i = 0; i < pieces->count; i++) reader_close(&pieces->of[i].reader);
    memset(pieces->open, 0, sizeof pieces->open);
}

void pieces_free(struct pieces *pieces) {
    if (!pieces) return;
    for (int i = 0; i < pieces->count; i++) reader_free(&pieces->of[i].reader);
    free(pieces);
}

/* Sets *both to the intersection of two boxes; false: it is empty. */
static bool intersect(const struct box *one, const struct box *other, struct box *both) {
    *both = *one;
    for (int axis = 0; axis < one->rank; axis++) {
        int64_t end = one->start[axis] + one->count[axis], other_end = other->start[axis] + other->count[axis];
        if (other->start[axis] > one->start[axis]) both->start[axis] = other->start[axis];
        both->count[axis] = (end < other_end ? end : other_end) - both->start[axis];
        if (both->count[axis] <= 0) return false;
    }
    return true;
}

/* The box relative to `corner`. */
static struct box relative_to(const struct box *box, const int64_t corner[MAX_RANK]) {
    struct box moved = *box;
    for (int axis = 0; axis < box->rank; axis++) moved.start[axis] -= corner[axis];
    return moved;
}

/* Reads `part` of a piece into its position in `box`, whose packed elements are at `data`. `memory` has room for
 * `part`. */
static enum status read_overlap(struct piece *piece, const struct box *part, const struct box *box, char *data,
                                char *memory, struct trace *trace, struct error *error) {
    int64_t size = (int64_t)dtype_size(piece->reader.array->dtype);
    struct box source = relative_to(part, piece->place.start), target = relative_to(part, box->start);
    struct shape around = {.rank = box->rank};
    memcpy(around.size, box->count, sizeof around.size);
    struct selection all = selection_of_box(&target);
    struct rows rows = layout_rows(&all, &around, true, box_elements(part));
    struct row_run run;
    bool together = rows.walk.rows == 1 && layout_run(&rows, 0, 0, &run);
    if (together) return reader_read(&piece->reader, &source, data + run.in_array * size, trace, error);
    TRY(reader_read(&piece->reader, &source, memory, trace, error));
    for (int64_t number = 0; layout_run(&rows, 0, number, &run); number++)
        memcpy(data + run.in_array * size, memory + run.in_box * size, (size_t)(run.elements * size));
    return STATUS_OK;
}

/* The same in parts of bounded size, cut along the chunks of the piece. */
static enum status read_piece(struct piece *piece, const struct box *part, const struct box *box, char *data,
                              struct trace *trace, struct error *error) {
    const struct h5_dataset *dataset = piece->reader.dataset;
    int64_t size = (int64_t)dtype_size(piece->reader.array->dtype), limit = BAND_BYTES / size;
    int64_t chunk = dataset->filtered ? shape_elements(&dataset->chunk) : 1;
    if (chunk > limit) limit = chunk;
    struct grid grid = {.grain = dataset->chunk};
    for (int axis = 0; axis < part->rank; axis++) grid.shift[axis] = -piece->place.start[axis];
    struct cut cut = cut_box(part, &grid, limit);
    int64_t most = box_elements(part) < limit ? box_elements(part) : limit;
    char *memory = malloc((size_t)(most * size));
    enum status status = STATUS_OK;
    if (!memory) return fail(error, STATUS_IO, "%s: no memory left to read it", piece->reader.file);
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box piece_of_it = cut_piece(&cut, number);
        status = read_overlap(piece, &piece_of_it, box, data, memory, trace, error);
    }
    free(memory);
    return status;
}

enum status pieces_read(struct pieces *pieces, const struct box *box, void *data, struct read_counts *counts,
                        struct trace *trace, struct error *error) {
    for (int i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->of[i];
        struct box part;
        if (!intersect(box, &piece->place, &part)) continue;
        TRY(open_piece(pieces, &piece->reader, error));
        piece->reader.counts = (struct read_counts){0};
        TRY(read_piece(piece, &part, box, data, trace, error));
        read_counts_add(counts, &piece->reader.counts);
        TRY(reader_check(&piece->reader, error));
    }
    return STATUS_OK;
}
