/* op_transpose.c - swaps the last two axes of a matrix or a stack, bit for bit. */
#include "../core/reference.h"

#include "../core/cpu.h"
#include <math.h>

static enum status transpose_geometry(const struct op_options *options, const struct shape shapes[],
                                      const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    int rank = shapes[0].rank;
    char text[SHAPE_TEXT];
    if (rank < 2)
        return fail(error, STATUS_USAGE, "transpose takes a matrix or a stack of them, the input has shape %s",
                    shape_format(&shapes[0], text));
    *geometry = (struct geometry){.op = OP_TRANSPOSE, .options = *options, .extent = {1, 1, 1, 1}, .inputs = 1};
    struct operand *in = &geometry->in[0], *out = &geometry->out;
    *in = (struct operand){.dtype = dtypes[0], .shape = shapes[0], .loop = {LOOP_B}};
    in->loop[rank - 2] = LOOP_M;
    in->loop[rank - 1] = LOOP_N;
    for (int axis = 0; axis < rank; axis++) geometry->extent[in->loop[axis]] = in->shape.size[axis];
    *out = *in;
    for (int swapped = 1; swapped <= 2; swapped++) {
        out->loop[rank - swapped] = in->loop[rank - 3 + swapped];
        out->shape.size[rank - swapped] = in->shape.size[rank - 3 + swapped];
    }
    geometry->bytes = 2.0 * (double)shape_elements(&in->shape) * (double)dtype_size(in->dtype);
    shape_format(&in->shape, geometry->shape_text);
    return STATUS_OK;
}

static void transpose_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                             const void *const in[], void *partial, void *out, struct launch *launch) {
    (void)first, (void)last, (void)partial; /* nothing is reduced */
    launch->op = OP_TRANSPOSE;
    launch->dtype = geometry->in[0].dtype;
    launch->args.transpose = (struct transpose_args){
        .batch = tile->count[LOOP_B], .rows = tile->count[LOOP_M], .cols = tile->count[LOOP_N], .x = in[0], .y = out};
}

/* The place of an element of the swapped piece in the output's box. */
static int64_t place(const struct box *out, const struct box *piece, int64_t element) {
    int rank = out->rank;
    int64_t at[MAX_RANK] = {0};
    for (int axis = rank - 1; axis >= 0; axis--) {
        at[axis] = piece->start[axis] + element % piece->count[axis];
        element /= piece->count[axis];
    }
    int64_t row = at[rank - 1] - out->start[rank - 2], column = at[rank - 2] - out->start[rank - 1];
    int64_t matrix = rank == 3 ? at[0] - out->start[0] : 0;
    return (matrix * out->count[rank - 2] + row) * out->count[rank - 1] + column;
}

static enum status transpose_reference(const struct geometry *geometry, const struct host_reader *reader,
                                       const struct box *box, struct truth *truth, struct error *error) {
    int rank = box->rank;
    struct box swapped = *box;
    for (int i = 1; i <= 2; i++) {
        swapped.start[rank - i] = box->start[rank - 3 + i];
        swapped.count[rank - i] = box->count[rank - 3 + i];
    }
    bool integral = !dtype_is_float(geometry->in[0].dtype);
    struct piece piece;
    int64_t pieces = piece_count(&swapped);
    enum status status = piece_allocate(&piece, min_int64(PIECE_ELEMENTS, box_elements(box)), error);
    for (int64_t number = 0; number < pieces && status == STATUS_OK; number++) {
        struct box part = piece_box(&swapped, number);
        status = piece_read(&piece, geometry, reader, 0, &part, error);
        for (int64_t i = 0, count = box_elements(&part); i < count && status == STATUS_OK; i++) {
            int64_t at = place(box, &part, i);
            truth->value[at] = piece.value[i];
            truth->magnitude[at] = fabs(piece.value[i]);
            if (integral) truth->integer[at] = piece.integer[i];
        }
    }
    piece_free(&piece);
    return status;
}

static double transpose_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)geometry, (void)accuracy;
    return 0;
}

const struct operation operation_transpose = {
    .name = "transpose",
    .summary = "swaps the last two axes",
    .inputs = 1,
    .geometry = transpose_geometry,
    .launch = transpose_launch,
    .reference = transpose_reference,
    .tolerance = transpose_tolerance,
};
