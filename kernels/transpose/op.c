/* transpose/op.c - swaps the last two axes of a matrix or a stack, bit for bit. */
#include "../core/reference.h"

#include "../core/convert.h"
#include "../core/cpu.h"

/* operation->geometry. The last two loops are LOOP_M and LOOP_N; they change places in the result. */
static enum status transpose_geometry(const struct op_options *options, const struct shape shapes[],
                                      const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    int rank = shapes[0].rank;
    char text[SHAPE_TEXT];
    if (rank < 2)
        return fail_key(error, "inputs", 0, "transpose takes a matrix or a stack of them, the input has shape %s",
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

/* ---- the truth --------------------------------------------------------------------------------------------------- */

#define SQUARE 32 /* rows and columns transposed at a time, so that both sides stay in the cache */

/* Copies packed matrices of `rows` x `columns`, transposed: element (r, c) of matrix b goes to
 * to[b * matrix_stride + c * pitch + r]. One loop does all matrices, because a stack may have millions and starting a
 * loop on all cores takes microseconds. */
static void transpose_matrices(const int64_t *from, int64_t matrices, int64_t rows, int64_t columns, int64_t *to,
                               int64_t matrix_stride, int64_t pitch) {
#pragma omp parallel for collapse(2) if (matrices * rows * columns > CPU_ALONE)
    for (int64_t b = 0; b < matrices; b++)
        for (int64_t column = 0; column < columns; column += SQUARE)
            for (int64_t row = 0; row < rows; row += SQUARE)
                for (int64_t c = column; c < min_int64(column + SQUARE, columns); c++)
                    for (int64_t r = row; r < min_int64(row + SQUARE, rows); r++)
                        to[b * matrix_stride + c * pitch + r] = from[(b * rows + r) * columns + c];
}

/* operation->reference: reads the input in pieces, and copies each piece transposed to its place in the truth. */
static enum status transpose_reference(const struct geometry *geometry, const struct host_reader *reader,
                                       const struct box *box, struct truth *truth, struct error *error) {
    int rank = box->rank, row = rank - 2, column = rank - 1; /* axes */
    struct box swapped = *box;
    swapped.start[row] = box->start[column], swapped.count[row] = box->count[column];
    swapped.start[column] = box->start[row], swapped.count[column] = box->count[row];
    struct cut cut = pieces_of(&swapped);
    struct piece piece;
    enum status status = piece_allocate(&piece, min_int64(PIECE_ELEMENTS, box_elements(box)), error);
    for (int64_t number = 0; number < cut.pieces && status == STATUS_OK; number++) {
        struct box part = cut_piece(&cut, number);
        status = reader->read(reader->context, 0, &part, piece.raw, error);
        if (status != STATUS_OK) break;
        convert_to_integer(dtype_of_bits(geometry->in[0].dtype), piece.raw, box_elements(&part), piece.integer);
        int64_t matrices = rank == 3 ? part.count[0] : 1, first = rank == 3 ? part.start[0] - box->start[0] : 0;
        int64_t r = first * box->count[row] + part.start[column] - box->start[row], pitch = box->count[column];
        transpose_matrices(piece.integer, matrices, part.count[row], part.count[column],
                           truth->integer + r * pitch + part.start[row] - box->start[column], box->count[row] * pitch,
                           pitch);
    }
    piece_free(&piece);
    return status;
}

static struct tolerance transpose_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)geometry, (void)accuracy;
    return (struct tolerance){0, 0};
}

const struct operation operation_transpose = {
    .name = "transpose",
    .summary = "swaps the last two axes",
    .min_inputs = 1,
    .inputs = 1,
    .dimensions = 2,
    .geometry = transpose_geometry,
    .merge = transpose_merge_axes,
    .launch = transpose_launch,
    .reference = transpose_reference,
    .unit = unit_of_input,
    .long_name = long_name_of_input,
    .tolerance = transpose_tolerance,
    .exact = true,
};
